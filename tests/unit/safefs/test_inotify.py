"""The kernel's notices, from their bytes."""

from __future__ import annotations

import struct

import pytest

from mulligan.safefs.inotify import (
    ATTRIB,
    CLOSE_WRITE,
    CREATE,
    DELETE_SELF,
    IGNORED,
    ISDIR,
    MODIFY,
    MOVED_TO,
    OPEN,
    OVERFLOW,
    UNMOUNT,
    files_told,
    notices,
)  # fmt: skip

COOKIE = 7


def queue(*rows: tuple[int, int, bytes]) -> bytes:
    """The bytes of these notices, as the kernel writes them: names are padded with NULs."""
    parts = [
        struct.pack("iIII", watch, what, 0, size) + name.ljust(size, b"\0")
        for watch, what, name in rows
        for size in [-(-len(name + b"\0") // 16) * 16 if name else 0]
    ]
    return b"".join(parts)


def told(*rows: tuple[int, int, bytes]) -> list[tuple[int, int, bytes]]:
    """What is made of these notices."""
    return [tuple(notice) for notice in notices(queue(*rows))]


def test_every_notice_is_told_with_its_name():
    rows = [
        (1, CREATE, b"a"),
        (1, MODIFY, b"a" * 16),
        (2, MOVED_TO, b"name of some length"),
        (2, ATTRIB, b""),
        (-1, OVERFLOW, b""),
    ]
    assert told(*rows) == rows


def test_what_happens_to_files_again_and_again_is_one_name_each():
    rows = [
        (1, MODIFY, b"a"),
        (1, CLOSE_WRITE, b"a"),
        (1, MODIFY, b"b" * 16),
        (COOKIE, OPEN, b""),
        (2, MODIFY, b"b"),
        (1, ATTRIB, b"a"),
        (1, CREATE, b"a"),
        (3, MOVED_TO, b"c"),
        (3, MODIFY, b"c"),
    ]
    names = {1: {b"a", b"b" * 16}, 2: {b"b"}, 3: {b"c"}}
    assert files_told(queue(*rows), COOKIE) == (names, {1, 3}, True)
    assert files_told(queue(*rows[:3]), COOKIE) == ({1: names[1]}, set(), False)
    assert files_told(queue((COOKIE, IGNORED, b"")), COOKIE) == ({}, set(), False)


@pytest.mark.parametrize(
    "other",
    [
        (1, CREATE | ISDIR, b"d"),
        (1, ATTRIB, b""),
        (1, DELETE_SELF, b""),
        (1, IGNORED, b""),
        (1, UNMOUNT, b""),
        (-1, OVERFLOW, b""),
    ],
)
def test_where_anything_else_happened_the_order_counts_and_nobody_says_it_short(other):
    for rows in ([(1, MODIFY, b"a"), other], [other, (1, MODIFY, b"a")], [(2, MODIFY, b"a"), other]):
        assert files_told(queue(*rows), COOKIE) is None


def test_a_notice_that_is_cut_short_is_none():
    whole = struct.pack("iIII", 1, MODIFY, 0, 16) + b"a".ljust(16, b"\0")
    assert [tuple(notice) for notice in notices(whole + whole[:10])] == [(1, MODIFY, b"a")]
