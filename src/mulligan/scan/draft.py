"""
The records of a scan that is under way: what the stat cache holds, and what was found to be different.

A walk may go over the same directory several times; what it found last counts. Trees are made once, when the walk is over, for
the directories that changed and those above them, the deepest first.
"""

from __future__ import annotations

from collections.abc import Iterator

from mulligan.model.checkpoint import SECRET
from mulligan.model.paths import ancestors, join, parent_of
from mulligan.safefs.descent import depth_first
from mulligan.scan.cache import Cache
from mulligan.scan.record import Head, Missed, Record, dirs_in, modes_in, sums_in
from mulligan.scan.trees import Defaults, Objects, Sealed, seal


class Draft:
    """The records so far."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.records: dict[bytes, Record] = {}  # those that are not the cache's
        self.gone: set[bytes] = set()  # directories that the cache knows, and that are not there any more

    def __contains__(self, path: bytes) -> bool:
        return path in self.records or (path in self._cache and path not in self.gone)

    def get(self, path: bytes) -> Record | None:
        """Returns the record of a directory, not to be changed; None if there is none."""
        found = self.records.get(path)
        return found if found is not None or path in self.gone else self._cache.get(path)

    def put(self, path: bytes, record: Record) -> None:
        """Takes what a directory was found to be."""
        self.records[path] = record
        self.gone.discard(path)

    def is_only(self, path: bytes) -> bool:
        """Returns whether nothing is wanted in a directory but what is tracked or asked for by name."""
        found = self.records.get(path)
        return found.only if found is not None else sums_in(self._cache.packed(path)).only

    def changing(self, path: bytes) -> Record:
        """Returns the record of a directory, to be changed."""
        found = self.records.get(path)
        if found is None:
            found = self.records[path] = self._copy(path)
        return found

    def _copy(self, path: bytes) -> Record:
        known = self._cache.get(path)
        return known.copy() if known is not None else Record()

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
            dirs = record.dirs if record is not None else dirs_in(self._cache.packed(each))
            todo += [join(each, name) for name in dirs]

    # -- trees ------------------------------------------------------------------------------------------

    def seal(self, defaults: Defaults) -> Objects:
        """Gives the directories that changed, and those above them, their trees; returns the objects that are new."""
        objects: Objects = {}
        changed = {b"", *self.records, *(parent_of(path) for path in self.gone)}
        changed.update([above for path in [*changed] for above in ancestors(path)])
        sealed: dict[bytes, Head] = {}
        for path in sorted(changed, key=depth_first, reverse=True):
            if path not in self:
                continue
            record = self.records.get(path) or self._copy(path)
            if path and _holds_nothing(record):
                self._pass_over(path, record)
                continue
            children = [(name, sealed.get(join(path, name)) or self._head(join(path, name))) for name in record.dirs]
            seal(Sealed(record, modes_in(record.stats), children), defaults, objects)
            sealed[path] = Head(record.tree, record.modes, record.perm)
            if path in self._cache and not self._cache.is_doubted and record.encode() == self._cache.packed(path):
                self.records.pop(path, None)
            else:
                self.records[path] = record
        return objects

    def _pass_over(self, path: bytes, record: Record) -> None:
        """Leaves out a directory that holds nothing of what is wanted in it today."""
        name, above = path.rpartition(b"/")[2], self.changing(parent_of(path))
        above.missed += [row._replace(name=join(name, row.name)) for row in record.missed]
        above.trusted = False  # what is wanted may come back without a trace in the directory above
        self.leave_out(path)

    def _head(self, path: bytes) -> Head:
        head = self._cache.head_of(path)
        if head is None:
            raise ValueError(path)
        return head

    # -- sums -------------------------------------------------------------------------------------------

    def files(self) -> int:
        """Returns how many files are captured."""
        before = (sums_in(self._cache.packed(path)).files for path in self._replaced())
        return self._cache.files - sum(before) + sum(len(record.names) for record in self.records.values())

    def missed(self) -> dict[bytes, Missed]:
        """Returns what is not captured, by path."""
        found = dict(self._cache.missed)
        for path in self._replaced():
            for row in self._cache.missed_of(path):
                if found.get(join(path, row.name)) == row:
                    del found[join(path, row.name)]
        for path, record in self.records.items():
            for row in record.missed:
                found[join(path, row.name)] = row
        return found

    def _replaced(self) -> Iterator[bytes]:
        yield from (path for path in self.records if path in self._cache)
        yield from self.gone


def _holds_nothing(record: Record) -> bool:
    wanted = record.names or record.dirs or any(row.reason == SECRET for row in record.missed)
    return record.only and not wanted
