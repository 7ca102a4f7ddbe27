"""
What commits and trees reach.

Blobs are counted, never read; each tree is read once (for `exclusive_bytes`, twice at the most). A tree that cannot be
read raises StoreDamaged: what lies below it is unknown, and nobody may take the unknown for dead.
Nothing here recurses, so a tree of any depth is walked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mulligan.model.objects import COMMIT, TREE, parse_commit
from mulligan.store.objects import ObjectStore
from mulligan.store.packfile import damaged

# Names are not judged here as `parse_tree` judges them: a restore refuses an unsafe one, a collection keeps its object.
_ENTRY = re.compile(rb"(?:(4)0000|100644|100755|120000) [^\0/]+\0(.{20})", re.DOTALL)


def reachable(store: ObjectStore, roots: Iterable[bytes]) -> set[bytes]:
    """Returns the ids of everything that commits or trees reach, themselves included."""
    seen: set[bytes] = set()
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        waiting = _root_trees(store, root)
        while waiting:
            tree = waiting.pop()
            if tree in seen and tree != root:
                continue
            seen.add(tree)
            trees, blobs = _children(store, tree)
            seen.update(blobs)
            waiting += [below for below in trees if below not in seen]
    return seen


def exclusive_bytes(store: ObjectStore, roots: Mapping[str, bytes]) -> dict[str, int]:
    """Returns for each root the packed bytes of the objects that no other root reaches."""
    owner: dict[bytes, str | None] = {}
    for name, root in roots.items():
        _claim(store, owner, name, root)
    held = dict.fromkeys(roots, 0)
    for oid, only in owner.items():
        if only is not None and store.has(oid):  # what is missing takes no room; `check` tells of it
            held[only] += store.packed_size(oid)
    return held


def _claim(store: ObjectStore, owner: dict[bytes, str | None], name: str, root: bytes) -> None:
    """Walks one root: what nobody had is its own, what another had is shared from now on, with all below."""
    waiting: list[tuple[bytes, bool, bool]] = [(root, True, False)]
    while waiting:
        oid, walk, shared = waiting.pop()
        before = owner.get(oid, "")
        if before is None or (before == name and not shared and oid in owner):
            continue
        now_shared = shared or oid in owner
        owner[oid] = None if now_shared else name
        if not walk:
            continue
        trees, blobs = _children_of_any(store, oid) if oid == root else _children(store, oid)
        waiting += [(tree, True, now_shared) for tree in trees]
        waiting += [(blob, False, now_shared) for blob in blobs]


def _root_trees(store: ObjectStore, root: bytes) -> list[bytes]:
    kind, _ = store.kind_and_size(root)
    if kind == COMMIT:
        return [parse_commit(store.read(root, COMMIT)).tree]
    return [root] if kind == TREE else []


def _children_of_any(store: ObjectStore, oid: bytes) -> tuple[list[bytes], list[bytes]]:
    kind, _ = store.kind_and_size(oid)
    if kind == COMMIT:
        return [parse_commit(store.read(oid, COMMIT)).tree], []
    return _children(store, oid) if kind == TREE else ([], [])


def _children(store: ObjectStore, tree: bytes) -> tuple[list[bytes], list[bytes]]:
    """Returns the trees and the blobs that a tree names."""
    data = store.read(tree, TREE)
    trees: list[bytes] = []
    blobs: list[bytes] = []
    at = 0
    for found in _ENTRY.finditer(data):
        if found.start() != at:
            break
        at = found.end()
        (trees if found[1] else blobs).append(found[2])
    if at != len(data):
        raise damaged(tree, "it is not a tree that mulligan writes")
    return trees, blobs
