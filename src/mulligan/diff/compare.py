"""
Compares two trees: which paths differ.

Equal subtrees are never read, so the cost follows the changes. The walk keeps its own stack: a tree may be deeper than Python
can recurse. `Extent` ends a walk through trees that reach further than any workspace does: forty trees, each holding the next
one twice, are a few kilobytes and a million million paths. It counts each tree once, and only after the walk has met many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from mulligan.errors import MulliganError, StoreDamaged
from mulligan.model.objects import EMPTY_TREE, MODE_DIR, Change, TreeEntry
from mulligan.model.paths import join

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


# One name in two trees that differ there.
Pair = tuple[bytes, TreeEntry | None, TreeEntry | None]

# What reading a blob or a workspace file may raise; a diff goes on without that file.
UNREADABLE = (OSError, MulliganError, LookupError)


def walk_changes(read_tree: ReadTree, old: bytes | None, new: bytes | None) -> Iterator[Change]:
    """Yields every entry below two trees that differs, directories included, one per path, in no promised order."""
    pending: list[tuple[bytes, bytes | None, bytes | None]] = [(b"", old, new)]
    extent = Extent(read_tree, old, new)
    while pending:
        directory, old_id, new_id = pending.pop()
        if old_id == new_id:
            continue
        for name, before, after in _differing(_entries(read_tree, old_id), _entries(read_tree, new_id)):
            path = join(directory, name)
            extent.met(path)
            yield Change(path, before, after)
            below = _tree_id(before), _tree_id(after)
            if below != (None, None):
                pending.append((path, *below))


def compare_trees(
    read_tree: ReadTree,
    old: bytes | None,
    new: bytes | None,
    *,
    directories: bool = False,
) -> list[Change]:
    """
    Returns the files and links that differ between two trees, sorted by path, one change per path.

    With `directories`, also every directory that exists on one side only. A file that became a directory is then one
    change that holds both; without `directories` it is the deletion of the file and the additions below it.
    """
    found = [
        change
        for change in walk_changes(read_tree, old, new)
        if _tree_id(change.old) is None or _tree_id(change.new) is None
    ]
    found.sort(key=lambda change: change.path)
    return found if directories else _without_directories(found)


def _without_directories(changes: Iterable[Change]) -> list[Change]:
    """Returns what `compare_trees` does of files and links alone, from what it returns with `directories`."""
    found = []
    for path, old, new in changes:
        before, after = (None if _tree_id(entry) is not None else entry for entry in (old, new))
        if before is not None or after is not None:
            found.append(Change(path, before, after))
    return found


def _entries(read_tree: ReadTree, tree: bytes | None) -> list[TreeEntry]:
    return [] if tree is None or tree == EMPTY_TREE else read_tree(tree)


def _tree_id(entry: TreeEntry | None) -> bytes | None:
    return entry.oid if entry is not None and entry.mode == MODE_DIR else None


def _differing(old: list[TreeEntry], new: list[TreeEntry]) -> Iterator[Pair]:
    gone = {entry.name: entry for entry in sorted(set(old).difference(new))}
    for after in sorted(set(new).difference(old)):
        yield after.name, gone.pop(after.name, None), after
    for before in gone.values():
        yield before.name, before, None
