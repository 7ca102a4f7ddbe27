from __future__ import annotations

import pytest

from memory import Memory
from mulligan.diff.compare import compare_trees
from mulligan.model.objects import BLOB, MODE_FILE, TREE, encode_tree, object_id
from mulligan.scan.cache import Cache
from mulligan.scan.result import Defaults, Scan
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


def scanned(memory: Memory, files: dict[bytes, bytes]) -> Scan:
    """A scan that made every tree of some files itself."""
    scan = Scan(Defaults(), Cache())
    scan.tree = memory.tree(files)  # type: ignore[arg-type]
    pending = [scan.tree]
    while pending:
        entries = memory.read_tree(oid := pending.pop())
        scan.objects[oid] = (TREE, encode_tree(entries))
        pending += [entry.oid for entry in entries if entry.mode != MODE_FILE]
    return scan


@pytest.mark.parametrize("directories", [False, True])
def test_what_a_scan_made_is_compared_as_anything_else_is(directories: bool) -> None:
    """By bytes where the names are the same, by entries where they are not: the answer is one."""
    memory = Memory()
    many = {b"d%d/e%d/f%d" % (n % 3, n % 7, n): b"%d" % n for n in range(60)}
    for other in (OLD, NEW, many, many | {b"d1/e1/f1": b"x"}, many | {b"d1/e1/new": b"x"}, many | {b"d1": b"a file"}):
        for files in (many, NEW):
            wanted = {path: text for path, text in other.items() if not (b"d1" in other and path.startswith(b"d1/"))}
            scan, target = scanned(memory, files), memory.tree(wanted)  # type: ignore[arg-type]
            expected = compare_trees(memory.read_tree, scan.tree, target, directories=directories)
            source = Source(memory, scan)  # type: ignore[arg-type]
            assert source.changes(scan.tree, target, directories=directories) == expected


def test_trees_that_hold_the_same_names_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    many = {b"d%d/f%d" % (n % 3, n): b"%d" % n for n in range(60)}
    scan, target = scanned(memory, many), memory.tree(many | {b"d1/f1": b"x"})  # type: ignore[arg-type]
    source = Source(memory, scan)  # type: ignore[arg-type]
    monkeypatch.setattr(source, "read_tree", lambda oid: pytest.fail(f"{oid.hex()} was parsed"))
    assert [change.path for change in source.changes(scan.tree, target)] == [b"d1/f1"]
