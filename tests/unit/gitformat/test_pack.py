"""Hostile packs: every lie ends in StoreDamaged, with bounded memory and time."""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import zlib

import pytest

from mulligan.errors import StoreDamaged
from mulligan.gitformat.delta import encode_delta
from mulligan.gitformat.pack import encode_index
from mulligan.gitformat.record import OFS_DELTA, REF_DELTA, SIGNATURE, crc32, encode_distance, encode_header
from mulligan.model.objects import BLOB, TREE
from mulligan.safefs import syscalls
from stores import add_all, opened


def plant(path, records: list[tuple[bytes, bytes]]) -> None:
    """Puts a pack of hand-made records, each under the id it claims, into a store."""
    body, rows = bytearray(SIGNATURE + len(records).to_bytes(4, "big")), []
    for oid, record in records:
        rows.append((oid, crc32(record), len(body)))
        body += record
    checksum = hashlib.sha1(body).digest()
    stem = path / "objects/pack" / f"pack-{checksum.hex()}"
    stem.with_suffix(".pack").write_bytes(bytes(body) + checksum)
    stem.with_suffix(".idx").write_bytes(encode_index(rows, checksum))


def blob(data: bytes) -> bytes:
    return encode_header(3, len(data)) + zlib.compress(data)


A, B, C = b"a" * 20, b"b" * 20, b"c" * 20
DELTA = encode_delta(b"base", b"target")
BOMB = zlib.compress(bytes(64 << 20), 1)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([(A, encode_header(3, 1 << 50) + zlib.compress(b"x"))], id="absurd size"),
        pytest.param([(A, encode_header(3, 10) + BOMB)], id="bomb behind a small size"),
        pytest.param([(A, encode_header(2, 80 << 20) + zlib.compress(bytes(80 << 20), 1))], id="huge tree"),
        pytest.param([(A, encode_header(3, 9) + zlib.compress(b"short"))], id="shorter than said"),
        pytest.param([(A, encode_header(3, 9) + b"\0" * 20)], id="not deflated"),
        pytest.param([(A, encode_header(3, 9))], id="nothing follows"),
        pytest.param([(A, encode_header(5, 9) + zlib.compress(b"123456789"))], id="unknown type"),
        pytest.param([(A, blob(b"other bytes"))], id="wrong hash"),
        pytest.param([(A, encode_header(REF_DELTA, len(DELTA)) + A + zlib.compress(DELTA))], id="its own base"),
        pytest.param(
            [
                (A, encode_header(REF_DELTA, len(DELTA)) + B + zlib.compress(DELTA)),
                (B, encode_header(REF_DELTA, len(DELTA)) + A + zlib.compress(DELTA)),
            ],
            id="circle",
        ),
        pytest.param([(A, encode_header(REF_DELTA, len(DELTA)) + C + zlib.compress(DELTA))], id="base missing"),
        pytest.param(
            [(A, encode_header(OFS_DELTA, len(DELTA)) + encode_distance(5) + zlib.compress(DELTA))], id="base in header"
        ),
        pytest.param(
            [(A, encode_header(OFS_DELTA, len(DELTA)) + encode_distance(1 << 40) + zlib.compress(DELTA))],
            id="base far off",
        ),
        pytest.param(
            [(A, encode_header(OFS_DELTA, len(DELTA)) + encode_distance(0) + zlib.compress(DELTA))], id="base is itself"
        ),
    ],
)
def test_a_lie_ends_in_store_damaged(tmp_path, records):
    with opened(tmp_path / "store") as store:
        plant(tmp_path / "store", records)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for ask in (
            lambda: store.read(A, BLOB),
            lambda: store.read(A, TREE),
            lambda: b"".join(part[:1] for part in store.stream(A)),
        ):
            with pytest.raises(StoreDamaged, match=A.hex()):
                ask()
        assert not store.readable(A)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (160 << 10)


def test_a_chain_that_is_too_deep_is_refused_and_a_deep_one_is_read(tmp_path):
    def chain(depth):
        data, records = b"0" * 40, []
        first = blob(data)
        records.append((hashlib.sha1(b"blob 40\0" + data).digest(), first))
        last = len(first)
        for number in range(depth):
            target = data[:20] + b"%020d" % number
            delta = encode_delta(data, target)
            record = encode_header(OFS_DELTA, len(delta)) + encode_distance(last) + zlib.compress(delta)
            records.append((hashlib.sha1(b"blob 40\0" + target).digest(), record))
            data, last = target, len(record)
        return records

    with opened(tmp_path / "store") as store:
        records = chain(4500)
        plant(tmp_path / "store", records)
        assert store.read(records[4001][0], BLOB)[20:] == b"%020d" % 4000
        store.close()
        with pytest.raises(StoreDamaged, match="too long"):
            store.read(records[-1][0], BLOB)
        with pytest.raises(StoreDamaged, match="too long"):
            store.kind_and_size(records[-1][0])


def test_a_chain_that_produces_too_much_is_refused(tmp_path):
    """A few bytes of delta can ask for megabytes of copies, once for each link of a chain."""
    size = 200 << 20
    copy = b"\xf0\xff\xff\xff" * (size // 0xFFFFFF)
    base = bytes(0xFFFFFF)
    grow = _sizes(0xFFFFFF, 0xFFFFFF * (size // 0xFFFFFF)) + copy
    with opened(tmp_path / "store") as store:
        first = blob(base)
        bomb = encode_header(OFS_DELTA, 1 << 40) + encode_distance(len(first)) + zlib.compress(grow)
        too_big = _sizes(0xFFFFFF, 300 << 20) + copy
        other = (
            encode_header(OFS_DELTA, len(too_big)) + encode_distance(len(first) + len(bomb)) + zlib.compress(too_big)
        )
        plant(tmp_path / "store", [(A, first), (B, bomb), (C, other)])
        for oid in (B, C):
            with pytest.raises(StoreDamaged, match=oid.hex()):
                store.read(oid, BLOB)


def _sizes(*sizes: int) -> bytes:
    out = bytearray()
    for size in sizes:
        left = size
        while left > 0x7F:
            out.append(0x80 | left & 0x7F)
            left >>= 7
        out.append(left)
    return bytes(out)


def test_an_index_that_points_outside_the_pack_is_damage(tmp_path):
    with opened(tmp_path / "store") as store:
        plant(tmp_path / "store", [(A, blob(b"x"))])
        (path,) = [p for p in (tmp_path / "store/objects/pack").glob("*.idx") if A in p.read_bytes()]
        for offset in (0, 5, 1 << 20):
            data = path.with_suffix(".pack").read_bytes()
            path.write_bytes(encode_index([(A, 0, offset)], data[-20:]))
            store.close()
            with pytest.raises(StoreDamaged, match=A.hex()):
                store.read(A, BLOB)
            with pytest.raises(StoreDamaged, match=A.hex()):
                store.packed_size(A)


class CannotRead(syscalls.Calls):
    """The operating system on a disk that cannot read."""

    def __init__(self, code: int) -> None:
        self.code = code

    def pread(self, fd, length, offset):
        raise OSError(self.code, os.strerror(self.code))


def test_a_disk_that_cannot_read_has_lost_the_object_and_other_errors_are_what_they_are(tmp_path):
    with opened(tmp_path / "store") as store:
        (oid,) = add_all(store, [b"x"])
        with syscalls.using(CannotRead(errno.EIO)), pytest.raises(StoreDamaged, match=oid.hex()):
            store.read(oid, BLOB)
        with syscalls.using(CannotRead(errno.ENOMEM)), pytest.raises(OSError):
            store.read(oid, BLOB)
        assert store.read(oid, BLOB) == b"x"
