"""
The index's TREE extension: which directories of the index are known to equal which tree.

A valid node saves reading the tree it names. The extension is a hint: when it is malformed there is none.
"""

from __future__ import annotations

_DEPTH = 2048
# Several times the directories of the largest projects; a node takes more memory than the six bytes that claim it.
NODES_LIMIT = 300_000


class CacheTree:
    """One directory of the index; `oid` is None when its tree has to be worked out."""

    __slots__ = ("children", "oid")

    def __init__(self, oid: bytes | None) -> None:
        self.oid = oid
        self.children: dict[bytes, CacheTree] = {}


def parse_cache_tree(data: bytes) -> CacheTree | None:
    """Returns the root of the extension's nodes, None when it is empty or malformed."""
    try:
        return _parse(data)
    except (ValueError, IndexError):
        return None


def _parse(data: bytes) -> CacheTree | None:
    root: CacheTree | None = None
    open_nodes: list[tuple[CacheTree, int, int]] = []  # a node, how many of its children are to come, and their depth
    at = nodes = depth = 0
    while at < len(data):
        nodes += 1
        nul = data.index(b"\0", at)
        line = data.index(b"\n", nul, nul + 32)
        entries, subtrees = data[nul + 1 : line].split(b" ")
        name, valid, count = data[at:nul], int(entries) >= 0, int(subtrees)
        at = line + 1 + (20 if valid else 0)
        if at > len(data) or count < 0 or depth > _DEPTH or nodes > NODES_LIMIT:
            return None
        node = CacheTree(data[line + 1 : at] if valid else None)
        if root is None:
            root = node
        else:
            parent, left, depth = open_nodes.pop()
            parent.children[name] = node
            if left > 1:
                open_nodes.append((parent, left - 1, depth))
        if count:
            open_nodes.append((node, count, depth + 1))
        if not open_nodes:
            break
    return root if not open_nodes else None


def root_oid(data: bytes) -> bytes | None:
    """Returns the tree that the whole index is known to be, without taking the rest apart."""
    line = data.find(b"\n", 0, 64)
    if data[:1] != b"\0" or line < 0 or data[1:2] == b"-" or len(data) < line + 21:
        return None
    return data[line + 1 : line + 21]
