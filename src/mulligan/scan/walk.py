"""
The walk over the workspace.

`walk(root, cache, …)` goes to the directories that are dirty, parents before children, and nowhere else: what is not dirty keeps its
record in the stat cache. A dirty directory is opened name by name, never through a link; it is listed, compared, and what changed
is read (`scan.directory`). A directory that is new, or whose rules changed, makes everything below it dirty. Afterwards
the directories are asked once more: where names came or went during the walk, it goes on there, and what will not hold still is
listed as `moving`. Then the trees are made, and the result is a finished `Scan`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from mulligan.model.checkpoint import MOVING, OTHER_FILESYSTEM, UNREADABLE
from mulligan.model.paths import ancestors, join, parent_of
from mulligan.safefs.clock import Seen, stamping_clock
from mulligan.safefs.descent import Descent, depth_first
from mulligan.safefs.directory import Directory
from mulligan.scan.cache import Cache
from mulligan.scan.directory import Place, Reader
from mulligan.scan.draft import Draft
from mulligan.scan.ignore import Rules
from mulligan.scan.look import Unwatched
from mulligan.scan.reading import FATAL, GONE, Progress, Sink, Unreadable, ignores_in
from mulligan.scan.record import Missed, Record, Stat
from mulligan.scan.result import Scan
from mulligan.scan.scope import Scope
from mulligan.scan.trees import Defaults
from mulligan.watch.dirty import Dirty

_ROUNDS = 3


class Options(NamedTuple):
    """How a scan is made: by which rules, where the bytes of files go, and whether it waits until nothing moves."""

    scope: Scope
    sink: Sink
    now_ns: Callable[[], int]
    defaults: Defaults = Defaults()
    settle: bool = True
    index_changed: bool = False  # whether git tracks something else than at the last checkpoint
    progress: Progress | None = None


class Where(Protocol):
    """Tells a walk where to look: `scan.look.Unwatched` or `watch.dirty.Watched`."""

    def begin(self, root: Directory, cache: Cache, always: Collection[bytes]) -> Dirty:
        """Returns where to look."""

    def enter(self, path: bytes, fd: int) -> None:
        """Hears of a directory that is about to be read."""

    def keeps(self, path: bytes) -> bool:
        """Returns whether a directory that is not dirty is as it is remembered."""

    def links(self, directory: bytes, name: bytes) -> None:
        """Hears of a file that has several names."""

    def done(self, changed: Iterable[bytes]) -> None:
        """Hears which directories are not what the cache holds."""

    def again(self, root: Directory, seen: Seen, since: int, *, settle: bool) -> Dirty | None:
        """Returns where to look once more."""

    def noticed(self) -> object:
        """Returns what is to be handed back when the cache has taken over what the walk found."""

    @property
    def observed(self) -> Mapping[bytes, Stat]:
        """What earlier walks saw of files that were too young to be remembered, and that nothing happened to since."""


def walk(root: Directory, cache: Cache, options: Options, where: Where | None = None) -> Scan:
    """Returns the workspace as it is; raises Unreadable if its own directory cannot be read."""
    where = where or Unwatched()
    work, moved = _Walk(root, cache, options, where), 0
    work.clock()
    dirty: Dirty | None = where.begin(root, cache, cache.restless(index_changed=options.index_changed))
    while dirty is not None and moved < _ROUNDS:
        work.run(dirty)
        where.done((*work.draft.records, *work.draft.gone))
        dirty = where.again(root, work.seen, work.since, settle=options.settle)
        work.clock()
        moved += bool(dirty is not None and dirty.moving)
    return work.finished(dirty.moving if dirty is not None else ())


class _Visit(NamedTuple):
    """A directory to go to; it is `listed` if the one above it was just found to hold it."""

    path: bytes
    only: bool
    deep: bool
    listed: bool


class _Walk:
    """One walk, with all its rounds."""

    def __init__(self, root: Directory, cache: Cache, options: Options, where: Where) -> None:
        self._root, self._cache, self._options, self._where = root, cache, options, where
        self._device = os.fstat(root.fd).st_dev
        self._reader = Reader(options.scope, options.sink, options.progress, index_changed=options.index_changed)
        self._rules: dict[bytes, Rules] = {}
        self.draft = Draft(cache)
        self.seen: dict[bytes, tuple[int, int, int]] = {}
        self.since = 0

    def clock(self) -> None:
        """Reads the clocks: what changes from here on is too young to be remembered."""
        self.since = stamping_clock()
        self._reader.begin(self._options.now_ns(), self.since)

    def run(self, dirty: Dirty) -> None:
        """Goes to the dirty directories, and to those below them that may not stay as they are remembered."""
        self._rules, done = {}, set[bytes]()
        places = sorted({b"", *dirty.places}, key=depth_first, reverse=True)
        todo = [_Visit(path, only=False, deep=path in dirty.deep, listed=not path) for path in places]
        with Descent(self._root) as descent:
            while todo:
                visit = todo.pop()
                if visit.path in done or not (visit.listed or visit.path in self.draft):
                    continue
                done.add(visit.path)
                if not visit.listed:
                    visit = visit._replace(only=self.draft.is_only(visit.path))
                todo += reversed(self._visit(visit, dirty, descent))
        self.seen = {path: own for path, own in self.seen.items() if path in self.draft}

    # -- one directory ----------------------------------------------------------------------------------

    def _visit(self, visit: _Visit, dirty: Dirty, descent: Descent) -> list[_Visit]:
        """Looks at one directory; returns the directories in it to go to."""
        path, draft = visit.path, self.draft
        try:
            rules = self._rules_above(path, descent)
            directory = descent.to(path)
        except OSError as error:
            self._cannot_enter(path, error)
            return []
        st = os.fstat(directory.fd)
        if st.st_dev != self._device:
            draft.miss(path, OTHER_FILESYSTEM, "another file system is mounted here")
            return []
        self._where.enter(path, directory.fd)
        old = draft.get(path)
        whole = visit.deep or (visit.listed and bool(path))
        names = None if whole else dirty.places.get(path, frozenset())
        place = Place(
            path, directory, rules, old, visit.only, names, dirty.written.get(path, frozenset()), self._where.links
        )
        self.seen[path] = (st.st_ino, st.st_mtime_ns, st.st_ctime_ns)
        try:
            record, self._rules[path] = self._reader.look(place, st)
        except Unreadable as finding:
            if not path:
                raise
            self.seen.pop(path)
            draft.miss(path, finding.reason, finding.detail)
            return []
        if old is not None:
            for name in {*old.dirs}.difference(record.dirs):
                draft.lose(join(path, name))
        if record is not old:
            draft.put(path, record)
        return self._below(visit, record, old)

    def _cannot_enter(self, path: bytes, error: OSError) -> None:
        if error.errno in FATAL:
            raise error
        if not path:
            raise Unreadable(UNREADABLE, os.strerror(error.errno or 0)) from error
        # Gone or swapped since it was listed: the second look at the directory above notices. There, and not to be read: a finding.
        if error.errno in GONE:
            self.draft.leave_out(path)
        else:
            self.draft.miss(path, UNREADABLE, os.strerror(error.errno or 0))

    def _below(self, visit: _Visit, record: Record, old: Record | None) -> list[_Visit]:
        """Returns the directories in one that may not stay as they are remembered."""
        deep, draft = visit.deep or old is None or record.key != old.key, self.draft
        out, found = frozenset(row.name for row in record.missed), []
        for name in record.dirs:
            path, only = join(visit.path, name), visit.only or name in out
            if deep or path not in draft or draft.is_only(path) != only or not self._where.keeps(path):
                found.append(_Visit(path, only, deep=deep, listed=True))
        return found

    def _rules_above(self, path: bytes, descent: Descent) -> Rules:
        """Returns the ignore rules that hold where a directory stands, without its own."""
        if not path:
            return self._options.scope.rules
        if (known := self._rules.get(parent_of(path))) is not None:
            return known
        rules = self._rules[b""]  # which is always gone to, first
        for above in ancestors(path):
            if above not in self._rules:
                record = self.draft.get(above)
                ruled = record is not None and record.has_ignores
                self._rules[above] = rules.enter(above, ignores_in(descent.to(above))[0]) if ruled else rules
            rules = self._rules[above]
        return rules

    # -- the result -------------------------------------------------------------------------------------

    def finished(self, moving: Iterable[bytes]) -> Scan:
        """Makes the trees and returns what was found; some directories never held still."""
        draft, options = self.draft, self._options
        objects = draft.seal(options.defaults)
        missed = draft.missed()
        for path in moving:
            missed[path] = Missed(path, MOVING, "files came and went while it was read")
        root = draft.records.get(b"") or self._cache.head_of(b"") or Record()
        scope = options.scope
        return Scan(
            defaults=options.defaults, cache=self._cache,
            tree=root.tree, modes=root.modes, objects=objects, records=draft.records, gone=frozenset(draft.gone),
            missed=missed, files=draft.files(), read=self._reader.read, observed=self._reader.observed,
            entered=self.seen.keys(), is_wanted=lambda path: scope.wanted_inside(path, is_dir=False),
            noticed=self._where.noticed(), observed_before=self._where.observed,
        )  # fmt: skip
