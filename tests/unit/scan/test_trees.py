"""Directory records become the trees that git would write, and odd permission bits cost only where they are."""

from __future__ import annotations

import pytest

from mulligan.model.objects import MODE_DIR, MODE_EXEC, MODE_FILE, MODE_LINK, parse_tree
from mulligan.scan.cache import DirectoryRecord
from mulligan.scan.trees import NONE, Defaults, git_mode, parse_odd, seal


def sealed(modes: dict[bytes, int], children: dict[bytes, DirectoryRecord] | None = None):
    record = DirectoryRecord()
    record.names = sorted(modes)
    record.oids = b"".join(bytes([at]) * 20 for at in range(len(modes)))
    objects: dict[bytes, tuple[bytes, bytes]] = {}
    seal(record, [modes[name] for name in record.names], list((children or {}).items()), Defaults(), objects)
    return record, objects


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (0o100644, MODE_FILE),
        (0o100600, MODE_FILE),
        (0o100755, MODE_EXEC),
        (0o100700, MODE_EXEC),
        (0o100655, MODE_FILE),
        (0o120777, MODE_LINK),
    ],
)
def test_a_mode_is_one_of_gits_three(mode, expected):
    assert git_mode(mode) == expected


def test_usual_permissions_leave_no_trace():
    record, objects = sealed({b"a": 0o100644, b"b": 0o100755, b"l": 0o120777}, {b"d": DirectoryRecord()})
    assert record.modes == NONE
    assert {entry.name: entry.mode for entry in parse_tree(objects[record.tree][1])} == {
        b"a": MODE_FILE, b"b": MODE_EXEC, b"d": MODE_DIR, b"l": MODE_LINK,
    }  # fmt: skip


def test_odd_permissions_are_written_down_and_read_back():
    child = DirectoryRecord()
    child.perm = 0o700
    modes = {b"a b": 0o100600, b"x\n": 0o104755, b"plain": 0o100644}
    record, objects = sealed(modes, {b"d": child})
    (exceptions,) = parse_tree(objects[record.modes][1])
    assert parse_odd(objects[exceptions.oid][1]) == {b"a b": 0o600, b"x\n": 0o4755, b"d": 0o700}


def test_a_directory_with_odd_bits_below_is_mirrored_and_others_are_not():
    below, _ = sealed({b"f": 0o100600})
    usual, _ = sealed({b"f": 0o100644})
    record, objects = sealed({}, {b"odd": below, b"usual": usual})
    (mirror,) = parse_tree(objects[record.modes][1])
    assert [entry.name for entry in parse_tree(objects[mirror.oid][1])] == [b"odd"]
