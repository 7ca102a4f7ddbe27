"""
Where comparing and planning read objects, and what differs between two checkpoints, or one and the workspace.

Objects come from the store, or from the trees that a scan holds in memory. Permission bits are resolved here too: a
checkpoint writes down only those that differ from its defaults.
A path that is there and was not captured is not a deletion, on either side.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mulligan.errors import UserError
from mulligan.model.checkpoint import IGNORED, NEWLY_IGNORED, WORKTREE, pack_list, pack_paths
from mulligan.model.objects import (
    BLOB,
    EMPTY_TREE,
    MODE_DIR,
    MODE_EXEC,
    MODE_LINK,
    TREE,
    Change,
    TreeEntry,
    object_id,
    parse_tree,
)
from mulligan.model.paths import covers, join, to_text
from mulligan.scan.trees import NONE, Defaults, Scan, cover_of, parse_odd

if TYPE_CHECKING:
    from mulligan.model.checkpoint import GitState, Sealed
    from mulligan.timeline.commits import Entry


class ObjectReader(Protocol):
    """What reading a commit needs of the store."""

    def read(self, oid: bytes, kind: bytes) -> bytes:
        """Returns an object's bytes, verified."""

    def read_tree(self, oid: bytes) -> list[TreeEntry]:
        """Returns a tree's entries."""


class _NoStore:
    """The objects of a store that does not exist yet: none."""

    def read(self, oid: bytes, kind: bytes) -> bytes:
        """Knows nothing."""
        raise UserError(f"There is no store yet to read {kind.decode()} {oid.hex()} from.", hint="mulligan save")

    def read_tree(self, oid: bytes) -> list[TreeEntry]:
        """Knows nothing."""
        raise UserError(f"There is no store yet to read tree {oid.hex()} from.", hint="mulligan save")


NO_STORE: ObjectReader = _NoStore()


class Trees:
    """The store's objects, with those of a scan in front."""

    def __init__(self, store: ObjectReader, scan: Scan | None = None) -> None:
        self._store = store
        self._overlay = scan.objects if scan is not None else {}
        self._laid: dict[bytes, tuple[bytes, bytes]] = {}
        self._parsed: dict[bytes, list[TreeEntry]] = {}

    def _in_front(self, oid: bytes, kind: bytes) -> bytes | None:
        found = self._overlay.get(oid) or self._laid.get(oid)
        return found[1] if found is not None and found[0] == kind else None

    def read(self, oid: bytes, kind: bytes) -> bytes:
        """Returns an object's bytes."""
        data = self._in_front(oid, kind)
        return self._store.read(oid, kind) if data is None else data

    def lay(self, kind: bytes, data: bytes) -> bytes:
        """Puts an object in front that neither the store nor the scan has; returns its id."""
        oid = object_id(kind, data)
        # Not into the scan's own: what it holds is written with the next checkpoint.
        self._laid[oid] = (kind, data)
        return oid

    def read_tree(self, oid: bytes) -> list[TreeEntry]:
        """Returns a tree's entries."""
        if oid not in self._parsed:
            data = self._in_front(oid, TREE)
            self._parsed[oid] = self._store.read_tree(oid) if data is None else parse_tree(data)
        return self._parsed[oid]

    def changes(self, old: bytes, new: bytes, *, directories: bool = False) -> list[Change]:
        """Returns what differs between two trees, as `compare_trees` does."""
        from mulligan.diff.compare import compare_trees

        return compare_trees(self.read_tree, old, new, directories=directories)

    def lookup(self, tree: bytes, path: bytes) -> TreeEntry | None:
        """Returns what stands at a path below a tree."""
        entry: TreeEntry | None = TreeEntry(b"", MODE_DIR, tree)
        for name in path.split(b"/") if path else ():
            if entry is None or entry.mode != MODE_DIR:
                return None
            entry = next((e for e in self.read_tree(entry.oid) if e.name == name), None)
        return entry

    def walk(self, tree: bytes) -> Iterator[tuple[bytes, TreeEntry]]:
        """Yields every path below a tree, directories included."""
        from mulligan.diff.compare import Extent

        pending, extent = [(b"", tree)], Extent(self.read_tree, tree)
        while pending:
            directory, oid = pending.pop()
            for entry in self.read_tree(oid):
                path = join(directory, entry.name)
                extent.met(path)
                yield path, entry
                if entry.mode == MODE_DIR:
                    pending.append((path, entry.oid))


class WorkspaceView:
    """A scan, where git stood, what to remember of both, and where to read the trees of the scan and of the store."""

    __slots__ = ("by_name", "git", "note", "scan", "source")

    def __init__(
        self,
        scan: Scan,
        git: GitState | None,
        note: dict[str, Any],
        store: ObjectReader,
        by_name: tuple[str, ...] = (),
    ) -> None:
        self.by_name = by_name
        self.scan = scan
        self.source = Trees(store, scan)
        self.git = git
        self.note = note


class Permissions:
    """The permission bits of one checkpoint (or scan)."""

    def __init__(self, source: Trees, tree: bytes, defaults: Defaults) -> None:
        self._source = source
        self._tree = tree
        self._defaults = defaults
        self._known: dict[bytes, dict[bytes, int]] = {}

    def of(self, path: bytes, mode: int) -> int:
        """Returns the bits of a path of this git mode."""
        if self._tree != NONE:
            directory, _, name = path.rpartition(b"/")
            odd = self._odd(directory).get(name)
            if odd is not None:
                return odd
        if mode == MODE_DIR:
            return self._defaults.directory
        return self._defaults.executable if mode == MODE_EXEC else self._defaults.file

    def _odd(self, directory: bytes) -> dict[bytes, int]:
        if directory not in self._known:
            self._known[directory] = self._read(self._find(directory))
        return self._known[directory]

    def _find(self, directory: bytes) -> bytes:
        at = self._tree
        for name in directory.split(b"/") if directory else ():
            if at == NONE:
                break
            below = next((e.oid for e in self._source.read_tree(at) if e.name == b"d"), None)
            at = next((e.oid for e in self._source.read_tree(below) if e.name == name), NONE) if below else NONE
        return at

    def _read(self, tree: bytes) -> dict[bytes, int]:
        if tree == NONE:
            return {}
        blob = next((e.oid for e in self._source.read_tree(tree) if e.name == b"f"), None)
        return parse_odd(self._source.read(blob, BLOB)) if blob else {}

    def differing(self, other: Permissions) -> Iterator[bytes] | None:
        """Yields the paths whose written-down bits differ; None when the defaults do, so that every path may."""
        if self._defaults != other._defaults:
            return None
        return self._differing(other)

    def _differing(self, other: Permissions) -> Iterator[bytes]:
        pending = [(b"", self._tree, other._tree)]
        while pending:
            directory, mine, theirs = pending.pop()
            if mine == theirs:
                continue
            one, two = self._read(mine), self._read(theirs)
            yield from (join(directory, name) for name in one.keys() | two.keys() if one.get(name) != two.get(name))
            left, right = self._below(mine), self._below(theirs)
            pending += [(join(directory, n), left.get(n, NONE), right.get(n, NONE)) for n in left.keys() | right.keys()]

    def _below(self, tree: bytes) -> dict[bytes, bytes]:
        if tree == NONE:
            return {}
        below = next((e.oid for e in self._source.read_tree(tree) if e.name == b"d"), None)
        return {e.name: e.oid for e in self._source.read_tree(below)} if below else {}


class State(NamedTuple):
    """The two trees of a checkpoint or a scan, its defaults, and its secrets."""

    files: bytes
    modes: bytes
    defaults: Defaults
    sealed: Sealed = MappingProxyType({})


def state_of(scan: Scan) -> State:
    """Returns what a scan saw as a state."""
    return State(scan.tree, scan.modes, scan.defaults, scan.sealed)


def bits_that_differ(source: Trees, a: State, b: State) -> Iterator[tuple[bytes, TreeEntry]]:
    """Yields the files and directories whose permission bits alone differ, with what stands there in the first state."""
    if (a.modes, a.defaults) == (b.modes, b.defaults):
        return  # nothing is written down otherwise, and what is usual is the same
    old, new = Permissions(source, a.modes, a.defaults), Permissions(source, b.modes, b.defaults)
    differing = old.differing(new)
    for path in sorted(differing) if differing is not None else [path for path, _ in source.walk(b.files)]:
        before, after = source.lookup(a.files, path), source.lookup(b.files, path)
        if before is None or after is None or before.mode != after.mode or before.mode == MODE_LINK:
            continue
        if (before == after or before.mode == MODE_DIR) and old.of(path, before.mode) != new.of(path, before.mode):
            yield path, before


def permission_changes(source: Trees, a: State, b: State) -> list[Change]:
    """Returns the files that differ in permission bits alone; the modes of the change carry the bits."""
    old, new = Permissions(source, a.modes, a.defaults), Permissions(source, b.modes, b.defaults)
    found = []
    for path, entry in bits_that_differ(source, a, b):
        if entry.mode != MODE_DIR:
            bits, now = old.of(path, entry.mode), new.of(path, entry.mode)
            found.append(Change(path, entry._replace(mode=0o100000 | bits), entry._replace(mode=0o100000 | now)))
    return found


# -- what differs -------------------------------------------------------------------------------

#: Said of a directory that the checkpoint before still held.
TURNED_WORKTREE = "saved until now; it is a git worktree now, with a history of its own"


def changes_since(base: Entry | None, scan: Scan, source: Trees) -> list[Change]:
    """
    Returns the files that differ from a checkpoint; what is there but not captured is not taken for deleted.

    Paths that were captured before and are hidden by an ignore rule now get the reason that makes a checkpoint partial.
    """
    if base is None:
        everything = (Change(path, None, _entry(path, (mode, oid))) for path, mode, oid in scan.captured())
        return sorted(with_secrets(everything, {}, scan.sealed), key=lambda change: change.path)
    if scan.cache.root_tree == base.files_tree:
        found = [Change(path, _entry(path, old), _entry(path, new)) for path, old, new in scan.changes()]
    else:
        found = source.changes(base.files_tree, scan.tree)
    found = with_secrets(found, base.sealed, scan.sealed)
    cover, shown = scan.cover(), []
    for change in found:
        hidden = cover.over(change.path) if change.new is None else None
        if hidden is None:
            shown.append(change)
        elif scan.missed[hidden].reason == WORKTREE:
            scan.missed[hidden] = scan.missed[hidden]._replace(detail=TURNED_WORKTREE)
        elif scan.missed[hidden].reason == IGNORED and to_text(hidden) not in base.by_name:
            scan.missed[hidden] = scan.missed[hidden]._replace(
                reason=NEWLY_IGNORED, detail="saved until now; an ignore rule hides it"
            )
    shown += permission_changes(source, base.trees, state_of(scan))
    shown.sort(key=lambda change: change.path)
    return shown


def paths_since(base: Entry | None, scan: Scan, source: Trees) -> bytes:
    """Returns the paths of `changes_since`, packed; a first checkpoint may have millions, of which nothing else is kept."""
    if base is None:
        if scan.sealed:
            return pack_paths(b"\0".join(sorted([*scan.paths(), *scan.sealed])))
        return pack_paths(b"\0".join(scan.paths()))
    return pack_paths(b"\0".join([change.path for change in changes_since(base, scan, source)]))


def _same_secrets(entry: Entry, scan: Scan) -> bool:
    then, now = entry.sealed, scan.sealed
    return then.keys() == now.keys() and all(file.is_as(now[path]) for path, file in then.items())


def with_secrets(changes: Iterable[Change], old: Sealed, new: Sealed) -> list[Change]:
    """Returns changes of plain files together with those of sealed ones; see `model.checkpoint.with_sealed`."""
    if not old and not new:
        return list(changes)
    from mulligan.model.checkpoint import with_sealed

    return with_sealed(changes, old, new)


def _entry(path: bytes, found: tuple[int, bytes] | None) -> TreeEntry | None:
    return None if found is None else TreeEntry(path.rpartition(b"/")[2], *found)


def lists_hidden(entry: Entry, scan: Scan) -> bool:
    """Whether a checkpoint lists as not captured all that a scan did not."""
    return {row.path for row in scan.not_captured()} <= {row.path for row in entry.checkpoint.not_captured}


def same_state(entry: Entry | None, scan: Scan) -> bool:
    """Returns whether a checkpoint holds exactly what a scan found."""
    if entry is None or (entry.modes_tree, entry.defaults) != (scan.modes, tuple(scan.defaults)):
        return False
    return _same_secrets(entry, scan) and scan.tree == entry.files_tree


def pack_changes(source: Trees, parent: Entry | None, child: Entry) -> bytes:
    """Returns the list of files that a checkpoint changed, as it is kept; what it did not capture is not taken for deleted."""
    hidden = cover_of(child.checkpoint.not_captured)
    changes = compare_entries(source, parent, child)
    return pack_list(
        to_text(change.path) for change in changes if change.new is not None or hidden.over(change.path) is None
    )


def compare_entries(source: Trees, a: Entry | None, b: Entry) -> list[Change]:
    """Returns the files that differ between two checkpoints, in contents or permission bits."""
    found = source.changes(a.files_tree if a else EMPTY_TREE, b.files_tree)
    found = with_secrets(found, a.sealed if a else {}, b.sealed)
    if a is not None:
        found += permission_changes(source, a.trees, b.trees)
        found.sort(key=lambda change: change.path)
    return found


def touches(entry: Entry, path: bytes) -> bool:
    """Returns whether a checkpoint changed a path or something below it."""
    return any(covers(path, os.fsencode(name)) for name in entry.checkpoint.files_changed)
