"""The kernel's notices, from their bytes."""

from __future__ import annotations

import struct

from mulligan.safefs.inotify import ATTRIB, CLOSE_WRITE, CREATE, IGNORED, ISDIR, MODIFY, MOVED_TO, OVERFLOW, notices


def told(*rows: tuple[int, int, bytes]) -> list[tuple[int, int, bytes]]:
    """What is made of these notices, as the kernel writes them: names are padded with NULs."""
    parts = [
        struct.pack("iIII", watch, what, 0, size) + name.ljust(size, b"\0")
        for watch, what, name in rows
        for size in [-(-len(name + b"\0") // 16) * 16 if name else 0]
    ]
    return [tuple(notice) for notice in notices(b"".join(parts))]


def test_every_notice_is_told_with_its_name():
    rows = [
        (1, CREATE, b"a"),
        (1, MODIFY, b"a" * 16),
        (2, MOVED_TO, b"name of some length"),
        (2, ATTRIB, b""),
        (-1, OVERFLOW, b""),
    ]
    assert told(*rows) == rows


def test_what_happens_to_one_file_again_and_again_is_told_once_and_once_more_when_it_moved():
    rows = [
        (1, MODIFY, b"a"),
        (1, CLOSE_WRITE, b"a"),
        (1, MODIFY, b"b"),
        (2, MODIFY, b"b"),
        (1, ATTRIB, b"a"),
        (1, CREATE, b"a"),
        (1, MOVED_TO, b"a"),
        (1, MODIFY, b"a"),
    ]
    assert told(*rows) == [rows[0], rows[2], rows[3], rows[5]]


def test_what_happens_to_a_directory_is_told_each_time_and_everything_anew_after_it():
    rows = [
        (1, MODIFY, b"a"),
        (1, CREATE | ISDIR, b"d"),
        (1, CREATE | ISDIR, b"d"),
        (1, MODIFY, b"a"),
        (1, IGNORED, b""),
        (1, IGNORED, b""),
        (1, MODIFY, b"a"),
    ]
    assert told(*rows) == rows


def test_a_notice_that_is_cut_short_is_none():
    whole = struct.pack("iIII", 1, MODIFY, 0, 16) + b"a".ljust(16, b"\0")
    assert [tuple(notice) for notice in notices(whole + whole[:10])] == [(1, MODIFY, b"a")]
