"""
Records of the user's packs, taken over as they stand.

A pack is a row of deflated objects. Who wants some of them need not inflate them: a record is copied byte for byte, and the
copy belongs to who made it, whatever happens to the pack later. What is checked on the way is what git checks when it
copies records from one pack into another: the pack's index against its own checksum, that it is the index of this very
pack, and each record against the CRC-32 that stands for it there, in memory, before it is handed on. Of an
object itself only kind and size are looked at; that its bytes hash to its name shows when it is read.

Only what is wanted is copied, so a delta only where its base is wanted too; everything else (deltas against history, loose and
borrowed objects, whatever is damaged or too large) is not taken, and whoever wanted it reads the file.
"""

from __future__ import annotations

import os
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping

from mulligan.model.digests import sha1
from mulligan.model.typed import NamedTuple, Protocol
from mulligan.safefs import seam
from mulligan.safefs.directory import Directory
from mulligan.scan.git.files import read_open

#: The size of a wanted object that may have any: a tree.
ANY_SIZE = -1
_PACKS_LIMIT = 64
_INDEX_LIMIT = 64 << 20
_MAGIC = b"\xfftOc\0\0\0\x02"
_FIRST = 8 + 1024
_TRAILER = 20
_HEAD = 12
# How much is read at once, and the longest record that is taken: what is longer is streamed by whoever reads the file.
_SEGMENT = 1 << 20
_LONGEST = 8 << 20
_TREE, _BLOB, _OFS_DELTA = 2, 3, 6
# Two sizes are what a delta begins with.
_DELTA_SIZES = 20
# Git makes no longer chains of its own accord.
_DEEPEST = 50


class Row(NamedTuple):
    """A record: where it begins, its object's id, its CRC-32, and where it ends."""

    offset: int
    oid: bytes
    crc: int
    end: int


class Taker(Protocol):
    """Who takes records in."""

    def add_records(self, taken: Iterable[tuple[bytes, bytes, int, bytes]]) -> None:
        """Takes whole objects as records; see `scan.reading.Sink`."""

    def add_delta(self, oid: bytes, base: bytes, size: int, deflated: bytes) -> bool:
        """Takes an object as a delta, of so many bytes, of another; False where that is not at hand."""


class _Bad(Exception):
    """The pack or its index is not what it must be."""


class _Pack(NamedTuple):
    fd: int
    size: int
    oids: list[bytes]
    crcs: array[int]
    offsets: array[int]


def take_records(packs: Directory, wanted: Mapping[bytes, int], taker: Taker) -> set[bytes]:
    """Hands on the records of wanted objects, each with the size it must have, and returns what was found."""
    taken: set[bytes] = set()
    try:
        stems = sorted(name[:-4] for name in packs.names() if name.startswith(b"pack-") and name.endswith(b".idx"))
    except OSError:
        return taken
    for stem in stems[:_PACKS_LIMIT]:
        if len(taken) == len(wanted):
            break
        try:
            with packs.reading(stem + b".idx") as index, packs.reading(stem + b".pack") as fd:
                _take_from(_opened(index, fd), wanted, taken, taker)
        except (OSError, _Bad):
            continue  # gone or damaged: git may have packed anew meanwhile
    return taken


def _opened(index: int, fd: int) -> _Pack:
    data, size = read_open(index, _INDEX_LIMIT), os.fstat(fd).st_size
    if data is None or len(data) < _FIRST + 2 * _TRAILER or data[:8] != _MAGIC:
        raise _Bad("index")
    count = int.from_bytes(data[_FIRST - 4 : _FIRST], "big")
    crcs_at, end = _FIRST + 20 * count, len(data) - 2 * _TRAILER
    offsets_at, large_at = crcs_at + 4 * count, crcs_at + 8 * count
    if large_at > end or (end - large_at) % 8:
        raise _Bad("index")
    if sha1(memoryview(data)[:-_TRAILER], of=len(data)).digest() != data[-_TRAILER:]:
        raise _Bad("the index's checksum")
    head, trailer = os.pread(fd, _HEAD, 0), os.pread(fd, _TRAILER, size - _TRAILER) if size > _TRAILER + _HEAD else b""
    if head != b"PACK\0\0\0\2" + count.to_bytes(4, "big") or trailer != data[end : end + _TRAILER]:
        raise _Bad("the index of another pack")
    oids = [data[at : at + 20] for at in range(_FIRST, crcs_at, 20)]
    offsets, large = _numbers("I", data[offsets_at:large_at]), _numbers("Q", data[large_at:end])
    if large:
        try:
            offsets = array("Q", [at if at < 1 << 31 else large[at & 0x7FFFFFFF] for at in offsets])
        except IndexError:
            raise _Bad("offsets") from None
    return _Pack(fd, size, oids, _numbers("I", data[crcs_at:offsets_at]), offsets)


def _numbers(code: str, data: bytes) -> array[int]:
    found = array(code, data)
    if sys.byteorder == "little":
        found.byteswap()
    return found


def _take_from(pack: _Pack, wanted: Mapping[bytes, int], taken: set[bytes], taker: Taker) -> None:
    known: dict[int, tuple[bytes, int, int]] = {}  # id, kind and depth of what was taken from this pack, by its offset there
    for data, begin, rows in _segments(pack, wanted, taken):
        whole: list[tuple[bytes, bytes, int, bytes]] = []
        for offset, oid, crc, end in rows:
            record = data[offset - begin : end - begin]
            if zlib.crc32(record) != crc:
                continue
            try:
                (kind, size, at), depth = _header(record), 0
                if kind == _OFS_DELTA:
                    # Its base must be there before it.
                    taker.add_records(whole)
                    whole = []
                    kind, depth = _take_delta(record, at, Row(offset, oid, crc, end), wanted[oid], known, taker)
                elif (kind, size) == (_BLOB, wanted[oid]) or (kind == _TREE and wanted[oid] == ANY_SIZE):
                    whole.append((oid, record, crc, b""))
                else:
                    continue
            except IndexError:
                continue  # cut short
            if kind:
                taken.add(oid)
                known[offset] = oid, kind, depth
        taker.add_records(whole)


def _segments(
    pack: _Pack, wanted: Mapping[bytes, int], taken: set[bytes]
) -> Iterator[tuple[bytes, int, list[Row]]]:
    """Yields bytes of a pack, where they begin, and the wanted records in them, in the order of the pack."""
    everything = sorted(zip(pack.offsets, pack.oids, pack.crcs, strict=True))
    ends = [row[0] for row in everything[1:]] + [pack.size - _TRAILER]
    rows: list[Row] = []
    for (offset, oid, crc), end in zip(everything, ends, strict=True):
        if oid not in wanted or oid in taken or not _HEAD <= offset < end <= offset + _LONGEST:
            continue
        if rows and (offset != rows[-1].end or end - rows[0].offset > _SEGMENT):
            yield _read(pack, rows), rows[0].offset, rows
            rows = []
        rows.append(Row(offset, oid, crc, end))
    if rows:
        yield _read(pack, rows), rows[0].offset, rows


def _read(pack: _Pack, rows: list[Row]) -> bytes:
    begin, end = rows[0].offset, rows[-1].end
    data: bytes = seam.calls.pread(pack.fd, end - begin, begin)
    if len(data) != end - begin:
        raise _Bad("cut short")
    return data


def _header(record: bytes) -> tuple[int, int, int]:
    """Returns the kind of a record, the size it says, and where its header ends."""
    byte = record[0]
    kind, size, shift, at = byte >> 4 & 7, byte & 15, 4, 1
    while byte & 0x80:
        byte = record[at]
        size |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return kind, size, at


def _take_delta(
    record: bytes, at: int, row: Row, size: int, known: Mapping[int, tuple[bytes, int, int]], taker: Taker
) -> tuple[int, int]:
    """Hands on a delta whose base was taken; returns the kind of its object and its depth, 0 where it is not taken."""
    byte = record[at]
    distance, at = byte & 0x7F, at + 1
    while byte & 0x80:
        byte = record[at]
        distance, at = (distance + 1) << 7 | byte & 0x7F, at + 1
    base, kind, depth = known.get(row.offset - distance, (b"", 0, 0))
    try:
        begun = zlib.decompressobj().decompress(record[at : at + 256], _DELTA_SIZES)
    except zlib.error:
        return 0, 0
    _, middle = _varint(begun, 0)
    made, _ = _varint(begun, middle)
    right = (kind, made) == (_BLOB, size) or (kind, size) == (_TREE, ANY_SIZE)
    if not right or depth >= _DEEPEST or not taker.add_delta(row.oid, base, _header(record)[1], record[at:]):
        return 0, 0
    return kind, depth + 1


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if not byte & 0x80:
            return value, at
