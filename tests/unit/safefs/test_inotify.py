"""The kernel's notices, from their bytes."""

from __future__ import annotations

import struct

from mulligan.safefs.inotify import (
    ATTRIB,
    CREATE,
    MODIFY,
    MOVED_TO,
    OVERFLOW,
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


def test_a_notice_that_is_cut_short_is_none():
    whole = struct.pack("iIII", 1, MODIFY, 0, 16) + b"a".ljust(16, b"\0")
    assert [tuple(notice) for notice in notices(whole + whole[:10])] == [(1, MODIFY, b"a")]
