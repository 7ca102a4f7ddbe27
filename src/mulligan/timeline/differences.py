"""
Diffs for people: between two checkpoints, or between one and the workspace; and what a checkpoint holds of some paths.

A path that is there and was not captured is not a deletion, on either side. Renames are found among all changes, also when
only some paths are asked for, and belong to a path by either of their names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from mulligan.diff.patch import MAX_FILE, TooLarge, make_diff
from mulligan.diff.renames import find_renames
from mulligan.model.checkpoint import (
    EXCLUDED,
    MOVING,
    Holding,
    NotCaptured,
)
from mulligan.model.diff import Diff
from mulligan.model.objects import BLOB, MODE_DIR, MODE_LINK, Change, TreeEntry
from mulligan.model.paths import covers, is_dot_git, parent_of, to_text
from mulligan.safefs.directory import Directory
from mulligan.scan.trees import Cover, Scan, cover_of
from mulligan.timeline.commits import Entry
from mulligan.timeline.trees import ObjectReader, Trees, WorkspaceView, changes_since, compare_entries

if TYPE_CHECKING:
    from mulligan.timeline.store import Store


class ComparedObjects(ObjectReader, Protocol):
    """What a comparison needs of a store, or of two."""

    def kind_and_size(self, oid: bytes) -> tuple[bytes, int]:
        """Returns what an object is and how many bytes it has."""

    def has(self, oid: bytes) -> bool:
        """Returns whether there is such an object."""


def diff_entries(objects: ComparedObjects, a: Entry, b: Entry, paths: Iterable[bytes] | None = None) -> Diff:
    """Returns what differs from one checkpoint to another, at or below some paths (None: everywhere)."""
    found = compare_entries(Trees(objects), a, b)
    missing_then, missing_now = _cover(a), _cover(b)
    shown = [c for c in found if not _only_hidden(c, missing_then, missing_now)]
    read = _Blobs(objects)
    chosen = _chosen(shown, find_renames(shown, read.blob, read.size), paths)
    return make_diff(a.id, b.id, *chosen, read.entry, read.entry)


def contents(store: Store, entry: Entry) -> Diff:
    """Returns everything that a checkpoint holds, as if it were added."""
    found = [
        Change(path, None, each) for path, each in Trees(store.objects).walk(entry.files_tree) if each.mode != MODE_DIR
    ]
    read = _Blobs(store.objects)
    return make_diff("", entry.id, found, [], read.entry, read.entry)


def diff_files(objects: ComparedObjects, a: Entry, scan: Scan, root: str, paths: Iterable[bytes] | None = None) -> Diff:
    """Returns what differs from a checkpoint to the files a scan saw, at or below some paths (None: everywhere)."""
    hidden = _cover(a)
    found = changes_since(a, scan, Trees(objects, scan))
    shown = [c for c in found if c.old is not None or hidden.over(c.path) is None]
    old, new = _Blobs(objects), _Files(root)
    places = {change.new.oid: change.path for change in shown if change.new is not None}

    def blob(oid: bytes) -> bytes:
        return old.blob(oid) if objects.has(oid) else new.read(places[oid])

    def size(oid: bytes) -> int:
        return old.size(oid) if objects.has(oid) else new.size(places[oid])

    return make_diff(a.id, "", *_chosen(shown, find_renames(shown, blob, size), paths), old.entry, new.entry)


def _chosen(
    changes: list[Change], renames: list[tuple[Change, Change]], paths: Iterable[bytes] | None
) -> tuple[list[Change], list[tuple[Change, Change]]]:
    """Returns the changes and renames at or below some paths, both halves of a rename that has one there."""
    if paths is None:
        return changes, renames
    asked = Cover(paths)
    kept = [pair for pair in renames if any(asked.over(change.path) is not None for change in pair)]
    halves = {change.path for pair in kept for change in pair}
    return [c for c in changes if c.path in halves or asked.over(c.path) is not None], kept


def _cover(entry: Entry) -> Cover:
    return cover_of(entry.checkpoint.not_captured)


def _only_hidden(change: Change, then: Cover, now: Cover) -> bool:
    """Whether a path seems added or deleted only because one side did not capture it."""
    if change.new is None:
        return now.over(change.path) is not None
    return change.old is None and then.over(change.path) is not None


class _Blobs:
    """Contents from the store."""

    def __init__(self, objects: ComparedObjects) -> None:
        self._objects = objects

    def blob(self, oid: bytes) -> bytes:
        return self._objects.read(oid, BLOB)

    def size(self, oid: bytes) -> int:
        return self._objects.kind_and_size(oid)[1]

    def entry(self, _: bytes, entry: TreeEntry) -> bytes:
        if self.size(entry.oid) > MAX_FILE:
            raise TooLarge
        return self.blob(entry.oid)


class _Files:
    """Contents from the workspace, read when a patch is asked for."""

    def __init__(self, root: str) -> None:
        self._root = root

    def size(self, path: bytes) -> int:
        with Directory.open(self._root) as root, root.descend(parent_of(path)) as directory:
            return directory.stat(os.path.basename(path)).st_size

    def read(self, path: bytes, *, link: bool = False) -> bytes:
        with Directory.open(self._root) as root, root.descend(parent_of(path)) as directory:
            name = os.path.basename(path)
            return directory.readlink(name) if link else directory.read(name)

    def entry(self, path: bytes, entry: TreeEntry) -> bytes:
        if entry.mode != MODE_LINK and self.size(path) > MAX_FILE:
            raise TooLarge
        return self.read(path, link=entry.mode == MODE_LINK)


_GIT = "git's own files are never saved"


def holdings(root: str, entry: Entry | None, look: WorkspaceView, paths: Sequence[bytes]) -> list[Holding]:
    """Returns what an entry holds of each of these paths, which may be spellings of `.git`."""
    rows = [(os.fsencode(row.path) if row.path != "." else b"", row) for row in look.scan.not_captured()]
    changes = changes_since(entry, look.scan, look.source)
    rows += [
        (change.path, NotCaptured(to_text(change.path), MOVING, "changed since the last checkpoint"))
        for change in changes
        if change.new is not None
    ]
    return [_holding(root, entry, look, path, rows) for path in paths]


def _holding(
    root: str, entry: Entry | None, look: WorkspaceView, path: bytes, rows: list[tuple[bytes, NotCaptured]]
) -> Holding:
    text = to_text(path)
    if any(map(is_dot_git, path.split(b"/"))):
        return Holding(text, 0, (NotCaptured(text, EXCLUDED, _GIT),))
    is_directory = os.path.isdir(os.path.join(root, text)) and not os.path.islink(os.path.join(root, text))
    above = next((row for where, row in rows if covers(where, path)), None)
    if above is not None:
        # Below an ignored directory, what git tracks is saved all the same.
        saved = above.reason != MOVING and (is_directory or look.scan.entry(path) is not None)
        files = _files(entry, look, path) if saved else 0
        lost = is_directory or not files
        return Holding(text, files, (NotCaptured(text, above.reason, above.detail),) if lost else (), is_directory)
    unsaved = [row for where, row in rows if covers(path, where)]
    own = os.path.join(text, ".git")
    if os.path.lexists(os.path.join(root, own)) and all(row.path != own for row in unsaved):
        unsaved.append(NotCaptured(own, EXCLUDED, _GIT))
    files = _files(entry, look, path) - sum(row.reason == MOVING for row in unsaved)
    return Holding(text, max(files, 0), tuple(unsaved), is_directory)


def _files(entry: Entry | None, look: WorkspaceView, path: bytes) -> int:
    """Returns how many files and links an entry holds at or below a path, sealed ones included."""
    if entry is None:
        return 0
    found = look.source.lookup(entry.files_tree, path)
    sealed = sum(covers(path, each) for each in entry.sealed)
    if found is None or found.mode != MODE_DIR:
        return sealed + (found is not None)
    return sealed + sum(each.mode != MODE_DIR for _, each in look.source.walk(found.oid))
