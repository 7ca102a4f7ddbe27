"""Numbers in a store that others see to be in use: what an open guard, or a fork that is being made, still needs."""

from __future__ import annotations

import errno
import fcntl
import os

from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory
from mulligan.safefs.platform import HERE

_PINS = b"pins"
# Larger than any number of a process, and with what is added no larger than a position in a file.
_PINS_FROM = 1 << 61


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
