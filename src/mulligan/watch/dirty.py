"""
Where a walk has to look: everywhere, or where something happened since the stat cache was written.

A `Dirty` set names directories. `Marks` collect what a watcher notices, relative to the records of one stat cache: a mark goes
only when a checkpoint holds what a walk found there, so a walk that was not kept (a diff, a failed save) takes none away.
Both may name too much, never too little.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.model.paths import join, parent_of
from mulligan.safefs.clock import Seen, moved_since
from mulligan.safefs.directory import Directory

if TYPE_CHECKING:
    from mulligan.watch.watcher import Touched, Watcher

Names = frozenset[bytes] | None  # None: the directory as a whole
_NOTHING: Mapping[bytes, frozenset[bytes]] = MappingProxyType({})


class Dirty(NamedTuple):
    """
    The directories to look at, each with the names in it that may have changed, None for all of them.

    What is remembered of the names that were `written` proves nothing. Of those that are `deep`, everything below is looked
    at too. In those that are `moving`, names came or went while they were looked at.
    """

    places: Mapping[bytes, Names]
    written: Mapping[bytes, frozenset[bytes]] = _NOTHING
    deep: frozenset[bytes] = frozenset()
    moving: tuple[bytes, ...] = ()


EVERYTHING = Dirty({b"": None}, deep=frozenset({b""}))


class Mark(NamedTuple):
    """What happened in a directory: with which notices it was last, to which names, and whether those tell all of it."""

    number: int
    names: frozenset[bytes]
    whole: bool


class Marks:
    """What a watcher noticed since the stat cache was last written."""

    def __init__(self, cache: object) -> None:
        self.cache = cache
        self.number = 0
        self.linked: set[bytes] = set()  # files with several names: a write through one is noticed at that one only
        self.observed: dict[bytes, Any] = {}  # see `Watched.observed`
        self._places: dict[bytes, Mark] = {}
        self._deep: dict[bytes, int] = {}

    def add(self, touched: Touched) -> None:
        """Marks where something happened."""
        self.number += 1
        for path, names in touched.names.items():
            self._mark(path, names, whole=False)
        for path in (*touched.whole, *touched.deep):
            self.mark(path)
        self._deep.update(dict.fromkeys(touched.deep, self.number))

    def mark(self, path: bytes) -> None:
        """Marks a directory as a whole, with the notices that were the last."""
        self._mark(path, (), whole=True)

    def _mark(self, path: bytes, names: Collection[bytes], *, whole: bool) -> None:
        known = self._places.get(path)
        if known is not None:
            names, whole = known.names.union(names), whole or known.whole
        self._places[path] = Mark(self.number, frozenset(names), whole)

    def dirty(self, always: Iterable[bytes]) -> Dirty:
        """Returns where to look: at what is marked, at files with several names, and at some directories in any case."""
        places: dict[bytes, Names] = {path: None if mark.whole else mark.names for path, mark in self._places.items()}
        for path in self.linked:
            names = places.get(parent_of(path), frozenset())
            if names is not None:
                places[parent_of(path)] = names | {path.rpartition(b"/")[2]}
        places.update(dict.fromkeys(always))
        written = {path: mark.names for path, mark in self._places.items() if mark.names}
        return Dirty(places, written, frozenset(self._deep))

    def settle(self, number: int) -> None:
        """Takes the marks away that a walk knew of, now that the stat cache holds what it found."""
        self._places = {path: mark for path, mark in self._places.items() if mark.number > number}
        self._deep = {path: last for path, last in self._deep.items() if last > number}


class Watched:
    """A watcher and its marks: tells a walk where to look, and watches each directory before it is read."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.marks: Marks | None = None  # None: the next walk looks at everything
        self._walk = Marks(None)  # those of the walk that is under way
        self._always: Collection[bytes] = ()
        self._everywhere = False
        self._strange = False
        self._number = 0  # of the last notices that this round of the walk knows of
        self._known = 0  # the same, of the round before

    # -- before and after a walk ----------------------------------------------------------------------

    def begin(self, root: Directory, cache: object, always: Collection[bytes]) -> Dirty:
        """Begins a walk; returns where it has to look, `always` among others."""
        self._always = always
        touched, marks = self._sync(root)
        if touched is None or marks is None or marks.cache is not cache:
            return self._begin_everywhere(cache)
        return self._begin_at(marks)

    def again(self, root: Directory, seen: Seen, since: int, *, settle: bool) -> Dirty | None:
        """
        Returns where to look once more, None where the walk is over.

        With `settle`, that is where names came or went while it was under way: `seen` is what it saw of each directory, `since`
        the time of the stamping clock when it began.
        """
        if self._strange and not self._everywhere:
            # A second name that was not known: what was written through it was noticed at another place, or nowhere.
            return self._begin_everywhere(self._walk.cache)
        if not settle:
            return None
        touched, marks = self._sync(root)
        if touched is None or marks is None:
            moving = moved_since(root.fd, seen, since)
            return self._begin_everywhere(self._walk.cache)._replace(moving=tuple(moving)) if moving else None
        moving = sorted(touched.whole | touched.moved)
        return self._begin_at(marks)._replace(moving=tuple(moving)) if moving else None

    def done(self, changed: Iterable[bytes]) -> None:
        """A round of the walk is over, which found some directories not to be what the cache holds."""
        if self._everywhere:
            self.watcher.end()
            for path in changed:
                self._walk.mark(path)
        self.marks, self._known = self._walk if self.watcher.usable else None, self._number

    def noticed(self) -> tuple[Marks, int]:
        """Returns the marks, and the number of the last notices that the walk knows of: for `remember`."""
        return self._walk, self._known

    @property
    def observed(self) -> Mapping[bytes, Any]:
        """What earlier walks saw of files that were too young to be remembered, as long as nothing happened to them."""
        return self._walk.observed

    def remember(self, noticed: object, observed: Mapping[bytes, Any]) -> None:
        """The stat cache has taken over what a walk found."""
        if isinstance(noticed, tuple) and noticed[0] is self.marks and self.marks is not None:
            self.marks.settle(noticed[1])
            self.marks.observed.update(observed)
        else:
            self.marks = None

    def _sync(self, root: Directory) -> tuple[Touched | None, Marks | None]:
        """Returns what was noticed, and the marks with it; None where it cannot be known what happened."""
        # An interruption takes notices along: until all are marked, nothing is known.
        marks, self.marks = self.marks, None
        touched = self.watcher.sync(root)
        if touched is not None and marks is not None:
            marks.add(touched)
            self.marks = marks
        return touched, marks

    def _begin_at(self, marks: Marks) -> Dirty:
        self._walk, self._everywhere, self._strange, self._number = marks, False, False, marks.number
        return marks.dirty(self._always)

    def _begin_everywhere(self, cache: object) -> Dirty:
        self.marks, self._walk, self._everywhere, self._strange, self._number = None, Marks(cache), True, False, 0
        self.watcher.begin()
        return EVERYTHING

    # -- during a walk --------------------------------------------------------------------------------

    def enter(self, path: bytes, fd: int) -> None:
        """Watches a directory that is about to be read."""
        if self._everywhere:
            self.watcher.cover(path, fd)
        elif not self.watcher.covers(path):
            self.watcher.cover(path, fd)
            self._walk.mark(path)  # watched from now on, and still not what the cache knows by this name

    def keeps(self, path: bytes) -> bool:
        """Returns whether a directory that is not marked is as it is remembered."""
        return self.watcher.covers(path)

    def links(self, directory: bytes, name: bytes) -> None:
        """Notes a file that has several names."""
        path = join(directory, name)
        self._strange |= path not in self._walk.linked
        self._walk.linked.add(path)
