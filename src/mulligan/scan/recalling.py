"""
A glance at what is remembered that the compiled part makes by itself, straight from the log.

It says what `glance.Found` says; nothing is made in Python for a directory that is as it was. What it stands on in Python is
loaded when somebody asks: it is begun before anything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mulligan.safefs.recalling import Recall
    from mulligan.scan.cache import Cache
    from mulligan.scan.glance import Span


class Recalling:
    """A glance that was begun, and goes on by itself."""

    is_kept = True

    def __init__(self, recall: Recall, inode: int, root: int) -> None:
        self._recall = recall
        self._inode = inode
        self._root = root

    @cached_property
    def cache(self) -> Cache:
        """What the log tells; an empty memory, which is never the store's, where Python has to read it."""
        from mulligan.scan.cache import Cache

        told = self._recall.told()
        return Cache.recalled(self._recall, told, self._inode) if told is not None else Cache()

    def found(self, *, index_changed: bool) -> Recalled:
        """Helps to the end and returns what was found; once."""
        self._recall.end(index_changed=index_changed)
        return Recalled(self._recall, self._root)

    def close(self) -> None:
        """Ends what nobody asked for any more; again is harmless."""
        self._recall.stop()


class Recalled:
    """What such a glance found."""

    def __init__(self, recall: Recall, root: int) -> None:
        self._recall = recall
        self._root = root
        told = recall.told()
        self._count = told.directories if told is not None else 0
        self.find, self.path, self.end = recall.find, recall.path, recall.subtree_end

    def __len__(self) -> int:
        return self._count

    def own(self, at: int) -> tuple[int, int, int]:
        """Returns the stat fields of a directory itself."""
        from mulligan.scan.record import HEAD

        ino, mtime, ctime = HEAD.unpack_from(self._recall.record(at))[:3]
        return ino, mtime, ctime

    def files(self, span: Span) -> int:
        """Returns how many files are captured in the directories of a span."""
        return self._recall.files(*span)

    def missing(self, span: Span) -> Iterator[int]:
        """Yields the directories of a span in which something is not captured."""
        at, end = span
        while (at := self._recall.missing(at, end)) < end:
            yield at
            at += 1

    def moved(self, spans: list[Span]) -> list[bytes]:
        """Looks at the directories of some spans once more; returns those that are no longer what they were."""
        from mulligan.scan.glance import restless

        self._recall.look_again()
        found = []
        for at, end in spans:
            while (at := self._recall.moved(at, end)) < end:
                found.append(at)
                at += 1  # noqa: PLW2901 - the next one in the span
        return restless(self._root, {self._recall.path(at): self.own(at) for at in found})
