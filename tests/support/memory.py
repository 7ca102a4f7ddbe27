"""
A store of trees in memory, for what needs trees and no disk.

`tree` builds one from paths; `read_tree`, `read_blob` and `size_of` read it back, and `trees_read` counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from mulligan.model.objects import (
    BLOB,
    MODE_DIR,
    MODE_FILE,
    TREE,
    TreeEntry,
    encode_tree,
    object_id,
    parse_tree,
)

File = bytes | tuple[int, bytes]


class Memory:
    """Blobs and trees by id."""

    def __init__(self) -> None:
        self.objects: dict[bytes, bytes] = {}
        self.trees_read: list[bytes] = []
        self.blobs_read: list[bytes] = []

    def put(self, kind: bytes, data: bytes) -> bytes:
        """Holds one object and names it."""
        oid = object_id(kind, data)
        self.objects[oid] = data
        return oid

    def tree(self, files: Mapping[bytes, File], directories: tuple[bytes, ...] = ()) -> bytes:
        """The tree that holds these files (contents, or mode and contents) and empty directories, deepest first."""
        below: dict[bytes, dict[bytes, TreeEntry]] = {b"": {}}
        for path in directories:
            below.setdefault(path, {})
        for path, file in files.items():
            mode, data = file if isinstance(file, tuple) else (MODE_FILE, file)
            folder, _, name = path.rpartition(b"/")
            below.setdefault(folder, {})[name] = TreeEntry(name, mode, self.put(BLOB, data))
        for path in list(below):
            while path:
                path = path.rpartition(b"/")[0]  # noqa: PLW2901 - up to the root
                below.setdefault(path, {})
        for path in sorted(below, key=lambda path: (path.count(b"/") + bool(path), path), reverse=True):
            oid = self.put(TREE, encode_tree(below[path].values()))
            folder, _, name = path.rpartition(b"/")
            if not path:
                return oid
            below[folder][name] = TreeEntry(name, MODE_DIR, oid)
        raise AssertionError("the root was not reached")

    def read_tree(self, oid: bytes) -> list[TreeEntry]:
        """The entries of a tree."""
        self.trees_read.append(oid)
        return parse_tree(self.objects[oid])

    def read(self, oid: bytes, _: bytes) -> bytes:
        """The bytes of an object."""
        return self.objects[oid]

    def read_blob(self, oid: bytes) -> bytes:
        """The contents of a blob."""
        self.blobs_read.append(oid)
        return self.objects[oid]

    def read_entry(self, path: bytes, entry: TreeEntry) -> bytes:
        """The contents of a file, as a patch asks for them."""
        return self.read_blob(entry.oid)

    def size_of(self, oid: bytes) -> int:
        """The length of a blob."""
        return len(self.objects[oid])
