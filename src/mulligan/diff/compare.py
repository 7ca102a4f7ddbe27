"""
Which paths differ between two trees.

Equal subtrees are never read, so the cost follows the changes. The walk keeps its own stack: a tree may be deeper than
Python can recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from mulligan.diff.extent import Extent
from mulligan.errors import MulliganError
from mulligan.model.objects import EMPTY_TREE, MODE_DIR, Change, TreeEntry
from mulligan.model.paths import join

ReadTree = Callable[[bytes], list[TreeEntry]]
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
