"""Deltas: what they make is right, what is malformed is refused, and small edits stay small."""

from __future__ import annotations

import random

import pytest

from mulligan.gitformat.delta import apply_delta, encode_delta
from mulligan.gitformat.record import DamagedRecord, delta_sizes
from mulligan.model.objects import MODE_FILE, TreeEntry, encode_tree
from stores import edited, text

SIZES = b"\x0a\x05"  # for a base of ten bytes and a result of five


@pytest.mark.parametrize(
    ("base", "target"),
    [
        (b"", b""),
        (b"", b"new"),
        (b"old", b""),
        (b"same" * 50, b"same" * 50),
        (b"a" * 200_000, b"a" * 200_001),
        (b"\n" * 100, b"\n" * 90 + b"x" + b"\n" * 20),
        (b"one\r\ntwo\rthree\n" * 40, b"one\r\ntwo\rTHREE\n" * 40),
        (bytes(range(256)) * 40, bytes(range(255, -1, -1)) * 40),
    ],
)
def test_a_delta_makes_the_target(base, target):
    delta = encode_delta(base, target)
    assert target == apply_delta(base, delta)
    assert (len(base), len(target)) == delta_sizes(delta)


@pytest.mark.parametrize("hunks", [1, 5, 20])
def test_edits_cost_about_what_was_edited(hunks):
    """Between the first and the last hunk too, where a common beginning and end do not help."""
    chance = random.Random(hunks)
    base = text(1200, chance)
    delta = encode_delta(base, edited(base, chance, hunks=hunks))
    assert len(delta) < 20 + 60 * hunks


def test_moved_lines_are_copied():
    chance = random.Random(1)
    base = text(300, chance)
    lines = base.splitlines(keepends=True)
    moved = b"".join(lines[:50] + lines[150:200] + lines[50:150] + lines[200:])
    delta = encode_delta(base, moved)
    assert moved == apply_delta(base, delta)
    assert len(delta) < 100


def test_trees_are_compared_entry_by_entry():
    """Ids hold any byte, line ends too; five changed entries of 500 are five small inserts."""
    chance = random.Random(2)
    entries = [TreeEntry(b"file%04d" % number, MODE_FILE, chance.randbytes(20)) for number in range(500)]
    base = encode_tree(entries)
    for number in range(0, 500, 100):
        entries[number] = entries[number]._replace(oid=chance.randbytes(20))
    target = encode_tree(entries)
    delta = encode_delta(base, target, tree=True)
    assert target == apply_delta(base, delta)
    assert len(delta) < 5 * 60


def test_a_tree_of_one_entry_costs_its_id():
    one, other = (encode_tree([TreeEntry(b"src", MODE_FILE, random.Random(n).randbytes(20))]) for n in (1, 2))
    delta = encode_delta(one, other, tree=True)
    assert other == apply_delta(one, delta)
    assert len(delta) == 2 + 2 + 1 + 20


@pytest.mark.parametrize(
    "delta",
    [
        b"",
        b"\xff" * 20,
        SIZES + b"\x00",  # reserved
        SIZES + b"\x06abc",  # cut short
        SIZES + b"\x03abc",  # makes less
        SIZES + b"\x06abcdef",  # makes more
        SIZES + b"\x91\x08\x05",  # copies beyond the base
        SIZES + b"\x9f\xff\xff\xff\xff\x05",  # far beyond
        SIZES + b"\x91\x00",  # no length
        b"\x0b\x05\x05abcde",  # another base
        b"\x0a\xff\xff\xff\xff\x7f\x05abcde",  # announces 34 gigabytes
    ],
)
def test_a_malformed_delta_is_refused(delta):
    with pytest.raises(DamagedRecord):
        apply_delta(b"0123456789", delta)
