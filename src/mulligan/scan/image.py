"""
A watched workspace between two looks: its sums, and where something happened since.

All of it is relative to the records of one stat cache. A place stays marked until a checkpoint holds what a look found
there; a look that nobody kept (a diff, a failed save) takes no mark away. Sets may name too much, never too little.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from mulligan.model.paths import join, parent_of
from mulligan.scan.cache import Cache
from mulligan.scan.record import Missed, Record, Stat
from mulligan.scan.result import Scan
from mulligan.scan.trees import Held
from mulligan.watch.watcher import Touched, Watcher

Names = frozenset[bytes] | None  # None: the directory as a whole


class Mark(NamedTuple):
    """
    Where something happened: with which notices it was last, and to which names.

    `moved` says that some of the names came or went, `whole` that the directory changed in a way that names do not tell.
    """

    number: int
    names: frozenset[bytes]
    moved: bool
    whole: bool


_NO_MARK = Mark(0, frozenset(), moved=False, whole=False)


class Flags(NamedTuple):
    """What is special about a directory: always to be looked at, decided with the git index, entered for a few names only."""

    restless: bool
    leaning: bool
    only: bool


class Taken(NamedTuple):
    """What a look found beside records, the last notices that it knew of, and the trees that it made of others."""

    image: Image
    number: int
    files: int
    missed: dict[bytes, Missed]
    flags: dict[bytes, Flags]
    trees: Mapping[bytes, tuple[bytes, bytes]]


class Image:
    """The sums of one cache's records, and the marks."""

    def __init__(self, cache: Cache, key: bytes) -> None:
        self.cache, self.key = cache, key
        self.files = 0
        self.missed: dict[bytes, Missed] = {}
        self.flags: dict[bytes, Flags] = {}
        self.linked: set[bytes] = set()
        self.observed: dict[bytes, Stat] = {}
        self.trees = Held()
        self.number = 0
        self._marks: dict[bytes, Mark] = {}
        self._deep: dict[bytes, int] = {}

    def add(self, touched: Touched) -> None:
        """Marks where something happened."""
        self.number += 1
        for path, names in touched.names.items():
            self._mark(path, names, moved=path in touched.moved, whole=False)
        for path in (*touched.whole, *touched.deep):
            self._mark(path)
        self._deep.update(dict.fromkeys(touched.deep, self.number))

    def mark(self, path: bytes) -> None:
        """Marks a directory as part of the look that is under way."""
        self._mark(path)

    def mark_later(self, paths: set[bytes]) -> None:
        """Marks directories for the look after this one."""
        self.number += 1
        for path in paths:
            self._mark(path)

    def _mark(self, path: bytes, names: Collection[bytes] = (), *, moved: bool = False, whole: bool = True) -> None:
        known = self._marks.get(path, _NO_MARK)
        self._marks[path] = Mark(self.number, known.names.union(names), moved or known.moved, whole or known.whole)

    def wanted(self, *, index_changed: bool) -> dict[bytes, Names]:
        """Returns where to look: directories, each with the names in it, None for all of it."""
        wanted: dict[bytes, Names] = {path: None if mark.whole else mark.names for path, mark in self._marks.items()}
        for path in self.linked:
            names = wanted.get(parent_of(path), frozenset())
            if names is not None:
                wanted[parent_of(path)] = names | {path.rpartition(b"/")[2]}
        for path, flags in self.flags.items():
            if flags.restless or index_changed:
                wanted[path] = None
        return wanted

    def mark_of(self, path: bytes) -> Mark:
        """Returns what happened in a directory; what is remembered of the names counts for nothing."""
        return self._marks.get(path, _NO_MARK)

    @property
    def deep(self) -> set[bytes]:
        """The directories of which everything below is to be looked at."""
        return set(self._deep)

    def rebase(self, scan: Scan, taken: Taken) -> None:
        """After a look at everything: takes its sums, put back to what the cache holds, and marks what differs."""
        self.files, self.missed, self.flags = taken.files, dict(taken.missed), _special(taken.flags)
        self.observed = dict(scan.observed)
        for path, record in scan.records.items():
            self._exchange(path, record, self.cache.get(path))
            self._mark(path)
        for path in scan.gone:
            self._exchange(path, None, self.cache.get(path))
            self.flags[path] = Flags(
                restless=False, leaning=False, only=True
            )  # known to the cache, perhaps to no parent

    def _exchange(self, path: bytes, new: Record | None, old: Record | None) -> None:
        for record, sign in ((new, -1), (old, 1)):
            for m in record.missed if record is not None else ():
                if sign < 0:
                    self.missed.pop(join(path, m.name), None)
                else:
                    self.missed[join(path, m.name)] = m
            self.files += sign * len(record.names) if record is not None else 0

    def commit(self, scan: Scan, taken: Taken) -> None:
        """The cache has taken over what a look found: its marks are done with."""
        self.files, self.missed = taken.files, taken.missed
        for path in taken.flags.keys() | set(scan.gone):
            self.flags.pop(path, None)
        self.flags.update(_special(taken.flags))
        self.observed.update(scan.observed)
        made = ((path, record.tree, scan.objects.get(record.tree)) for path, record in scan.records.items())
        self.trees.take({path: (tree, found[1]) for path, tree, found in made if found is not None})
        self.trees.take(taken.trees)
        self._marks = {path: mark for path, mark in self._marks.items() if mark.number > taken.number}
        self._deep = {path: number for path, number in self._deep.items() if number > taken.number}


def _special(flags: dict[bytes, Flags]) -> dict[bytes, Flags]:
    return {path: each for path, each in flags.items() if any(each)}


class Warm:
    """A watcher, and what is known with its help."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.image: Image | None = None

    def remember(self, scan: Scan) -> None:
        """The cache has taken over what a look found."""
        taken = scan.taken
        if isinstance(taken, Taken) and taken.image is self.image:
            taken.image.commit(scan, taken)
        else:
            self.image = None
