"""
The versions of each path through a history, in order.

A pack can store one version as a delta against the next; git has to guess which objects belong
together, and here it is known. Only neighbours in the history are compared, so the cost follows the changes, and what
is remembered is bounded: past the limit later versions are left out, which costs disk and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from mulligan.diff.compare import ReadTree, walk_changes
from mulligan.model.objects import EMPTY_BLOB, EMPTY_TREE, MODE_DIR, Change, TreeEntry

MAX_VERSIONS = 1_000_000
_MAX_HELD = 4096

_Key = tuple[bytes, bool]


def version_chains(read_tree: ReadTree, trees: Sequence[bytes], *, limit: int = MAX_VERSIONS) -> list[list[bytes]]:
    """
    Returns the ids of the versions of every path that has more than one, oldest first.

    Files and directories have chains of their own, the root included. An id is in one chain only, the first that had
    it, and once. A path that was away for a while and came back goes on with its chain.
    """
    chains = _Chains(limit)
    reader = _VersionReader(read_tree)
    for old, new in pairwise(trees):
        if old == new:
            continue
        chains.link((b"", True), old, new)
        for change in walk_changes(reader.read, old, new):
            chains.follow(change)
        reader.turn()
    return chains.finished()


class _Chains:
    """The chains so far, what was deleted and may come back, and the ids that have a place."""

    def __init__(self, limit: int) -> None:
        self._chains: dict[_Key, list[bytes]] = {}
        self._away: dict[_Key, bytes] = {}
        self._placed: set[bytes] = {EMPTY_BLOB, EMPTY_TREE}
        self._limit = limit

    def follow(self, change: Change) -> None:
        """Takes note of one path between two neighbours."""
        old, new = _version(change.path, change.old), _version(change.path, change.new)
        if old and new and old[0] == new[0]:
            self.link(old[0], old[1], new[1])
            return
        if old and len(self._away) < self._limit:
            self._away[old[0]] = old[1]
        if new and new[0] in self._away:
            self.link(new[0], self._away.pop(new[0]), new[1])

    def link(self, key: _Key, old: bytes, new: bytes) -> None:
        """Notes that one version of a path was followed by another."""
        if old == new or len(self._placed) >= self._limit:
            return
        for oid in (old, new):
            if oid not in self._placed:
                self._placed.add(oid)
                self._chains.setdefault(key, []).append(oid)

    def finished(self) -> list[list[bytes]]:
        """Returns the chains that say something."""
        return [chain for chain in self._chains.values() if len(chain) > 1]


def _version(path: bytes, entry: TreeEntry | None) -> tuple[_Key, bytes] | None:
    return ((path, entry.mode == MODE_DIR), entry.oid) if entry is not None else None


class _VersionReader:
    """Holds the trees of the last comparison: the new side of one is the old side of the next."""

    def __init__(self, read_tree: ReadTree) -> None:
        self._read_tree = read_tree
        self._before: dict[bytes, list[TreeEntry]] = {}
        self._now: dict[bytes, list[TreeEntry]] = {}

    def read(self, oid: bytes) -> list[TreeEntry]:
        """Returns the entries of a tree."""
        entries = self._now.get(oid) or self._before.get(oid) or self._read_tree(oid)
        if len(self._now) < _MAX_HELD:
            self._now[oid] = entries
        return entries

    def turn(self) -> None:
        """Forgets what the comparison before the last one read."""
        self._before, self._now = self._now, {}
