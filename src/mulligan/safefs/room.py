"""
Room on a disk: how much there is, what a directory takes, and keeping some.

What a command writes at its very end must not be what finds the disk full: the files are changed by then. So the room for
it is taken before, by a file that has no name and is gone with the process, and given back right before it is needed. Where a
file system has no such files, nothing is held. Usage is counted as `du` does: whole blocks, directories too, each file once.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from mulligan.errors import NoRoom
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory, write_all
from mulligan.safefs.platform import HERE

_CHUNK = 1 << 20
# What file systems say that know no file without a name, and kernels that do not.
NO_NAMELESS = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS, errno.ENOENT})


def free_bytes(directory: Directory) -> int | None:
    """Returns how much room the disk of a directory has for users, None where the file system does not say."""
    return free_of(os.fstatvfs(directory.fd))


def free_of(disk: os.statvfs_result) -> int | None:
    """Returns the same of a disk that was asked already."""
    if not disk.f_blocks:
        return None  # some network and FUSE file systems know nothing of it
    return disk.f_bavail * disk.f_frsize


def no_room(what: str, need: int, directory: Directory) -> NoRoom:
    """Returns the error for something that needs more bytes than the disk has."""
    from mulligan.model.sizes import format_size

    have = free_bytes(directory)
    left = f"the disk has {format_size(have)}" if have is not None else "the disk is full"
    return NoRoom(
        f"{what} needs {format_size(need)} and {left}. Not saved. Earlier checkpoints are safe.",
        hint="Free space, then run the same command again; mulligan gc frees what no checkpoint needs",
    )


class naming_need:  # noqa: N801 - used like a function
    """Turns a full disk inside into NoRoom, with how many bytes were needed."""

    def __init__(self, what: str, need: int, directory: Directory) -> None:
        self._about = what, need, directory

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            from mulligan.safefs.errors import FULL

            if error.errno in FULL:
                raise no_room(*self._about) from error


class HeldRoom:
    """Some bytes of a disk that no other process gets until it is closed; OSError where there is no room for them."""

    def __init__(self, directory: Directory, size: int, *, unless: int | None = None) -> None:
        """Takes the room, but for a disk that has more than `unless` bytes besides: then nothing is held."""
        self._fd = -1
        if not HERE.nameless_flags or (unless is not None and (free_bytes(directory) or 0) > size + unless):
            return
        try:
            self._fd = syscalls.calls.open(b".", HERE.nameless_flags, 0o600, dir_fd=directory.fd)
        except OSError as error:
            if error.errno not in NO_NAMELESS:
                raise
            return  # nothing is held then: a name of ours in a workspace could stay there
        try:
            for start in range(0, size, _CHUNK):
                write_all(self._fd, bytes(min(_CHUNK, size - start)))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Gives the room back; again is harmless."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            syscalls.calls.close(fd)


_SECTOR = 512


def on_disk(status: os.stat_result) -> int:
    """Returns the bytes that a file or directory takes on the disk."""
    return status.st_blocks * _SECTOR


def disk_usage(directory: Directory) -> int:
    """Returns what a directory and all below it take; what comes and goes at the same time counts or does not."""
    return on_disk(os.fstat(directory.fd)) + _below(directory, set())


def _below(directory: Directory, seen: set[tuple[int, int]]) -> int:
    total = 0
    for name in directory.names():
        with suppress(FileNotFoundError):
            status = directory.stat(name)
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                if (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
            total += on_disk(status)
            if stat.S_ISDIR(status.st_mode):
                with directory.child(name) as below:
                    total += _below(below, seen)
    return total


def whole_blocks(size: int, directory: Directory) -> int:
    """Returns what a new file of so many bytes takes on the disk of a directory."""
    block = os.fstatvfs(directory.fd).f_frsize
    return -(-size // block) * block
