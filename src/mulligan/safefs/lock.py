"""
One writer at a time.

The lock is an flock on a file that is never removed: it dies with its process, needs no clean-up and cannot be stale.
The file names the holder, for the message of the process that waits.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mulligan.errors import Busy
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory
from mulligan.safefs.platform import HERE

NAME = b"lock"
DEFAULT_WAIT = 2.0
_NOTE = 64
# One who asks rarely loses to those who come and go: at 50 ms, of six processes at work one waited for 20 s and got nothing.
_LONGEST_PAUSE = 0.01
_held: set[int] = set()
_PINS = b"pins"
# Larger than any number of a process, and with what is added no larger than a position in a file.
_PINS_FROM = 1 << 61
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL)


class exclusive:  # noqa: N801 - used like a function; as a generator it took as long as the calls inside
    """Holds the directory's lock; raises Busy, naming the holder, when it cannot be had within `wait` seconds."""

    def __init__(self, directory: Directory, *, wait: float = DEFAULT_WAIT, purpose: str = "write") -> None:
        self._directory, self._wait, self._purpose = directory, wait, purpose

    def __enter__(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = fd = syscalls.calls.open(NAME, flags, 0o600, dir_fd=self._directory.fd)
        try:
            if not _acquire(fd, self._wait):
                raise _busy(fd, self._wait)
            _held.add(fd)
            before, note = os.pread(fd, _NOTE, 0), f"{os.getpid()} {self._purpose}\n".encode().ljust(_NOTE)
            if note != before:
                # Only a courtesy: a full disk must not stop the work for it.
                with suppress(OSError):
                    os.pwrite(fd, note, 0)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        _held.discard(self._fd)
        _release(self._fd)
        syscalls.calls.close(self._fd)


@contextmanager
def alone(directory: Directory, *, wait: float) -> Iterator[bool]:
    """
    Holds a directory against all who ask the same way, and puts nothing into it; yields whether it could be had in time.

    A file system without locks holds no process off.
    """
    # Its own descriptor: the lock goes with it, also when the process is killed.
    with directory.child(b".") as held:
        try:
            got = _acquire(held.fd, wait)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            got = True
        try:
            yield got
        finally:
            _release(held.fd)


def let_go() -> None:
    """In a forked process: gives up its share of the locks that the parent holds. The parent keeps them."""
    while _held:
        syscalls.calls.close(_held.pop())


def _release(fd: int) -> None:
    """Lets go of a lock: a process that another thread forked has the descriptor too, and closing ours would not do."""
    with suppress(OSError):  # there was none, or the file system has none
        fcntl.flock(fd, fcntl.LOCK_UN)


def _acquire(fd: int, wait: float) -> bool:
    deadline, pause = time.monotonic() + wait, 0.002
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        else:
            return True
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def _busy(fd: int, wait: float) -> Busy:
    holder = os.pread(fd, _NOTE, 0).partition(b"\n")[0].split()
    said = b" ".join(holder[1:]).decode("ascii", "replace")
    who = f"process {holder[0].decode('ascii', 'replace')} ({said})" if len(holder) > 1 else "another process"
    return Busy(
        f"The store is in use by {who} and did not become free in {wait:g} s. Nothing was changed.",
        hint="Try again, or wait longer: mulligan --wait 30 …",
    )


def holder(directory: Directory) -> int:
    """Returns the process that holds the directory's lock now, 0 where none does."""
    try:
        fd = syscalls.calls.open(NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0, dir_fd=directory.fd)
    except OSError:
        return 0  # no lock was ever needed here, or it cannot be looked at
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        said = os.pread(fd, _NOTE, 0).split()
        return int(said[0]) if said and said[0].isdigit() else 0
    except OSError:
        return 0  # a file system without locks
    finally:
        _release(fd)
        syscalls.calls.close(fd)
    return 0


# -- pins -------------------------------------------------------------------------------------------


class Pin:
    """
    A number that others see to be in use until it is let go, or its process ends: a lock on one byte of a file.

    The number of a process would not do: in a container that shares the store it is another process, or none.
    LIMIT: on a file system or a system without such locks it is the number of the process all the same.
    """

    def __init__(self, directory: Directory) -> None:
        self.number, self._fd = _PINS_FROM + int.from_bytes(os.urandom(7), "big"), -1
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = syscalls.calls.open(_PINS, flags, 0o600, dir_fd=directory.fd)
        try:
            if HERE.range_locks is None:
                raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
            lock, _, layout = HERE.range_locks
            fcntl.fcntl(fd, lock, layout.pack(fcntl.F_WRLCK, os.SEEK_SET, self.number, 1, 0))
            self._fd = fd
        except OSError:
            self.number = os.getpid()
        finally:
            if self._fd < 0:
                syscalls.calls.close(fd)

    def close(self) -> None:
        """Lets go; again is harmless."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            syscalls.calls.close(fd)


def is_pinned(directory: Directory, number: int) -> bool:
    """Returns whether the process that a pin is of still holds it."""
    if number < _PINS_FROM:
        return is_alive(number)
    if HERE.range_locks is None:
        return True  # what cannot be known to be free is not removed
    try:
        fd = syscalls.calls.open(_PINS, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory.fd)
    except FileNotFoundError:
        return False
    _, ask, layout = HERE.range_locks
    try:
        found = fcntl.fcntl(fd, ask, layout.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
    except OSError:
        return True  # what cannot be known to be free is not removed
    finally:
        syscalls.calls.close(fd)
    return bool(layout.unpack(found)[0] != fcntl.F_UNLCK)


def is_alive(pid: int) -> bool:
    """Returns whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
