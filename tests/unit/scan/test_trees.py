"""Directory records become the trees that git would write, and odd permission bits cost only where they are."""

from __future__ import annotations

import random

import pytest

from mulligan.model.objects import MODE_DIR, MODE_EXEC, MODE_FILE, MODE_LINK, TREE, object_id, parse_tree
from mulligan.scan import trees
from mulligan.scan.record import Record, git_mode
from mulligan.scan.result import Defaults
from mulligan.scan.trees import NONE, Held, Sealed, parse_odd, seal, spliced, tree_of


def sealed(modes: dict[bytes, int], children: dict[bytes, Record] | None = None):
    record = Record()
    record.names = sorted(modes)
    record.oids = b"".join(bytes([at]) * 20 for at in range(len(modes)))
    objects: dict[bytes, tuple[bytes, bytes]] = {}
    seal(Sealed(record, [modes[name] for name in record.names], list((children or {}).items())), Defaults(), objects)
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
    record, objects = sealed({b"a": 0o100644, b"b": 0o100755, b"l": 0o120777}, {b"d": Record()})
    assert record.modes == NONE
    assert {entry.name: entry.mode for entry in parse_tree(objects[record.tree][1])} == {
        b"a": MODE_FILE, b"b": MODE_EXEC, b"d": MODE_DIR, b"l": MODE_LINK,
    }  # fmt: skip


def test_odd_permissions_are_written_down_and_read_back():
    child = Record()
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


ONE, TWO, SIX = b"\1" * 20, b"\2" * 20, b"\6" * 20
# Names that hold what an entry looks like, as far as names can.
ODD_NAMES = (b"a", b"x100644 a", b"100644 a", b"x a", b"a.b", b"a b", b"40000 a", b"b", b"b100755 b", b" ", b"\xff\n")


@pytest.mark.parametrize("seed", range(300))
def test_ids_that_are_exchanged_make_the_tree_that_is_made_anew(seed):
    rng = random.Random(seed)
    # Few different ids, and ids that hold pieces of entries: what looks like an entry may stand anywhere.
    ids = [ONE, TWO, b"100644 a\0".ljust(20, b"\1"), b"\1" * 11 + b"100644 a\0", rng.randbytes(20)]
    names = sorted(rng.sample(ODD_NAMES, rng.randint(1, len(ODD_NAMES))))
    is_dir = {name: rng.random() < 0.3 for name in names}
    files = [name for name in names if not is_dir[name]]
    modes = [rng.choice([0o100644, 0o100755, 0o120777]) for _ in files]
    old = {name: rng.choice(ids) for name in names}
    new = {name: rng.choice(ids) if rng.random() < 0.5 else old[name] for name in names}

    def made(chosen: dict[bytes, bytes]) -> bytes:
        below = [(name, chosen[name]) for name in names if is_dir[name]]
        return tree_of(files, modes, b"".join(chosen[name] for name in files), below)

    said = dict(zip(files, map(git_mode, modes), strict=True))
    edits = [(name, said.get(name, MODE_DIR), old[name], new[name]) for name in names if old[name] != new[name]]
    rng.shuffle(edits)
    assert spliced(made(old), edits) in (made(new), None)


def test_one_entry_that_looks_like_the_end_of_another_is_left_to_who_knows_all_of_them():
    tree = tree_of([b"a", b"x100644 a"], [0o100644] * 2, ONE + ONE, [])
    assert spliced(tree, [(b"a", MODE_FILE, ONE, TWO)]) is None
    apart = tree_of([b"a", b"x100644 a"], [0o100644] * 2, ONE + SIX, [])
    assert spliced(apart, [(b"a", MODE_FILE, ONE, TWO)]) == tree_of([b"a", b"x100644 a"], [0o100644] * 2, TWO + SIX, [])


@pytest.mark.parametrize(
    "edit", [(b"b", MODE_FILE, ONE, TWO), (b"a", MODE_EXEC, ONE, TWO), (b"a", MODE_FILE, SIX, TWO)]
)
def test_what_a_tree_does_not_hold_is_not_exchanged_in_it(edit):
    assert spliced(tree_of([b"a"], [0o100644], ONE, []), [edit]) is None


def test_trees_are_held_for_the_directories_that_have_them_now():
    held, tree = Held(), tree_of([b"a"], [0o100644], ONE, [])
    oid = object_id(TREE, tree)
    held.take({b"d": (oid, tree)})
    assert held.get(b"d", oid) == tree
    assert held.get(b"d", TWO) is held.get(b"e", oid) is None
    held.take({b"d": (TWO, b"another")})
    assert held.get(b"d", oid) is None


def test_the_oldest_trees_go_when_they_are_too_many(monkeypatch):
    monkeypatch.setattr(trees, "_MOST_HELD", 10 * (trees._EACH + 100))
    held = Held()
    for number in range(50):
        held.take({b"%d" % number: (ONE, bytes(100)), b"top": (ONE, bytes(100))})
    assert [number for number in range(50) if held.get(b"%d" % number, ONE)] == [*range(41, 50)]
    assert held.get(b"top", ONE)
    held.take({b"huge": (ONE, bytes(1 << 20))})
    assert held._bytes == 0
    assert not held._trees
