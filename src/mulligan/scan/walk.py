"""
The walk over the workspace.

`walk(root, cache, …)` goes to the directories that are dirty, parents before children, and nowhere else: what is not dirty keeps its
record in the stat cache. A dirty directory is opened name by name, never through a link; it is listed, compared, and what changed
is read (`scan.read`). A directory that is new, or whose rules changed, makes everything below it dirty. Afterwards
the directories are asked once more: where names came or went during the walk, it goes on there, and what will not hold still is
listed as `moving`. Then the trees are made, and the result is a finished `Scan`.

Where to look is what the watcher noticed (`watch.watcher`), or what `Unwatched` finds by comparing every directory with its record:
one yes or no each, which `native/look.c` answers faster. Whatever is answered with no, the walk looks at, and it alone decides.
A `Draft` holds the records so far; a walk may go over a directory several times, and what it found last counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from mulligan.model.checkpoint import MOVING, OTHER_FILESYSTEM, SECRET, UNREADABLE
from mulligan.model.paths import ancestors, join, parent_of
from mulligan.safefs.clock import Seen, moved_since, stamping_clock
from mulligan.safefs.directory import ABSENT, EXHAUSTED, Descent, Directory, depth_first, descending
from mulligan.scan.cache import (
    HEAD_SIZE,
    STAT,
    Cache,
    DirectoryRecord,
    Missed,
    RecordHead,
    Stat,
    head_in,
    lists_in,
    modes_in,
)
from mulligan.scan.ignore import IgnoreRules
from mulligan.scan.read import DirectoryToRead, Progress, Reader, UnreadableFile, ignores_in
from mulligan.scan.scope import Scope
from mulligan.scan.trees import Defaults, Objects, Scan, Sink, seal
from mulligan.watch.dirty import EVERYTHING, Dirty

if TYPE_CHECKING:
    from mulligan.safefs.native import Looking
    from mulligan.watch.watcher import Watched

# Loading the native look takes 2 ms, which are 50 directories.
_HELP_DIRECTORIES = 50


class Unwatched:
    """Tells a walk where to look in a workspace that is not watched; `watch.watcher.Watched` answers the same questions."""

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
        answers = self._looking.answer() if self._looking is not None else _each(root, cache, order)
        same = [path for path, is_same in zip(order, answers, strict=True) if is_same and path not in always]
        self._same = {path: head_in(cache.packed(path)).own for path in same}
        return Dirty(dict.fromkeys(path for path in order if path not in self._same))

    def again(self, root: Directory, seen: Seen, since: int, *, settle: bool) -> Dirty | None:
        """Returns the directories that changed while the walk was under way, None where there is none."""
        if not settle:
            return None
        kept = {path: own for path, own in self._same.items() if path not in seen}
        if self._looking is not None:
            still = zip(self._order, self._looking.begin(again=True).answer(), strict=True)
            kept = {path: kept[path] for path, is_same in still if not is_same and path in kept}
        moving = moved_since(root.fd, seen, since) + moved_since(root.fd, kept)
        return Dirty(dict.fromkeys(moving), moving=tuple(moving)) if moving else None

    def enter(self, path: bytes, fd: int) -> None:
        """Hears of a directory that is about to be read."""

    def keeps(self, path: bytes) -> bool:  # noqa: ARG002 - the same for all
        """Returns whether a directory that is not dirty is as it is remembered."""
        return True

    def links(self, directory: bytes, name: bytes) -> None:
        """Hears of a file that has several names; here every file is looked at."""

    def done(self, changed: Iterable[bytes]) -> None:
        """Hears which directories are not what the cache holds."""

    def noticed(self) -> None:
        """Returns what is to be handed back when the cache has taken over what the walk found: nothing."""

    @property
    def observed(self) -> Mapping[bytes, Stat]:
        """Nothing: whatever is too young to be remembered is read again."""
        return {}


def _each(root: Directory, cache: Cache, paths: list[bytes]) -> Iterator[bool]:
    device = os.fstat(root.fd).st_dev
    for path, fd in zip(paths, descending(root, paths), strict=True):
        try:
            yield fd >= 0 and _is_same(fd, cache.packed(path), device)
        except (OSError, ValueError):
            yield False  # something vanished, or no record that could be read


def _is_same(fd: int, packed: bytes, device: int) -> bool:
    """Returns whether an open directory and all that was captured in it are as a record says."""
    head, st, look = head_in(packed), os.fstat(fd), os.stat
    if (
        (st.st_ino, st.st_mtime_ns, st.st_ctime_ns) != head.own
        or st.st_mode & 0o7777 != head.perm
        or st.st_dev != device
    ):
        return False
    names, start = lists_in(packed, head)[0], HEAD_SIZE + head.names_size + head.dirs_size + head.missed_size
    for name, want in zip(names, STAT.iter_unpack(packed[start : start + head.files * STAT.size]), strict=True):
        st = look(name, dir_fd=fd, follow_symlinks=False)
        if (st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns) != want:
            return False
    return True


class Draft:
    """The records so far."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.records: dict[bytes, DirectoryRecord] = {}  # those that are not the cache's
        self.gone: set[bytes] = set()  # directories that the cache knows, and that are not there any more

    def __contains__(self, path: bytes) -> bool:
        return path in self.records or (path in self._cache and path not in self.gone)

    def get(self, path: bytes) -> DirectoryRecord | None:
        """Returns the record of a directory, not to be changed; None if there is none."""
        found = self.records.get(path)
        return found if found is not None or path in self.gone else self._cache.get(path)

    def put(self, path: bytes, record: DirectoryRecord) -> None:
        """Takes what a directory was found to be."""
        self.records[path] = record
        self.gone.discard(path)

    def is_only(self, path: bytes) -> bool:
        """Returns whether nothing is wanted in a directory but what is tracked or asked for by name."""
        found = self.records.get(path)
        return found.only if found is not None else head_in(self._cache.packed(path)).only

    def changing(self, path: bytes) -> DirectoryRecord:
        """Returns the record of a directory, to be changed."""
        found = self.records.get(path)
        if found is None:
            found = self.records[path] = self._copy(path)
        return found

    def _copy(self, path: bytes) -> DirectoryRecord:
        known = self._cache.get(path)
        return known.copy() if known is not None else DirectoryRecord()

    def miss(self, path: bytes, reason: str, detail: str) -> None:
        """Notes in the directory above that a directory could not be captured, and why."""
        record = self.changing(parent_of(path))
        record.missed.append(Missed(path.rpartition(b"/")[2], reason, detail))
        record.trusted = False
        self.leave_out(path)

    def leave_out(self, path: bytes) -> None:
        """Takes a directory, and all below it, out of the records."""
        self.lose(path)
        name, record = path.rpartition(b"/")[2], self.changing(parent_of(path))
        record.dirs = [each for each in record.dirs if each != name]

    def lose(self, path: bytes) -> None:
        """Takes a directory that is not there any more, and all below it, out of the records."""
        todo = [path]
        while todo:
            each = todo.pop()
            if each not in self:
                continue
            record = self.records.pop(each, None)
            if each in self._cache:
                self.gone.add(each)
            dirs = record.dirs if record is not None else self._cached_lists(each)[1]
            todo += [join(each, name) for name in dirs]

    # -- trees ------------------------------------------------------------------------------------------

    def seal(self, defaults: Defaults) -> Objects:
        """Gives the directories that changed, and those above them, their trees; returns the objects that are new."""
        objects: Objects = {}
        changed = {b"", *self.records, *(parent_of(path) for path in self.gone)}
        changed.update([above for path in [*changed] for above in ancestors(path)])
        sealed: dict[bytes, DirectoryRecord] = {}
        for path in sorted(changed, key=depth_first, reverse=True):
            if path not in self:
                continue
            record = self.records.get(path) or self._copy(path)
            if path and _holds_nothing(record):
                self._pass_over(path, record)
                continue
            children = [(name, sealed.get(join(path, name)) or self._head(join(path, name))) for name in record.dirs]
            seal(record, modes_in(record.stats), children, defaults, objects)
            sealed[path] = record
            if path in self._cache and not self._cache.is_doubted and record.encode() == self._cache.packed(path):
                self.records.pop(path, None)
            else:
                self.records[path] = record
        return objects

    def _pass_over(self, path: bytes, record: DirectoryRecord) -> None:
        """Leaves out a directory that holds nothing of what is wanted in it today."""
        name, above = path.rpartition(b"/")[2], self.changing(parent_of(path))
        above.missed += [row._replace(name=join(name, row.name)) for row in record.missed]
        above.trusted = False  # what is wanted may come back without a trace in the directory above
        self.leave_out(path)

    def _head(self, path: bytes) -> RecordHead:
        head = self._cache.head_of(path)
        if head is None:
            raise ValueError(path)
        return head

    # -- sums -------------------------------------------------------------------------------------------

    def files(self) -> int:
        """Returns how many files are captured."""
        before = (head_in(self._cache.packed(path)).files for path in self._replaced())
        return self._cache.files - sum(before) + sum(len(record.names) for record in self.records.values())

    def missed(self) -> dict[bytes, Missed]:
        """Returns what is not captured, by path."""
        found = dict(self._cache.missed)
        for path in self._replaced():
            for row in self._cached_lists(path)[2]:
                if found.get(join(path, row.name)) == row:
                    del found[join(path, row.name)]
        for path, record in self.records.items():
            for row in record.missed:
                found[join(path, row.name)] = row
        return found

    def _cached_lists(self, path: bytes) -> tuple[list[bytes], list[bytes], list[Missed]]:
        packed = self._cache.packed(path)
        return lists_in(packed, head_in(packed))

    def _replaced(self) -> Iterator[bytes]:
        yield from (path for path in self.records if path in self._cache)
        yield from self.gone


def _holds_nothing(record: DirectoryRecord) -> bool:
    wanted = record.names or record.dirs or any(row.reason == SECRET for row in record.missed)
    return record.only and not wanted


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


def walk(root: Directory, cache: Cache, options: Options, where: Unwatched | Watched | None = None) -> Scan:
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

    def __init__(self, root: Directory, cache: Cache, options: Options, where: Unwatched | Watched) -> None:
        self._root, self._cache, self._options, self._where = root, cache, options, where
        self._device = os.fstat(root.fd).st_dev
        self._reader = Reader(options.scope, options.sink, options.progress, index_changed=options.index_changed)
        self._rules: dict[bytes, IgnoreRules] = {}
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
        place = DirectoryToRead(
            path, directory, rules, old, visit.only, names, dirty.written.get(path, frozenset()), self._where.links
        )
        self.seen[path] = (st.st_ino, st.st_mtime_ns, st.st_ctime_ns)
        try:
            record, self._rules[path] = self._reader.look(place, st)
        except UnreadableFile as finding:
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
        return self._below(visit, record, old, whole=names is None)

    def _cannot_enter(self, path: bytes, error: OSError) -> None:
        if error.errno in EXHAUSTED:
            raise error
        if not path:
            raise UnreadableFile(UNREADABLE, os.strerror(error.errno or 0)) from error
        # Gone or swapped since it was listed: the second look at the directory above notices. There, and not to be read: a finding.
        if error.errno in ABSENT:
            self.draft.leave_out(path)
        else:
            self.draft.miss(path, UNREADABLE, os.strerror(error.errno or 0))

    def _below(
        self, visit: _Visit, record: DirectoryRecord, old: DirectoryRecord | None, *, whole: bool
    ) -> list[_Visit]:
        """Returns the directories in one that may not stay as they are remembered."""
        deep, draft = visit.deep or old is None or record.key != old.key, self.draft
        # Where only files may have changed, their records are not asked: 0.3 ms of a save below 700 directories.
        whole = whole or old is None or deep or (record.dirs, record.missed) != (old.dirs, old.missed)
        out, found = frozenset(row.name for row in record.missed), []
        for name in record.dirs:
            path, only = join(visit.path, name), visit.only or name in out
            is_other = whole and (deep or path not in draft or draft.is_only(path) != only)
            if is_other or not self._where.keeps(path):
                found.append(_Visit(path, only, deep=deep, listed=True))
        return found

    def _rules_above(self, path: bytes, descent: Descent) -> IgnoreRules:
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
        root = draft.records.get(b"") or self._cache.head_of(b"") or DirectoryRecord()
        scope = options.scope
        return Scan(
            defaults=options.defaults, cache=self._cache,
            tree=root.tree, modes=root.modes, objects=objects, records=draft.records, gone=frozenset(draft.gone),
            missed=missed, files=draft.files(), read=self._reader.read, observed=self._reader.observed,
            entered=self.seen.keys(), is_wanted=lambda path: scope.wanted_inside(path, is_dir=False),
            noticed=self._where.noticed(), observed_before=self._where.observed,
        )  # fmt: skip
