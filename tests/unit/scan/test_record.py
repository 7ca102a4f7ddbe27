"""What is remembered of a directory survives being written down, and nothing else is taken for it."""

from __future__ import annotations

import struct

import pytest

from mulligan.scan.cache import (
    NO_DIRECTORY,
    STAT,
    DirectoryRecord,
    Missed,
    Stat,
    can_be_remembered,
    decode,
    unproven,
)


def filled() -> DirectoryRecord:
    record = DirectoryRecord(has_ignores=True)
    record.stat, record.perm = (2**64 - 1, -5, 2**62), 0o2775
    record.trusted, record.grouped, record.leans, record.only = False, True, True, True
    record.names = [b"\xff", b"a b", b"new\nline"]
    record.stats = STAT.pack(2**64 - 1, 0o100644, 3, -(10**9), 5) + unproven(0o100644) + STAT.pack(1, 2, 3, 4, 5)
    record.oids = bytes(range(60))
    record.dirs, record.missed = [b"d"], [Missed(b"x\xfe", "secret", "a\udcff detail"), Missed(b"y", "ignored", "")]
    return record


@pytest.mark.parametrize("record", [filled(), DirectoryRecord()])
def test_a_record_comes_back_whole(record):
    again = decode(record.encode())
    assert [getattr(again, name) for name in DirectoryRecord.__slots__] == [
        getattr(record, name) for name in DirectoryRecord.__slots__
    ]


def test_a_cut_record_is_no_record():
    whole = filled().encode()
    for end in range(len(whole)):
        with pytest.raises((ValueError, struct.error)):
            decode(whole[:end])


def test_a_name_is_found_where_it_is():
    record = filled()
    record.names.sort()
    assert [record.find(name) for name in (*record.names, b"", b"zz", b"a")] == [0, 1, 2, -1, -1, -1]


def test_an_entry_that_was_too_young_matches_no_file():
    record = filled()
    assert record.stat_at(1) != Stat(0, 0o100644, 0, 0, 0) and record.stat_at(1).ctime_ns < 0
    assert NO_DIRECTORY[1] < 0


def test_a_copy_is_its_own():
    record = filled()
    other = record.copy()
    other.names.append(b"new")
    other.missed.clear()
    assert len(record.names) == 3 and len(record.missed) == 2


def test_times_that_no_record_can_hold_are_not_remembered():
    assert all(can_be_remembered(mtime, 1, started_ns=10**9) for mtime in (0, -(2**63), 2**63 - 1))
    assert not any(can_be_remembered(mtime, 1, started_ns=10**9) for mtime in (2**63, -(2**63) - 1))
    assert not can_be_remembered(0, 10**9 - 1, started_ns=10**9)
