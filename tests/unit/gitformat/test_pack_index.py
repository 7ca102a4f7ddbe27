"""The index of a pack: what is written is found, and a wrong shape is damage."""

from __future__ import annotations

import random

import pytest

from mulligan.gitformat.pack import IndexRow, PackIndex, encode_index
from mulligan.gitformat.pack_scan import index_findings
from mulligan.gitformat.record import DamagedRecord


def rows(count: int, *, far: bool = False) -> list[IndexRow]:
    chance = random.Random(count)
    base = 3 << 31 if far else 12
    return [IndexRow(chance.randbytes(20), chance.getrandbits(32), base + 50 * number) for number in range(count)]


@pytest.mark.parametrize(("count", "far"), [(0, False), (1, False), (700, False), (700, True)])
def test_every_row_is_found_again(count, far):
    """Offsets beyond two gigabytes too."""
    written = rows(count, far=far)
    if far:
        written += [IndexRow(b"\1" * 20, 7, 12)]
    index = PackIndex(encode_index(written, b"c" * 20))
    assert index.pack_checksum == b"c" * 20
    for row in written:
        position = index.find(row.oid)
        assert row == (index.oid(position), index.crc(position), index.offset(position))
    assert sorted(written, key=lambda row: row.offset) == index.rows()


def test_an_id_that_is_not_there_is_not_found():
    index = PackIndex(encode_index(rows(300), bytes(20)))
    assert all(index.find(random.Random(n).randbytes(20)) == -1 for n in range(1000, 1300))


def test_a_record_ends_where_the_next_begins():
    index = PackIndex(encode_index([IndexRow(b"a" * 20, 0, 12), IndexRow(b"b" * 20, 0, 40)], bytes(20)))
    assert index.end_of(12, 1000) == 40
    assert index.end_of(40, 1000) == 980


def test_a_wrong_shape_is_damage():
    good = encode_index(rows(5), bytes(20))
    for bad in (b"", good[:-1], good + b"x", b"X" + good[1:], good[: len(good) // 2], good + b"8bytes.." * 6):
        with pytest.raises(DamagedRecord):
            PackIndex(bad)


def test_an_offset_that_the_index_does_not_hold_is_damage():
    good = bytearray(encode_index([IndexRow(b"a" * 20, 0, 12)], bytes(20)))
    good[-44:-40] = b"\xff\xff\xff\xff"
    index = PackIndex(bytes(good))
    with pytest.raises(DamagedRecord):
        index.offset(0)
    assert index_findings(index, 1000)


def test_strict_findings_are_empty_only_for_what_was_written():
    """Every flipped bit is found."""
    good = encode_index([IndexRow(b"a" * 20, 5, 12), IndexRow(b"b" * 20, 6, 40)], bytes(20))
    assert index_findings(PackIndex(good), 1000) == []
    for at in range(0, len(good), 7):
        bad = bytearray(good)
        bad[at] ^= 0x10
        try:
            index = PackIndex(bytes(bad))
        except DamagedRecord:
            continue
        assert index_findings(index, 1000), at
