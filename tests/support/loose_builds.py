"""
Builds with one defence removed, as operating systems that lie: what a sweep must catch, or its zeros mean nothing.

The first three open names the way many programs do: after a look, or without one. The rest change what no plan names.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mulligan.safefs.syscalls import Calls


@contextmanager
def replaced(owner: Any, **parts: Any) -> Iterator[None]:
    """Puts other functions in the place of some, for a while."""
    before = {name: getattr(owner, name) for name in parts}
    for name, part in parts.items():
        setattr(owner, name, part)
    try:
        yield
    finally:
        for name, part in before.items():
            setattr(owner, name, part)


class FollowsLinks(Calls):
    """Opens whatever a name leads to."""

    def open(self, name: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """Opens without O_NOFOLLOW."""
        self.look(name, dir_fd)
        return os.open(name, flags & ~os.O_NOFOLLOW, mode, dir_fd=dir_fd)

    def look(self, name: Any, dir_fd: int | None) -> None:
        """Looks first, in the builds that do."""


class LooksThenOpens(FollowsLinks):
    """Looks whether a name is a link, and then opens it: one may have come in between."""

    def look(self, name: Any, dir_fd: int | None) -> None:
        """Refuses a link."""
        if dir_fd is not None and os.path.islink(f"/proc/self/fd/{dir_fd}/{os.fsdecode(name)}"):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


class ResolvesThenOpens(FollowsLinks):
    """Resolves a name and compares it with the directory it should be in, and then opens it."""

    def look(self, name: Any, dir_fd: int | None) -> None:
        """Refuses what leads elsewhere."""
        if dir_fd is None:
            return
        home = os.path.realpath(f"/proc/self/fd/{dir_fd}")
        if not os.path.realpath(os.path.join(home, os.fsdecode(name))).startswith(home):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


class WritesInPlace(Calls):
    """Looks whether a name is a link, and then writes the new bytes into the file that stands there."""

    def exchange(self, one: bytes, other: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Copies bytes instead of exchanging names; the old ones take the other's place."""
        at = f"/proc/self/fd/{dst_dir_fd}/{os.fsdecode(other)}"
        if os.path.islink(at):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        with open(f"/proc/self/fd/{src_dir_fd}/{os.fsdecode(one)}", "r+b") as new, open(at, "r+b") as old:
            fresh, stale = new.read(), old.read()
            for file, content in ((old, fresh), (new, stale)):
                file.seek(0)
                file.write(content)
                file.truncate()


class Cleans(Calls):
    """Removes whatever lies beside a path that it changes and is not captured, as `git clean` does."""

    def unlink(self, name: bytes, *, dir_fd: int) -> None:
        """Removes more than it was asked to."""
        os.unlink(name, dir_fd=dir_fd)
        self._clean(dir_fd)

    def rename(self, old: bytes, new: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Removes more than it was asked to rename."""
        os.rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self._clean(src_dir_fd)

    def _clean(self, dir_fd: int) -> None:
        for beside in os.listdir(dir_fd):
            if beside.endswith((".skip", ".env")):
                os.unlink(beside, dir_fd=dir_fd)
            elif beside == "build":
                shutil.rmtree(f"/proc/self/fd/{dir_fd}/{beside}", ignore_errors=True)


class Touches(Calls):
    """Gives every file in a directory that it syncs a fresh time."""

    def fsync(self, fd: int) -> None:
        """Syncs, and touches."""
        os.fsync(fd)
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            for name in os.listdir(fd):
                os.utime(name, dir_fd=fd, follow_symlinks=False)


BUILDS: dict[str, Callable[[], Calls]] = {
    "real": Calls,
    "follows": FollowsLinks,
    "lstat": LooksThenOpens,
    "realpath": ResolvesThenOpens,
    "in-place": WritesInPlace,
    "cleans": Cleans,
    "touches": Touches,
}
