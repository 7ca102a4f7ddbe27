"""
The seam between mulligan and the operating system.

`calls` is the one object through which the package changes or opens anything. Tests put another in its place with `using`:
one that fails the n-th call, records, or forgets what was not synced. The real one adds nothing but the calls that
Python lacks: renameat2, syncfs and statx.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800


class Calls:
    """The operating system, as it is."""

    open = staticmethod(os.open)
    close = staticmethod(os.close)
    read = staticmethod(os.read)
    pread = staticmethod(os.pread)
    write = staticmethod(os.write)
    fsync = staticmethod(os.fsync)
    ftruncate = staticmethod(os.ftruncate)
    fchmod = staticmethod(os.fchmod)
    fchown = staticmethod(os.fchown)
    mkdir = staticmethod(os.mkdir)
    rmdir = staticmethod(os.rmdir)
    unlink = staticmethod(os.unlink)
    symlink = staticmethod(os.symlink)
    chmod = staticmethod(os.chmod)
    utime = staticmethod(os.utime)
    link = staticmethod(os.link)
    setxattr = staticmethod(os.setxattr)

    @staticmethod
    def rename(old: bytes, new: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Renames, replacing what stands at the new name."""
        os.rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def exchange(self, one: bytes, other: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Swaps two names in one step; OSError EINVAL or ENOSYS where the file system cannot."""
        self._renameat2(one, other, src_dir_fd, dst_dir_fd, RENAME_EXCHANGE)

    def rename_new(self, old: bytes, new: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Renames only if nothing stands at the new name; FileExistsError otherwise."""
        self._renameat2(old, new, src_dir_fd, dst_dir_fd, RENAME_NOREPLACE)

    def syncfs(self, fd: int) -> None:
        """Writes out the whole file system that holds an open file."""
        self._check(self._libc.syncfs(fd))

    def kind_of_disk(self, fd: int) -> int:
        """Returns the number that Linux gives to the kind of file system that holds an open file; 0 elsewhere."""
        # An overlay may have the number of the disk below it, and the number of a device goes to another one day.
        known = os.fstatvfs(fd).f_fsid, os.fstat(fd).st_dev
        if known[0] and known in self._kinds:
            return self._kinds[known]
        import ctypes
        import sys

        found = (ctypes.c_long * 64)()
        kind = int(found[0]) if sys.platform == "linux" and not self._libc.fstatfs(fd, found) else 0
        self._kinds[known] = kind
        return kind

    def born_ns(self, fd: int) -> int:
        """Returns the birth time of an open file by Linux's statx, which Python lacks; 0 where it is not told."""
        import ctypes
        import sys

        buffer = ctypes.create_string_buffer(256)
        try:
            failed = sys.platform != "linux" or self._libc.statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, buffer)
        except AttributeError:
            return 0  # a C library older than the call
        found = buffer.raw
        told = int.from_bytes(found[0:4], sys.byteorder) & _STATX_BTIME
        if failed or not told:
            return 0
        seconds = int.from_bytes(found[80:88], sys.byteorder, signed=True)
        return seconds * 1_000_000_000 + int.from_bytes(found[88:92], sys.byteorder)

    @cached_property
    def _kinds(self) -> dict[tuple[int, int], int]:
        """Of file systems, by the two numbers that together tell each from all others, the kind."""
        return {}

    @cached_property
    def _libc(self) -> Any:
        import ctypes

        return ctypes.CDLL(None, use_errno=True)

    def _renameat2(self, old: bytes, new: bytes, src: int, dst: int, flags: int) -> None:
        try:
            call = self._libc.renameat2
        except AttributeError:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
        self._check(call(src, old, dst, new, flags))

    @staticmethod
    def _check(result: int) -> None:
        if result != 0:
            import ctypes

            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))


calls = Calls()


@contextmanager
def using(other: Calls) -> Iterator[Calls]:
    """Puts another implementation in place of the real one, for a test."""
    global calls  # noqa: PLW0603 - the one switch there is
    real, calls = calls, other
    try:
        yield other
    finally:
        calls = real
