"""Record headers and the bounds they are held to."""

from __future__ import annotations

import os
import zlib

import pytest

from mulligan.gitformat import record as packfile
from mulligan.gitformat.record import (
    OFS_DELTA,
    REF_DELTA,
    TYPE_OF_KIND,
    DamagedRecord,
    check_size,
    encode_distance,
    encode_header,
    hash_of,
    parse_header,
)
from mulligan.model.objects import BLOB, TREE


@pytest.mark.parametrize("size", [0, 1, 15, 16, 127, 128, 2047, 2048, 1 << 20, (1 << 32) + 5, 1 << 45])
def test_a_header_says_type_and_size_at_every_length(size):
    for number in TYPE_OF_KIND.values():
        header = parse_header(encode_header(number, size) + b"rest")
        assert (number, size) == (header.type, header.size)
        assert len(encode_header(number, size)) == header.length


@pytest.mark.parametrize("distance", [1, 127, 128, 16511, 16512, 2113663, 2113664, 1 << 33])
def test_a_distance_to_a_base_survives_at_every_length(distance):
    header = parse_header(encode_header(OFS_DELTA, 9) + encode_distance(distance))
    assert distance == header.distance


def test_a_delta_by_id_carries_the_id():
    assert parse_header(encode_header(REF_DELTA, 9) + b"\7" * 20).base == b"\7" * 20


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"\xff" * 30, b"\x05", b"\x55", encode_header(REF_DELTA, 9) + b"short", b"\xe0" + b"\xff" * 30],
)
def test_a_malformed_header_is_damage(data):
    with pytest.raises(DamagedRecord):
        parse_header(data)


def test_a_size_that_the_bytes_cannot_hold_is_refused():
    """Deflate cannot do better than 1032 to 1."""
    check_size(1000, 10)
    with pytest.raises(DamagedRecord, match="claims"):
        check_size(1 << 20, 10)
    with pytest.raises(DamagedRecord, match="too many"):
        check_size(1 << 40, 1 << 40)


def test_a_record_inflates_with_plain_zlib():
    for data in (b"", b"x", b"text\n" * 5000):
        record = encode_header(TYPE_OF_KIND[BLOB], len(data)) + packfile.deflate(data)
        assert data == zlib.decompress(record[parse_header(record).length :])


def test_the_hash_is_gits():
    assert hash_of(BLOB, b"").hex() == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert hash_of(TREE, b"").hex() == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@pytest.mark.parametrize("left", [1 << 30, 0], ids=["zlib", "ISA-L"])
@pytest.mark.parametrize(
    "data", [b"", b"x", b"text of a file\n" * 500, bytes(range(256)) * 8, os.urandom(3000), os.urandom(9000)]
)
def test_what_either_engine_deflates_zlib_inflates_and_a_collection_knows_it_was_in_a_hurry(monkeypatch, left, data):
    monkeypatch.setattr(packfile, "_fast", None)
    monkeypatch.setattr(packfile, "_left", left)
    packed = packfile.deflate(data)
    assert zlib.decompress(packed) == data
    assert packed[:2] == b"\x78\x01" or len(packed) > len(data) > packfile._STORED  # stored by level 1: nothing to gain
    assert packfile.crc32(data, 7) == zlib.crc32(data, 7)
    assert (packfile.engine(0) is zlib) == bool(left)


@pytest.mark.parametrize("left", [1 << 30, 0], ids=["zlib", "ISA-L"])
def test_what_does_not_inflate_is_told_whichever_engine_meets_it(monkeypatch, left):
    monkeypatch.setattr(packfile, "_fast", None)
    monkeypatch.setattr(packfile, "_left", left)
    stream = packfile.engine(0).decompressobj()
    with pytest.raises(packfile.inflate_errors()):
        stream.decompress(b"no stream at all", 100)


def test_the_fast_engine_is_loaded_when_enough_was_deflated(monkeypatch):
    monkeypatch.setattr(packfile, "_fast", None)
    monkeypatch.setattr(packfile, "_left", packfile._ALONE)
    for _ in range(packfile._ALONE // packfile._EACH):
        packfile.deflate(b"x")
    assert packfile.engine(0) is not zlib
