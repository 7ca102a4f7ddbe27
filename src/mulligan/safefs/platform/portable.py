"""
Any UNIX: nothing but POSIX and what Python has everywhere.

Other platforms are this one and more. A call that is missing raises ENOSYS, as a kernel without it does, and the callers do
the work another way.

LIMIT: without descriptors that only look, a file or directory that its owner may not read keeps its permission bits.
LIMIT: without a call that syncs one file system, names in a directory that cannot be opened are left to `sync`, which some
systems do not wait for.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from functools import cached_property
from struct import Struct
from typing import Any, NamedTuple, NoReturn

# Systems stamp files with a clock that moves in ticks of up to 10 ms, so a stamp may be that much older than the time is.
_TICK_NS = 20_000_000


class Capabilities(NamedTuple):
    """What a platform has; the file system at hand may have less."""

    exchange: bool = False  # two names swapped in one step
    open_path: bool = False  # descriptors that only look, and need no permission to read
    sync_all: bool = False  # one call that makes a whole file system durable
    xattr: bool = False  # extended attributes of files
    watch: bool = False  # notices of changes in directories
    clone: bool = False  # files copied without their bytes


class Portable:
    """A system of which nothing is known."""

    name = "portable"
    can = Capabilities()
    proc = ""  # where the system shows its processes as files; empty where it does not
    look_flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    nameless_flags = 0  # flags that make a file without a name in a directory; 0 where there is no such thing
    #: Where a search for data begins, which waits for writes in progress; negative where there is none.
    seek_data = getattr(os, "SEEK_DATA", -1)
    #: Commands that set and ask a lock on a part of a file that belongs to the open file, and their argument's layout.
    range_locks: tuple[int, int, Struct] | None = None
    not_needed = 0  # the advice that lets the system begin to write out a file
    dataless = 0  # the flag of files whose content is not on this machine
    fsync: Callable[[int], None] = staticmethod(os.fsync)

    @cached_property
    def libc(self) -> Any:
        """The C library, loaded when it is needed: that takes 2 ms."""
        import ctypes

        return ctypes.CDLL(None, use_errno=True)

    def exchange(self, _one: bytes, _other: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Swaps two names in one step; OSError EINVAL or ENOSYS where the file system or the system cannot."""
        _lack((src_dir_fd, dst_dir_fd))

    def rename_new(self, _old: bytes, _new: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Renames only if nothing stands at the new name; FileExistsError otherwise."""
        _lack((src_dir_fd, dst_dir_fd))

    def sync_all(self, _fd: int) -> None:
        """Writes out the file system that holds an open file."""
        os.sync()

    def settle(self, directory: str) -> None:
        """Makes what SQLite committed in a directory durable, where its own way may not be enough."""

    def advise(self, _fd: int, _start: int, _length: int, _advice: int, /) -> None:
        """Tells the system what becomes of a part of a file; only a hint."""

    def path_of(self, _fd: int) -> str:
        """Returns a path that leads to an open file whatever its name is; empty where there is none."""
        return ""

    def listxattr(self, path: str | bytes | int, *, follow_symlinks: bool = True) -> list[str]:
        """Returns the names of a file's extended attributes."""
        _lack((path, follow_symlinks), errno.EOPNOTSUPP)

    def getxattr(self, path: str | bytes | int, attribute: str) -> bytes:
        """Returns one extended attribute."""
        _lack((path, attribute), errno.EOPNOTSUPP)

    def setxattr(self, path: str | bytes | int, attribute: str, value: bytes) -> None:
        """Sets one extended attribute."""
        _lack((path, attribute, value), errno.EOPNOTSUPP)

    def clone(self, source: int, name: bytes, *, dir_fd: int) -> None:
        """Makes a new file share the blocks of an open one until one of them is written; OSError where that is not possible."""
        _lack((source, name, dir_fd), errno.EOPNOTSUPP)

    def kind_of_disk(self, _fd: int) -> int:
        """Returns the number of the kind of file system that holds an open file, as Linux counts; 0 if unknown."""
        return 0

    def born_ns(self, fd: int) -> int:
        """Returns the birth time of an open file; 0 if unknown."""
        return int(getattr(os.fstat(fd), "st_birthtime", 0) * 1_000_000_000)

    def stamping_clock(self) -> int:
        """Returns the time that a file changed now gets at the least, in nanoseconds."""
        return time.time_ns() - _TICK_NS

    def uptime_ns(self) -> int:
        """Returns how long ago the machine was started, as far as the system counts the time it slept."""
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def processors(self) -> int:
        """Returns how many processors this process may use."""
        return os.cpu_count() or 1


def checked(result: int) -> int:
    """Returns what a call of the C library returned; raises OSError where it failed."""
    if result < 0:
        import ctypes

        code = ctypes.get_errno() or errno.EIO
        raise OSError(code, os.strerror(code))
    return result


def _lack(_given: object, code: int = errno.ENOSYS) -> NoReturn:
    raise OSError(code, os.strerror(code))
