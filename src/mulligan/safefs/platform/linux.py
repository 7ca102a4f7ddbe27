"""Linux: the calls that Python lacks (renameat2, syncfs, statx, statfs), and those that it has on Linux alone."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
from functools import partial
from struct import Struct

from mulligan.safefs.platform.portable import Capabilities, Portable, checked

_NOREPLACE, _EXCHANGE = 1, 2
_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800
# Linux stamps files with this clock, which stands still for a tick of 1 to 10 ms; Python has no name for it.
_COARSE_CLOCK = 5
_FICLONE = 0x40049409
_kinds: dict[tuple[int, int], int] = {}  # of file systems, by the two numbers that together tell each from all others


class PortableOnLinux(Portable):
    """Linux that plays a system without its own calls, but for the birth of a file, which other systems tell."""

    def born_ns(self, fd: int) -> int:
        """Returns the birth time of an open file by statx; 0 if unknown."""
        import ctypes

        buffer = ctypes.create_string_buffer(256)
        try:
            failed = self.libc.statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, buffer)
        except AttributeError:
            return 0  # a C library older than the call
        found = buffer.raw
        known = int.from_bytes(found[0:4], sys.byteorder) & _STATX_BTIME
        if failed or not known:
            return 0
        seconds = int.from_bytes(found[80:88], sys.byteorder, signed=True)
        return seconds * 1_000_000_000 + int.from_bytes(found[88:92], sys.byteorder)


class Linux(PortableOnLinux):
    """Linux."""

    name = "linux"
    can = Capabilities(exchange=True, open_path=True, sync_all=True, xattr=True, watch=True, clone=True)
    proc = "/proc"
    look_flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    nameless_flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
    advise = staticmethod(os.posix_fadvise)
    not_needed = os.POSIX_FADV_DONTNEED
    listxattr = staticmethod(os.listxattr)
    getxattr = staticmethod(os.getxattr)
    setxattr = staticmethod(os.setxattr)
    stamping_clock = staticmethod(partial(time.clock_gettime_ns, _COARSE_CLOCK))
    uptime_ns = staticmethod(partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME))
    range_locks = (fcntl.F_OFD_SETLK, fcntl.F_OFD_GETLK, Struct("hhqqi4x"))  # type, whence, start, length, process

    def exchange(self, one: bytes, other: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Swaps two names in one step; OSError EINVAL or ENOSYS where the file system cannot."""
        self._renameat2(one, other, src_dir_fd, dst_dir_fd, _EXCHANGE)

    def rename_new(self, old: bytes, new: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Renames only if nothing stands at the new name; FileExistsError otherwise."""
        self._renameat2(old, new, src_dir_fd, dst_dir_fd, _NOREPLACE)

    def _renameat2(self, old: bytes, new: bytes, src: int, dst: int, flags: int) -> None:
        try:
            call = self.libc.renameat2
        except AttributeError:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
        checked(call(src, old, dst, new, flags))

    def sync_all(self, fd: int) -> None:
        """Writes out the file system that holds an open file, and waits for it."""
        checked(self.libc.syncfs(fd))

    def clone(self, source: int, name: bytes, *, dir_fd: int) -> None:
        """Makes a new file share the blocks of an open one until one of them is written (btrfs, XFS, bcachefs, ZFS)."""
        target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
        try:
            fcntl.ioctl(target, _FICLONE, source)
        except OSError:
            os.unlink(name, dir_fd=dir_fd)
            raise
        finally:
            os.close(target)

    def path_of(self, fd: int) -> str:
        """Returns a path that leads to an open file whatever its name is."""
        return f"/proc/self/fd/{fd}"

    def kind_of_disk(self, fd: int) -> int:
        """Returns the number that Linux gives to the kind of file system that holds an open file."""
        # An overlay may have the number of the disk below it, and the number of a device goes to another one day.
        known = os.fstatvfs(fd).f_fsid, os.fstat(fd).st_dev
        if known[0] and known in _kinds:
            return _kinds[known]
        import ctypes

        found = (ctypes.c_long * 64)()
        kind = _kinds[known] = int(found[0]) if not self.libc.fstatfs(fd, found) else 0
        return kind

    def processors(self) -> int:
        """Returns how many processors this process may use."""
        return len(os.sched_getaffinity(0))
