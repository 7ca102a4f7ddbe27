"""
Operating systems that lie, one lie each, for `safefs.syscalls.using`.

Every one of them passes each call on to the real system until its moment comes, and counts. `Kills` is a process that
dies inside the engine: from the n-th call on nothing more reaches the disk, whatever clean-up code tries; only
descriptors are still closed, as the kernel would. SQLite's own calls do not pass the seam: the sweeps under strace
cover those.
"""

from __future__ import annotations

import errno
import os
from typing import Any

from mulligan.safefs.syscalls import Calls

NAMES = tuple(name for name in vars(Calls) if not name.startswith("_"))
# What the kernel does for a dead process too, and what no local file system fails.
UNFAILING = frozenset({"close"})
LOOKING = frozenset({"close", "read", "pread"})


class Killed(BaseException):
    """The process died here; not an Exception, so that nothing that handles errors runs."""


class Counting(Calls):
    """The real system; remembers the name of each call."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def meet(self, name: str) -> None:
        """Is told of every call before it happens."""
        self.seen.append(name)

    @property
    def count(self) -> int:
        """How many calls there were."""
        return len(self.seen)


def _passing(name: str) -> Any:
    def call(self: Counting, *args: Any, **kwargs: Any) -> Any:
        self.meet(name)
        return getattr(super(Counting, self), name)(*args, **kwargs)

    call.__name__ = name
    return call


for _name in NAMES:
    setattr(Counting, _name, _passing(_name))


class FailsAt(Counting):
    """The n-th call fails once with an errno; closing never does."""

    def __init__(self, number: int, code: int = errno.EIO) -> None:
        super().__init__()
        self.number = number
        self.code = code
        self.failed = ""

    def meet(self, name: str) -> None:
        if name in UNFAILING:
            return
        super().meet(name)
        if self.count == self.number:
            self.failed = name
            raise OSError(self.code, os.strerror(self.code))


class FailsAlways(Counting):
    """Some calls always fail, as on a file system that lacks them or a disk that broke."""

    def __init__(self, code: int, *names: str) -> None:
        super().__init__()
        self.code = code
        self.names = names

    def meet(self, name: str) -> None:
        super().meet(name)
        if name in self.names:
            raise OSError(self.code, os.strerror(self.code))


class FsyncFailsAt(Counting):
    """The n-th wish for durability is refused; `after` counts those that follow it."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.syncs = 0

    def meet(self, name: str) -> None:
        super().meet(name)
        if name in {"fsync", "syncfs"}:
            self.syncs += 1
            if self.syncs == self.number:
                raise OSError(errno.EIO, os.strerror(errno.EIO))


class KilledAt(Counting):
    """The process dies before its n-th call that can change something (opening counts, reading does not)."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def meet(self, name: str) -> None:
        if name in LOOKING and (name == "close" or self.count < self.number):
            return
        super().meet(name)
        if self.count >= self.number:
            raise Killed(f"{name}, call {self.number}")


class ActsAt(Counting):
    """Somebody else acts right before the n-th call of one name."""

    def __init__(self, name: str, number: int, act: Any) -> None:
        super().__init__()
        self.name = name
        self.number = number
        self.act = act

    def meet(self, name: str) -> None:
        super().meet(name)
        if name == self.name and self.seen.count(name) == self.number:
            self.act()


class ActsWhenStaged(Counting):
    """Somebody else acts when the first temporary of a restore has been written."""

    def __init__(self, act: Any) -> None:
        super().__init__()
        self.act = act

    def close(self, fd: int) -> None:
        if self.act is not None and ".mulligan-" in os.readlink(f"/proc/self/fd/{fd}"):
            act, self.act = self.act, None
            act()
        super().close(fd)
