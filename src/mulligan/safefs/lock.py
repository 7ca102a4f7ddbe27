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

NAME = b"lock"
DEFAULT_WAIT = 2.0
_NOTE = 64
# One who asks rarely loses to those who come and go: at 50 ms, of six processes at work one waited for 20 s and got nothing.
_LONGEST_PAUSE = 0.01
_held: set[int] = set()
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL)


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
