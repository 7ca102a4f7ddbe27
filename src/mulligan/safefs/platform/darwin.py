"""
macOS: names swapped in one step, files cloned, extended attributes, a flush that reaches the disk, files that are in the cloud.

Numbers and signatures are those of Apple's headers (stdio.h, sys/clonefile.h, sys/xattr.h, sys/fcntl.h, sys/stat.h).

LIMIT: on macOS there is no watcher, so each command scans. No Mac has run this: its calls are tested against a recorder.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import Any

from mulligan.safefs.platform.portable import Capabilities, Portable, checked

_RENAME_SWAP, _RENAME_EXCL = 2, 4
_XATTR_NOFOLLOW = 1
_CLONE_NOOWNERCOPY = 2
_SYSTEMS_OWN = frozenset({b"com.apple.provenance", b"com.apple.macl"})
_FULL_FSYNC = 51
# What a file system answers that has nothing stronger than a plain fsync.
_NO_FULL_FSYNC = frozenset({errno.ENOTSUP, errno.EINVAL, errno.ENOTTY})


class Darwin(Portable):
    """macOS."""

    name = "darwin"
    can = Capabilities(exchange=True, xattr=True, clone=True)
    dataless = 0x40000000  # SF_DATALESS: reading such a file would download it

    def exchange(self, one: bytes, other: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Swaps two names in one step; OSError ENOTSUP where the file system cannot."""
        checked(self.libc.renameatx_np(src_dir_fd, one, dst_dir_fd, other, _RENAME_SWAP))

    def rename_new(self, old: bytes, new: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Renames only if nothing stands at the new name; FileExistsError otherwise."""
        checked(self.libc.renameatx_np(src_dir_fd, old, dst_dir_fd, new, _RENAME_EXCL))

    def clone(self, source: int, name: bytes, *, dir_fd: int) -> None:
        """Makes a new file share the blocks of an open one, with its attributes and the owner of this process (APFS)."""
        checked(self.libc.fclonefileat(source, dir_fd, name, _CLONE_NOOWNERCOPY))

    def fsync(self, fd: int) -> None:
        """Makes an open file durable: a plain fsync leaves the drive's cache unwritten."""
        try:
            fcntl.fcntl(fd, _FULL_FSYNC)
        except OSError as error:
            if error.errno not in _NO_FULL_FSYNC:
                raise
            os.fsync(fd)  # a file system that has nothing stronger

    def settle(self, directory: str) -> None:
        """Makes a commit of SQLite durable: Apple's own SQLite may only ask the drive to keep the order of writes."""
        fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.fsync(fd)
        finally:
            os.close(fd)

    # -- extended attributes --------------------------------------------------------------------

    def listxattr(self, path: str | bytes | int, *, follow_symlinks: bool = True) -> list[str]:
        """Returns the names of a file's extended attributes but for those that the system alone may set."""
        data = self._attribute("listxattr", path, (), (), follow=follow_symlinks)
        return [os.fsdecode(name) for name in data.split(b"\0") if name and name not in _SYSTEMS_OWN]

    def getxattr(self, path: str | bytes | int, attribute: str) -> bytes:
        """Returns one extended attribute."""
        return self._attribute("getxattr", path, (os.fsencode(attribute),), (0,))

    def setxattr(self, path: str | bytes | int, attribute: str, value: bytes) -> None:
        """Sets one extended attribute."""
        call, target = self._of("setxattr", path)
        checked(call(target, os.fsencode(attribute), value, len(value), 0, 0))

    def _attribute(
        self,
        name: str,
        path: str | bytes | int,
        named: tuple[bytes, ...],
        position: tuple[int, ...],
        *,
        follow: bool = True,
    ) -> bytes:
        """Asks for the size of an answer, then for the answer; again where it grew in between."""
        import ctypes

        call, target = self._of(name, path)
        options = 0 if follow else _XATTR_NOFOLLOW
        while True:
            size = checked(call(target, *named, None, 0, *position, options))
            buffer = ctypes.create_string_buffer(size or 1)
            try:
                size = checked(call(target, *named, buffer, size, *position, options))
                return buffer.raw[:size]
            except OSError as error:
                if error.errno != errno.ERANGE:
                    raise

    def _of(self, name: str, path: str | bytes | int) -> tuple[Any, int | bytes]:
        """Returns the call of that name, for a path or for an open file, and its first argument."""
        if isinstance(path, int):
            return getattr(self.libc, f"f{name}"), path
        return getattr(self.libc, name), os.fsencode(path)
