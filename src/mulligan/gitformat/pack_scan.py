"""
A pack read without its index: every record in turn, from the first to the last.

This is how a lost index is made anew and how a verifier measures what really stands in a pack. Memory is bounded by one
chunk for whole objects and by one object for deltas.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import NamedTuple

from mulligan.gitformat.pack import IndexRow, Pack, PackIndex, encode_index
from mulligan.gitformat.record import HEADER_SIZE, KIND_OF_TYPE, SIGNATURE, TRAILER_SIZE, DamagedRecord, crc32, hash_of

_CHUNK = 1 << 20
NO_CHECKSUM = bytes(20)
EMPTY_INDEX = PackIndex(encode_index([], NO_CHECKSUM))


class PackMeasure(NamedTuple):
    """What stands at an offset: how long it is, and its id if it is no delta."""

    length: int
    oid: bytes | None


def measure(pack: Pack, offset: int) -> PackMeasure:
    """Inflates one record to its end; raises DamagedRecord when it has none."""
    header = pack.header(offset)
    kind = KIND_OF_TYPE.get(header.type)
    digest = hashlib.sha1(b"%b %d\0" % (kind or b"", header.size), usedforsecurity=False)
    stream = pack.stream_at(offset, header)
    while True:
        try:
            digest.update(next(stream))
        except StopIteration as end:
            return PackMeasure(end.value, digest.digest() if kind else None)


def record_crc(pack: Pack, offset: int, length: int) -> int:
    """Returns the checksum of a record's bytes."""
    crc, end = 0, offset + length
    while offset < end:
        data = pack.pread(min(_CHUNK, end - offset), offset)
        if not data:
            raise DamagedRecord("it is cut short")
        crc, offset = crc32(data, crc), offset + len(data)
    return crc


def object_count(pack: Pack) -> int:
    """Returns how many objects a pack says it holds; raises DamagedRecord when it does not begin as a pack."""
    head = pack.pread(HEADER_SIZE, 0)
    if not head.startswith(SIGNATURE) or len(head) != HEADER_SIZE or pack.size < HEADER_SIZE + TRAILER_SIZE:
        raise DamagedRecord("it does not begin as a pack")
    return int.from_bytes(head[8:], "big")


def checksums(pack: Pack) -> tuple[bytes, bytes]:
    """Returns the checksum that a pack's bytes have, and the one that stands at its end."""
    digest, at, end = hashlib.sha1(usedforsecurity=False), 0, max(pack.size - TRAILER_SIZE, 0)
    while at < end:
        data = pack.pread(min(_CHUNK, end - at), at)
        if not data:
            raise DamagedRecord("it is cut short")
        digest.update(data)
        at += len(data)
    return digest.digest(), pack.pread(TRAILER_SIZE, end)


def scan(pack: Pack) -> list[IndexRow]:
    """Returns the rows of a whole pack, found without its index; raises DamagedRecord when any record is wrong."""
    rows: list[IndexRow] = []
    deltas: list[tuple[int, int]] = []
    offset = HEADER_SIZE
    for _ in range(object_count(pack)):
        found = measure(pack, offset)
        crc = record_crc(pack, offset, found.length)
        if found.oid is None:
            deltas.append((offset, crc))
        else:
            rows.append(IndexRow(found.oid, crc, offset))
        offset += found.length
    if offset != pack.size - TRAILER_SIZE:
        raise DamagedRecord("it has bytes that belong to no object")
    return _resolve(pack, rows, deltas)


def _resolve(pack: Pack, rows: list[IndexRow], deltas: list[tuple[int, int]]) -> list[IndexRow]:
    """Finds the ids of deltas, in rounds: the base of one may be another whose id is found first."""
    while deltas:
        pack.index = PackIndex(encode_index(rows, NO_CHECKSUM))
        left, trouble = [], DamagedRecord("the base of a delta is missing")
        for offset, crc in deltas:
            try:
                oid = hash_of(*pack.load_at(offset))
            except DamagedRecord as error:
                left.append((offset, crc))
                trouble = error
            else:
                rows.append(IndexRow(oid, crc, offset))
        if len(left) == len(deltas):
            raise trouble
        deltas = left
    return rows


def index_findings(index: PackIndex, pack_size: int) -> list[str]:
    """Returns what is wrong with an index beyond its shape, in words."""
    findings = [] if index.is_intact() else ["its checksum is wrong"]
    names = index.oids()
    if any(a >= b for a, b in pairwise(names)):
        findings.append("its ids are not in order")
    firsts = [0] * 257
    for name in names:
        firsts[name[0] + 1] += 1
    for first in range(256):
        firsts[first + 1] += firsts[first]
    if tuple(firsts) != index.fanout:
        findings.append("its first table does not fit its ids")
    try:
        offsets = sorted(index.offsets())
    except DamagedRecord as error:
        return [*findings, str(error)]
    if offsets and (offsets[0] != HEADER_SIZE or offsets[-1] >= pack_size - TRAILER_SIZE):
        findings.append("its offsets lie outside the pack")
    if any(a == b for a, b in pairwise(offsets)):
        findings.append("two of its ids share an offset")
    return findings
