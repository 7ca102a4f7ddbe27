"""
An open directory, and what may be done beneath it; and the way down to many of them.

Every method takes one name, never a path, and never follows a symbolic link: a directory that is swapped for a link
between two steps makes the step fail, it does not lead outside.

RACE: a directory that is moved out of the root while it is open stays reachable through its descriptor, and a write to
it lands where it was moved to. Only the owner of the workspace can do that.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from mulligan.safefs import syscalls
from mulligan.safefs.platform import HERE

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO that was swapped in for a file must not hang.
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
IN_CLOUD = "its content is only in the cloud"
CREATE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
CHUNK = 1 << 20
_MARK, _LONGEST_MARK = "user.mulligan.workspace", 64
# What NFS, 9p and older FUSE servers answer to a rename with flags, and what stands in the way of a hard link.
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})  # of this process, not of a file
ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})  # it was removed, or swapped for something else
NO_FLAGS = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP})
NO_LINK = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


class NotRegular(OSError):
    """What stands at the name is not a regular file (any more)."""


def is_in_cloud(st: os.stat_result) -> bool:
    """Returns whether the content of a file or directory is only in the cloud: to read it would download it."""
    return bool(HERE.dataless and st.st_flags & HERE.dataless)  # type: ignore[attr-defined] # only where systems have it


class Directory:
    """One open directory."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def open(cls, path: str | bytes | os.PathLike[str]) -> Directory:
        """Opens a root; the caller has resolved links above it."""
        return cls(syscalls.calls.open(path, DIRECTORY_FLAGS))

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the directory; again is harmless."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            syscalls.calls.close(fd)

    # -- looking --------------------------------------------------------------------------------

    def child(self, name: bytes) -> Directory:
        """Opens a directory in this one; fails on a link."""
        return Directory(syscalls.calls.open(name, DIRECTORY_FLAGS, dir_fd=self.fd))

    def descend(self, path: bytes) -> Directory:
        """Opens a directory any number of levels below, name by name."""
        if not path:
            return Directory(os.dup(self.fd))
        name, _, rest = path.partition(b"/")
        here = self.child(name)
        for each in rest.split(b"/") if rest else ():
            with here:
                below = here.child(each)
            here = below
        return here

    def stat(self, name: bytes) -> os.stat_result:
        """Returns the status of a name, of the link itself if it is one."""
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False)

    def exists(self, name: bytes) -> bool:
        """Returns whether anything stands at the name."""
        try:
            self.stat(name)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def names(self) -> list[bytes]:
        """Returns the names in this directory, unsorted."""
        # btrfs lists only the names that were there when the directory was opened or last rewound, and `listdir` rewinds
        # after it has read.
        os.lseek(self.fd, 0, os.SEEK_SET)
        names = os.listdir(self.fd)
        # One text for all: to turn each into bytes takes four times as long.
        return os.fsencode("/".join(names)).split(b"/") if names else []

    def folds(self, name: bytes) -> bool:
        """Returns whether this directory takes a name that stands in it and the same in the other case for one."""
        other = name.swapcase()
        return self._is_one(name, other) and other not in self.names()

    def _is_one(self, name: bytes, other: bytes) -> bool:
        """Whether two names are those of one file; if both are listed, it has two."""
        try:
            found = [os.stat(each, dir_fd=self.fd, follow_symlinks=False) for each in (name, other)]
        except FileNotFoundError:
            return False
        return os.path.samestat(*found)

    def readlink(self, name: bytes) -> bytes:
        """Returns where a link points."""
        return os.readlink(name, dir_fd=self.fd)

    @contextmanager
    def looking_at(self, name: bytes) -> Iterator[int]:
        """Opens whatever stands at a name, not for its bytes but for its status and attributes, and closes it."""
        fd = syscalls.calls.open(name, HERE.look_flags, dir_fd=self.fd)
        try:
            yield fd
        finally:
            syscalls.calls.close(fd)

    # -- reading files --------------------------------------------------------------------------

    @contextmanager
    def reading(self, name: bytes) -> Iterator[int]:
        """Opens a regular file for reading and closes it; raises NotRegular for anything else."""
        fd = self.open_file(name)
        try:
            yield fd
        finally:
            syscalls.calls.close(fd)

    def open_file(self, name: bytes) -> int:
        """Opens a regular file for reading, for a caller that closes it later; raises NotRegular for anything else."""
        fd = syscalls.calls.open(name, READ_FLAGS, dir_fd=self.fd)
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or is_in_cloud(found):
            syscalls.calls.close(fd)
            raise OSError(errno.ENODATA, IN_CLOUD) if is_in_cloud(found) else NotRegular(name)
        return fd

    def read(self, name: bytes, *, limit: int | None = None) -> bytes:
        """Returns the bytes of a regular file, at most `limit` of them."""
        with self.reading(name) as fd:
            return read_all(fd, limit)

    # -- changing -------------------------------------------------------------------------------

    def create(self, name: bytes, mode: int = 0o600) -> int:
        """Creates a new file with exactly this mode, whatever the umask, and returns its descriptor."""
        return self.made(name, mode)[0]

    def made(self, name: bytes, mode: int) -> tuple[int, os.stat_result]:
        """Creates a new file as `create` does; returns its status too (but for the mode, where the umask had its say)."""
        fd = syscalls.calls.open(name, CREATE_FLAGS, mode, dir_fd=self.fd)
        try:
            status = os.fstat(fd)
            if status.st_mode & 0o7777 != mode:  # to set what is set already would be another write
                syscalls.calls.fchmod(fd, mode)
        except BaseException:
            syscalls.calls.close(fd)
            self.unlink(name, missing_ok=True)
            raise
        return fd, status

    def mkdir(self, name: bytes, mode: int = 0o700) -> None:
        """Makes a directory with exactly this mode, whatever the umask."""
        syscalls.calls.mkdir(name, mode, dir_fd=self.fd)
        with self.child(name) as made:
            syscalls.calls.fchmod(made.fd, mode)

    def symlink(self, target: bytes, name: bytes) -> None:
        """Makes a symbolic link."""
        syscalls.calls.symlink(target, name, dir_fd=self.fd)

    def chmod(self, name: bytes, mode: int, *, inode: int) -> bool:
        """Sets the permissions of a name if it still is this inode; returns whether it was."""
        with self.looking_at(name) as fd:
            if os.fstat(fd).st_ino != inode:
                return False
            if path := HERE.path_of(fd):  # fchmod refuses descriptors that only look
                syscalls.calls.chmod(path, mode)
            else:  # no sync of the whole file system follows there
                from mulligan.safefs.durable import sync

                syscalls.calls.fchmod(fd, mode)
                sync(fd, os.fsdecode(name))
        return True

    def rename(self, name: bytes, new: bytes, *, to: Directory | None = None) -> None:
        """Renames, replacing what stands at the new name."""
        syscalls.calls.rename(name, new, src_dir_fd=self.fd, dst_dir_fd=(to or self).fd)

    def rename_new(self, name: bytes, new: bytes, *, to: Directory | None = None) -> None:
        """Renames what no other process knows of, only if the new name is free; FileExistsError otherwise."""
        try:
            syscalls.calls.rename_new(name, new, src_dir_fd=self.fd, dst_dir_fd=(to or self).fd)
        except OSError as error:
            if error.errno not in NO_FLAGS:
                raise
            self._rename_by_link(name, new, to or self)

    def _rename_by_link(self, name: bytes, new: bytes, there: Directory) -> None:
        """Without flags: a hard link fails on a name that is taken, too."""
        try:
            syscalls.calls.link(name, new, src_dir_fd=self.fd, dst_dir_fd=there.fd, follow_symlinks=False)
        except OSError as error:
            if error.errno not in NO_LINK:
                raise
            # RACE: where a file system has neither flags nor links, a file made right after this look is replaced.
            if there.exists(new):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
            self.rename(name, new, to=there)
            return
        self.unlink(name)

    def link(self, name: bytes, new: bytes, *, to: Directory | None = None) -> None:
        """Gives a file a second name; FileExistsError if that is taken."""
        syscalls.calls.link(name, new, src_dir_fd=self.fd, dst_dir_fd=(to or self).fd, follow_symlinks=False)

    def rename_away(self, name: bytes, secret: bytes, *, to: Directory | None = None) -> None:
        """Renames what others may be writing to, to a name that only the caller knows."""
        try:
            syscalls.calls.rename_new(name, secret, src_dir_fd=self.fd, dst_dir_fd=(to or self).fd)
        except OSError as error:
            if error.errno not in NO_FLAGS:
                raise
            # Not by a link: between link and unlink another process could put a file there, and it would be unlinked.
            self.rename(name, secret, to=to)

    def exchange(self, name: bytes, other: bytes, *, to: Directory | None = None) -> None:
        """Swaps two names in one step."""
        syscalls.calls.exchange(name, other, src_dir_fd=self.fd, dst_dir_fd=(to or self).fd)

    def unlink(self, name: bytes, *, missing_ok: bool = False) -> None:
        """Removes a file or link."""
        try:
            syscalls.calls.unlink(name, dir_fd=self.fd)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rmdir(self, name: bytes) -> None:
        """Removes an empty directory."""
        syscalls.calls.rmdir(name, dir_fd=self.fd)

    def remove_tree(self, name: bytes) -> None:
        """Removes a directory of ours with all below it, never through a link; what is gone is gone. Not for workspaces."""
        try:
            opened = self.child(name)
        except FileNotFoundError:
            return
        with opened as below:
            for inner in below.names():
                try:
                    below.unlink(inner, missing_ok=True)
                except (IsADirectoryError, PermissionError):
                    below.remove_tree(inner)
        with suppress(FileNotFoundError):
            self.rmdir(name)

    # -- its mark -------------------------------------------------------------------------------

    def read_mark(self) -> str:
        """Returns the mark that mulligan gave a workspace's directory, empty where there is none."""
        try:
            found = HERE.getxattr(self.fd, _MARK)
        except OSError:  # no mark, or no such attributes here
            return ""
        text = found.decode("ascii", "replace")
        return text if len(text) <= _LONGEST_MARK and text.isalnum() else ""

    def write_mark(self, mark: str) -> bool:
        """Marks a workspace's directory; returns False where the file system or its permissions do not allow it."""
        try:
            syscalls.calls.setxattr(self.fd, _MARK, mark.encode("ascii"))
        except OSError:
            return False
        return True


class SpelledDirectory(Directory):
    """An open directory in which some names, each with another spelling, stand only if they are listed in exactly this one."""

    __slots__ = ("_spelled",)

    def __init__(self, fd: int, spelled: Mapping[bytes, bytes]) -> None:
        super().__init__(fd)
        self._spelled = spelled

    def child(self, name: bytes) -> Directory:
        """Opens a directory in this one; fails on a link."""
        self._check(name)
        return super().child(name)

    def stat(self, name: bytes) -> os.stat_result:
        """Returns the status of a name, of the link itself if it is one."""
        self._check(name)
        return super().stat(name)

    def rmdir(self, name: bytes) -> None:
        """Removes an empty directory."""
        self._check(name)
        super().rmdir(name)

    def _check(self, name: bytes) -> None:
        other = self._spelled.get(name)
        if other is not None and self._is_one(name, other) and name not in self.names():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def empty_directory(parent: str) -> Directory:
    """Returns an open directory that is empty and has no name: nothing can ever be put in it."""
    with Directory.open(os.path.realpath(parent)) as place:
        name = b".mulligan-" + os.urandom(8).hex().encode()
        place.mkdir(name)
        try:
            return place.child(name)
        finally:
            place.rmdir(name)


def is_missing(path: str) -> bool:
    """Returns whether nothing stands at a path; a path that cannot be looked at is not missing."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def read_all(fd: int, limit: int | None = None, *, expect: int = 0) -> bytes:
    """Returns what an open file holds from here on, at most `limit` bytes; where `expect` is right, without a copy."""
    parts: list[bytes] = []
    chunk = max(CHUNK, expect + 1)
    left = limit if limit is not None else -1
    read = syscalls.calls.read
    while left != 0:
        part = read(fd, chunk if left < 0 else min(left, chunk))
        if not part:
            break
        parts.append(part)
        if left > 0:
            left -= len(part)
    return b"".join(parts) if len(parts) != 1 else parts[0]


def write_all(fd: int, data: bytes) -> None:
    """Writes every byte."""
    view = memoryview(data)
    while view:
        view = view[syscalls.calls.write(fd, view) :]


def append_at(directory: Directory, name: bytes, offset: int, data: bytes) -> None:
    """Cuts an existing file at an offset and writes behind it."""
    fd = syscalls.calls.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory.fd)
    try:
        if os.fstat(fd).st_size != offset:  # to be cut where it ends takes a file system a transaction, too
            syscalls.calls.ftruncate(fd, offset)
        os.lseek(fd, offset, os.SEEK_SET)
        write_all(fd, data)
    finally:
        syscalls.calls.close(fd)


def append(directory: Directory, name: bytes, data: bytes) -> None:
    """Writes behind the end of an existing regular file; raises NotRegular for anything else."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    fd = syscalls.calls.open(name, flags, dir_fd=directory.fd)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NotRegular(name)
        write_all(fd, data)
    finally:
        syscalls.calls.close(fd)


def random_name(size: int) -> str:
    """Returns hexadecimal text from the system's random bytes (the `secrets` module costs 8 ms to import)."""
    return os.urandom(size).hex()


def fair_share_of_files() -> int:
    """Returns how many files one part of the program may hold open: a process may be allowed as few as 64 in all."""
    return os.sysconf("SC_OPEN_MAX") // 8


# Descriptors held open at once; what lies deeper is left to those who can do with less.
DEEPEST = 40


def depth_first(path: bytes) -> bytes:
    """Returns a key by which directories are sorted as a walk meets them."""
    # No name holds a NUL, and nothing sorts before it: what is below a directory follows it, before its next sibling.
    return path.replace(b"/", b"\0")


class Descent:
    """The way from a root to a directory, held open: the next directory is most often near the last one. Use it with `with`."""

    def __init__(self, root: Directory) -> None:
        self._root = root
        self._way: list[tuple[bytes, Directory]] = []  # each with the path that everything below it begins with

    def __enter__(self) -> Descent:
        return self

    def __exit__(self, *_: object) -> None:
        while self._way:
            self._way.pop()[1].close()

    def to(self, path: bytes) -> Directory:
        """Returns a directory, open until the next is asked for; OSError where it, or one above it, cannot be opened."""
        way = self._way
        while way and not (path + b"/").startswith(way[-1][0]):
            way.pop()[1].close()
        known, here = way[-1] if way else (b"", self._root)
        if here.fd < 0:  # closed because too many were open
            here = self._root.descend(known[:-1])
            way[-1] = (known, here)
        for name in path[len(known) :].split(b"/") if len(path) > len(known) else ():
            here, known = here.child(name), known + name + b"/"
            way.append((known, here))
            if len(way) > DEEPEST:
                way[-DEEPEST - 1][1].close()
        return here


def descending(root: Directory, paths: Iterable[bytes]) -> Iterator[int]:
    """
    Yields a descriptor for each path, -1 where it cannot be had; each is open until the next is asked for.

    Cheap where what is below a directory follows it: what two paths have in common is opened once.
    """
    with Descent(root) as descent:
        for path in paths:
            try:
                fd = descent.to(path).fd
            except OSError:
                fd = -1  # gone, swapped for something else, or not to be read: the walk says which
            yield fd
