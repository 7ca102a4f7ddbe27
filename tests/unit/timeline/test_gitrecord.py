"""Where git stood, in a checkpoint's commit."""

from __future__ import annotations

import pytest

from mulligan.errors import StoreDamaged
from mulligan.model.gitposition import GitPosition, GitRecord
from mulligan.model.objects import (
    BLOB,
    COMMIT,
    MODE_DIR,
    TREE,
    Commit,
    TreeEntry,
    encode_commit,
    encode_tree,
    object_id,
    parse_tree,
)
from mulligan.timeline.commits import NO_TREE
from mulligan.timeline.read_commits import read_record, record_tree, write_record

POSITION = GitPosition(
    "a" * 40, "zweig-\udcff", "refs/heads/zweig-\udcff", "s", (("refs/heads/x", ""),), (("MERGE_MSG", "\udcfe"),)
)


class Memory:
    """Objects in a dictionary, as writer and as reader."""

    def __init__(self) -> None:
        self.objects: dict[bytes, bytes] = {}

    def add(self, kind: bytes, data: bytes) -> bytes:
        oid = object_id(kind, data)
        self.objects[oid] = data
        return oid

    def read(self, oid: bytes, _kind: bytes) -> bytes:
        return self.objects[oid]

    def read_tree(self, oid: bytes) -> list[TreeEntry]:
        return parse_tree(self.objects[oid])

    def commit(self, git: bytes) -> bytes:
        entries = [TreeEntry(b"files", MODE_DIR, self.add(TREE, b""))]
        entries += [TreeEntry(b"git", MODE_DIR, git)] if git != NO_TREE else []
        return self.add(COMMIT, encode_commit(Commit(self.add(TREE, encode_tree(entries)), "m", 1)))


@pytest.mark.parametrize("index", [b"", b"DIRC\0\xff bytes"])
def test_what_was_written_is_read(index: bytes) -> None:
    memory, record = Memory(), GitRecord(POSITION, index, 123)
    commit = memory.commit(write_record(record, memory))
    assert read_record(memory, commit) == record


def test_a_commit_without_one() -> None:
    memory = Memory()
    commit = memory.commit(NO_TREE)
    assert read_record(memory, commit) is None and record_tree(memory, commit) == NO_TREE


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"ref": 1}', b"\xff", b'{"refs": []}'])
def test_a_record_that_cannot_be_read_is_damage(text: bytes) -> None:
    memory = Memory()
    tree = memory.add(TREE, encode_tree([TreeEntry(b"position.json", 0o100644, memory.add(BLOB, text))]))
    with pytest.raises(StoreDamaged):
        read_record(memory, memory.commit(tree))
