"""
What commits and trees reach.

Blobs are counted, never read; each tree is read once. A tree that cannot be read raises StoreDamaged: what lies below it is
unknown, and nobody may take the unknown for dead.
Nothing here recurses, so a tree of any depth is walked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mulligan.model.objects import COMMIT, TREE, parse_commit
from mulligan.store.objects import ObjectStore, damaged

# Names are not judged here as `parse_tree` judges them: a restore refuses an unsafe one, a collection keeps its object.
_ENTRY = rb"(?s)(?:(4)0000|100644|100755|120000) [^\0/]+\0(.{20})"


def reachable(store: ObjectStore, roots: Iterable[bytes]) -> set[bytes]:
    """Returns the ids of everything that commits or trees reach, themselves included."""
    seen: set[bytes] = set()
    for root in roots:
        reach(store, root, seen)
    return seen


def reach(store: ObjectStore, root: bytes, seen: set[bytes]) -> list[bytes]:
    """Adds to `seen` what a commit or tree reaches and returns what is new; what was there before came with all below it."""
    return [oid for found in reaching(store, root, seen) for oid in found]


def reaching(store: ObjectStore, root: bytes, seen: set[bytes]) -> Iterator[list[bytes]]:
    """Does what `reach` does, tree by tree, and yields what each adds; `seen` may be believed when it has ended."""
    if root in seen:
        return
    waiting = _root_trees(store, root)
    seen.add(root)
    yield [root]
    while waiting:
        tree = waiting.pop()
        if tree in seen and tree != root:
            continue
        trees, blobs = _children(store, tree)
        new = [oid for oid in dict.fromkeys((tree, *blobs)) if oid not in seen]
        seen.update(new)
        waiting += [below for below in trees if below not in seen]
        yield new


def _root_trees(store: ObjectStore, root: bytes) -> list[bytes]:
    kind, _ = store.kind_and_size(root)
    if kind == COMMIT:
        return [parse_commit(store.read(root, COMMIT)).tree]
    return [root] if kind == TREE else []


def _children(store: ObjectStore, tree: bytes) -> tuple[list[bytes], list[bytes]]:
    """Returns the trees and the blobs that a tree names."""
    data = store.read(tree, TREE)
    trees: list[bytes] = []
    blobs: list[bytes] = []
    at = 0
    for found in re.finditer(_ENTRY, data):
        if found.start() != at:
            break
        at = found.end()
        (trees if found[1] else blobs).append(found[2])
    if at != len(data):
        raise damaged(tree, "it is not a tree that mulligan writes")
    return trees, blobs
