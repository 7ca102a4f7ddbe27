"""
How far a tree reaches, found without walking it.

Forty trees, each holding the next one twice, are a few kilobytes and a million million paths. Trees are shared, so paths
can be counted without being walked: each tree once. The walk asks only after it has met many, so that it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from mulligan.errors import StoreDamaged
from mulligan.model.objects import EMPTY_TREE, MODE_DIR, TreeEntry

ReadTree = Callable[[bytes], list[TreeEntry]]

#: More paths than a workspace has; and no workspace has paths that are so long on average.
MOST_PATHS, _LONGEST_ON_AVERAGE = 20_000_000, 1024
# A walk goes so far before it asks.
_ASK_PATHS, _ASK_BYTES = 100_000, 32 << 20


class Extent:
    """Watches one walk, and ends it where the trees reach further than any workspace does."""

    def __init__(self, read_tree: ReadTree, *trees: bytes | None) -> None:
        self._read_tree = read_tree
        self._trees = [tree for tree in trees if tree is not None]
        self._paths = self._bytes = 0
        self._asked = False

    def met(self, path: bytes) -> None:
        """Counts one path; raises StoreDamaged when too many are still to come."""
        self._paths += 1
        self._bytes += len(path)
        if not self._asked and (self._paths > _ASK_PATHS or self._bytes > _ASK_BYTES):
            self._asked = True
            for tree in self._trees:
                refuse_endless(self._read_tree, tree)


def refuse_endless(read_tree: ReadTree, root: bytes) -> None:
    """Raises StoreDamaged when more paths, or longer ones, lie below a tree than any workspace has."""
    known: dict[bytes, tuple[int, int]] = {EMPTY_TREE: (0, 0)}
    pending = [root]
    while pending:
        tree = pending[-1]
        if tree in known:
            pending.pop()
            continue
        entries = read_tree(tree)
        below = [entry.oid for entry in entries if entry.mode == MODE_DIR and entry.oid not in known]
        if below:
            pending += below
            continue
        paths = size = 0
        for entry in entries:
            inner, inner_size = known[entry.oid] if entry.mode == MODE_DIR else (0, 0)
            paths += 1 + inner
            size += (len(entry.name) + 1) * (1 + inner) + inner_size
        if paths > MOST_PATHS or size > max(_ASK_BYTES, _LONGEST_ON_AVERAGE * paths):
            raise StoreDamaged(
                "A checkpoint in the store holds more paths than any workspace has; it was made to do harm.",
                hint="Delete it: mulligan log, then mulligan rm REF",
            )
        known[tree] = (paths, size)
        pending.pop()
