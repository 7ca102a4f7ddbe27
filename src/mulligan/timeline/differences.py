"""
What differs between two checkpoints, or between one and the workspace.

A path that is there and was not captured is not a deletion, on either side. Renames are found among all
changes, also when only some paths are asked for, and belong to a path by either of their names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from mulligan.diff.patch import MAX_FILE, TooLarge, make_diff
from mulligan.diff.renames import find_renames
from mulligan.model.diff import Diff
from mulligan.model.objects import BLOB, MODE_DIR, MODE_LINK, Change, TreeEntry
from mulligan.model.paths import parent_of
from mulligan.safefs.directory import Directory
from mulligan.scan.trees import Cover, Scan, cover_of
from mulligan.store.objects import ObjectStore
from mulligan.timeline.commits import Entry
from mulligan.timeline.saving import changes_since, compare_entries
from mulligan.timeline.sources import Source
from mulligan.timeline.vault import Vault


def between(vault: Vault, a: Entry, b: Entry, paths: Iterable[bytes] | None = None) -> Diff:
    """Returns what differs from one checkpoint to another, at or below some paths (None: everywhere)."""
    found = compare_entries(Source(vault.objects), a, b)
    missing_then, missing_now = _cover(a), _cover(b)
    shown = [c for c in found if not _only_hidden(c, missing_then, missing_now)]
    read = _Blobs(vault.objects)
    chosen = _chosen(shown, find_renames(shown, read.blob, read.size), paths)
    return make_diff(a.id, b.id, *chosen, read.entry, read.entry)


def contents(vault: Vault, entry: Entry) -> Diff:
    """Returns everything that a checkpoint holds, as if it were added."""
    found = [
        Change(path, None, each) for path, each in Source(vault.objects).walk(entry.files_tree) if each.mode != MODE_DIR
    ]
    read = _Blobs(vault.objects)
    return make_diff("", entry.id, found, [], read.entry, read.entry)


def since(vault: Vault, a: Entry, scan: Scan, root: str, paths: Iterable[bytes] | None = None) -> Diff:
    """Returns what differs from a checkpoint to the workspace a scan saw, at or below some paths (None: everywhere)."""
    hidden = _cover(a)
    found = changes_since(a, scan, Source(vault.objects, scan))
    shown = [c for c in found if c.old is not None or hidden.over(c.path) is None]
    old, new = _Blobs(vault.objects), _Files(root)
    places = {change.new.oid: change.path for change in shown if change.new is not None}

    def blob(oid: bytes) -> bytes:
        return old.blob(oid) if vault.objects.has(oid) else new.read(places[oid])

    def size(oid: bytes) -> int:
        return old.size(oid) if vault.objects.has(oid) else new.size(places[oid])

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

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def blob(self, oid: bytes) -> bytes:
        return self._store.read(oid, BLOB)

    def size(self, oid: bytes) -> int:
        return self._store.kind_and_size(oid)[1]

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
