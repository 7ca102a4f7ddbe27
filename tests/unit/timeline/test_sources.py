from __future__ import annotations

import pytest

from memory import Memory
from mulligan.diff.compare import compare_trees
from mulligan.model.objects import BLOB, object_id
from mulligan.timeline.sources import Source

OLD = {b"same": b"1", b"gone/deep/f": b"1", b"edited": b"1", b"becomes": b"1", b"was/f": b"1"}
NEW = {b"same": b"1", b"made/f": b"2", b"edited": b"2", b"becomes/a/directory": b"2", b"was": b"2"}


@pytest.mark.parametrize("directories", [False, True])
def test_two_trees_are_compared_once_for_both_ways(directories: bool) -> None:
    memory = Memory()
    source, old, new = Source(memory), memory.tree(OLD), memory.tree(NEW)  # type: ignore[arg-type]
    there, back = (
        compare_trees(memory.read_tree, one, other, directories=directories) for one, other in ((old, new), (new, old))
    )
    for _ in range(2):
        assert source.changes(old, new, directories=directories) == there
        read = len(memory.trees_read)
        assert source.changes(new, old, directories=directories) == back
        assert len(memory.trees_read) == read


def test_other_trees_are_compared_anew() -> None:
    memory = Memory()
    source = Source(memory)  # type: ignore[arg-type]
    one, two, three = (memory.tree({b"a": text}) for text in (b"1", b"2", b"3"))
    assert [change.new and change.new.oid for change in source.changes(one, two)] == [object_id(BLOB, b"2")]
    assert [change.new and change.new.oid for change in source.changes(one, three)] == [object_id(BLOB, b"3")]
    assert source.changes(one, one) == []
