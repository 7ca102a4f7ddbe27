"""Finds files that go by another name: renamed by the step that is taken back, or by others since."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mulligan.diff.compare import compare_trees
from mulligan.diff.renames import find_renames
from mulligan.model.objects import BLOB, Change, TreeEntry
from mulligan.model.plan import Node
from mulligan.timeline.trees import Trees

#: Returns the bytes of a file that the scan saw at a path and the store may not hold yet; None where they changed since.
Read = Callable[[bytes, bytes], bytes | None]


def renamed_by(source: Trees, gone: dict[bytes, Node], made: dict[bytes, Node]) -> list[tuple[bytes, bytes]]:
    """Returns the old and the new path of files that a step renamed, among those it removed and those it made."""
    changes = [Change(path, TreeEntry(path, node.mode, node.oid), None) for path, node in gone.items()]
    changes += [Change(path, None, TreeEntry(path, node.mode, node.oid)) for path, node in made.items()]
    return _pairs(changes, lambda oid: source.read(oid, BLOB))


def renamed_since(source: Trees, then: bytes, now: bytes, read: Read) -> dict[bytes, bytes]:
    """Returns the present path of each file that was renamed between a tree and the workspace."""
    changes = compare_trees(source.read_tree, then, now)
    places = {change.new.oid: change.path for change in changes if change.new is not None}

    def content(oid: bytes) -> bytes:
        found = read(places[oid], oid) if oid in places else source.read(oid, BLOB)
        if found is None:
            raise LookupError(oid)  # it keeps changing: no rename is seen
        return found

    return dict(_pairs(changes, content))


def _pairs(changes: Sequence[Change], read: Callable[[bytes], bytes]) -> list[tuple[bytes, bytes]]:
    return [(old.path, new.path) for old, new in find_renames(changes, read, lambda oid: len(read(oid)))]
