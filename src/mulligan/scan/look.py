"""
A look at everything that is remembered, for the directories that are not as their records say.

That is the dirty set of a workspace that is not watched. It is one yes or no for each directory; whatever is answered with no, the
walk looks at, and the walk alone decides, reads and reports. `native/look.c` answers the same question faster.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from mulligan.safefs.clock import Seen, moved_since
from mulligan.safefs.descent import depth_first, descending
from mulligan.safefs.directory import Directory
from mulligan.scan.cache import Cache
from mulligan.scan.record import HEAD, HEAD_SIZE, STAT, Stat, own_in
from mulligan.watch.dirty import EVERYTHING, Dirty

if TYPE_CHECKING:
    from mulligan.safefs.native import Looking


# Loading the native look takes 2 ms, which are 50 directories.
_HELP_DIRECTORIES = 50


class Unwatched:
    """Tells a walk where to look in a workspace that is not watched."""

    def __init__(self) -> None:
        self._same: Seen = {}  # the directories that are as they were
        self._order: list[bytes] = []
        self._looking: Looking | None = None

    def begin(self, root: Directory, cache: Cache, always: Collection[bytes]) -> Dirty:
        """Looks at every directory that is remembered; returns those that are not as they were, and `always` some others."""
        if not len(cache) or cache.is_doubted:
            return EVERYTHING
        order = sorted(cache.paths(), key=depth_first)
        self._order, self._looking = order, None
        if len(order) >= _HELP_DIRECTORIES:
            from mulligan.safefs import native

            self._looking = native.look(root.fd, order, map(cache.packed, order))
        answers = self._looking.answer() if self._looking is not None else _each(root.fd, cache, order)
        same = [path for path, is_same in zip(order, answers, strict=True) if is_same and path not in always]
        self._same = {path: own_in(cache.packed(path)) for path in same}
        return Dirty(dict.fromkeys(path for path in order if path not in self._same))

    def again(self, root: Directory, seen: Seen, since: int, *, settle: bool) -> Dirty | None:
        """Returns the directories that changed while the walk was under way, None where there is none; see `watch.dirty`."""
        if not settle:
            return None
        kept = {path: own for path, own in self._same.items() if path not in seen}
        if self._looking is not None:
            still = zip(self._order, self._looking.begin(again=True).answer(), strict=True)
            kept = {path: kept[path] for path, is_same in still if not is_same and path in kept}
        moving = moved_since(root.fd, seen, since) + moved_since(root.fd, kept)
        return Dirty(dict.fromkeys(moving), moving=tuple(moving)) if moving else None

    def enter(self, path: bytes, fd: int) -> None:
        """Needs nothing."""

    def keeps(self, path: bytes) -> bool:  # noqa: ARG002 - the same for all
        """Returns whether a directory that is not dirty is as it is remembered."""
        return True

    def links(self, directory: bytes, name: bytes) -> None:
        """Needs nothing: every file is looked at."""

    def done(self, changed: Iterable[bytes]) -> None:
        """Needs nothing."""

    def noticed(self) -> None:
        """Returns nothing to be remembered."""

    @property
    def observed(self) -> Mapping[bytes, Stat]:
        """Nothing: whatever is too young to be remembered is read again."""
        return {}


def _each(root: int, cache: Cache, paths: list[bytes]) -> Iterator[bool]:
    device = os.fstat(root).st_dev
    for path, fd in zip(paths, descending(root, paths), strict=True):
        try:
            yield fd >= 0 and _is_same(fd, cache.packed(path), device)
        except (OSError, ValueError):
            yield False  # something vanished, or no record that could be read


def _is_same(fd: int, packed: bytes, device: int) -> bool:
    """Returns whether an open directory and all that was captured in it are as a record says."""
    head, st, look = HEAD.unpack_from(packed), os.fstat(fd), os.stat
    if (st.st_ino, st.st_mtime_ns, st.st_ctime_ns) != head[:3] or st.st_mode & 0o7777 != head[6] or st.st_dev != device:
        return False
    _, _, _, _, _, _, _, _, size, dirs, missed, count, _ = head
    names = packed[HEAD_SIZE : HEAD_SIZE + size].split(b"\0") if count else []
    start = HEAD_SIZE + size + dirs + missed
    for name, want in zip(names, STAT.iter_unpack(packed[start : start + count * STAT.size]), strict=True):
        st = look(name, dir_fd=fd, follow_symlinks=False)
        if (st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns) != want:
            return False
    return True
