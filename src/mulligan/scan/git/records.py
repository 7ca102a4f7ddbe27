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
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha1
from typing import NamedTuple, Protocol

from mulligan.safefs import seam
from mulligan.safefs.directory import Directory
from mulligan.scan.git.files import read_open
from mulligan.scan.git.pack import BadPack, read_distance, read_header, read_size

#: The size of a wanted object that may have any: a tree.
ANY_SIZE = -1
_PACKS_LIMIT = 64
# Of all indexes together: what they say is held in memory, some ten times as large.
INDEX_LIMIT = 64 << 20
_MAGIC = b"\xfftOc\0\0\0\x02"
_FIRST = 8 + 1024
_TRAILER = 20
_HEAD = 12
# How much is read at once, and the longest record that is taken: what is longer is streamed by whoever reads the file.
_RUN = 1 << 20
_LONGEST = 8 << 20
_TREE, _BLOB, _OFS_DELTA = 2, 3, 6
# Two sizes are what a delta begins with, and a size and a distance are all that a record does: numbers of 64 bits.
_DELTA_SIZES = 20
_NUMBERS = 20
# Git makes no longer chains of its own accord.
_DEEPEST = 50
_REMEMBERED = 1 << 16


Row = tuple[int, bytes, int, int]  # of a record: where it begins, its object's id, its CRC-32, where it ends
_Known = dict[
    int, tuple[bytes, int, int]
]  # by the offset of what was taken: its id, its kind, how many deltas deep it is


class Taker(Protocol):
    """Who takes records in."""

    def add_run(self, data: bytes, rows: Sequence[tuple[bytes, int, int]]) -> None:
        """Takes records that stand one behind the other, each with its id, its CRC-32 and its place among the bytes."""

    def add_delta(self, oid: bytes, base: bytes, size: int, deflated: bytes, /) -> bool:
        """Takes an object as a delta, of so many bytes, of another; False where that is not at hand."""


class _Bad(Exception):
    """The pack or its index is not what it must be."""


class _Pack(NamedTuple):
    """An open pack: its records in the order in which they stand."""

    fd: int
    offsets: list[int]
    ends: list[int]
    oids: list[bytes]
    crcs: list[int]


class Packs:
    """The packs of a repository, held open: whatever git does to them meanwhile, these are read. Close them."""

    def __init__(self, directory: Directory) -> None:
        self._files, self._packs = ExitStack(), list[_Pack]()
        left = INDEX_LIMIT
        for stem in pack_stems(directory):
            try:
                with directory.reading(stem + b".idx") as index:
                    fd = self._files.enter_context(directory.reading(stem + b".pack"))
                    self._packs.append(_opened(index, fd, left))
                    left -= os.fstat(index).st_size
            except (OSError, _Bad):
                continue  # gone or damaged: git may have packed anew meanwhile

    def close(self) -> None:
        """Closes what is open; again is harmless."""
        self._files.close()

    def take(self, wanted: Mapping[bytes, int], taker: Taker, taken: set[bytes]) -> Iterator[None]:
        """Hands on the records of wanted objects, each with the size it must have, step by step; adds their ids to `taken`."""
        for pack in self._packs:
            try:
                yield from _take_from(pack, wanted, taken, taker)
            except _Bad:
                continue  # cut short, or not to be read: another may hold the same


def pack_stems(directory: Directory) -> list[bytes]:
    """Returns the names, without their endings, of the packs in a directory: no more than anybody should have."""
    try:
        names = directory.names()
    except OSError:
        return []  # none, then
    return sorted(name[:-4] for name in names if name.startswith(b"pack-") and name.endswith(b".idx"))[:_PACKS_LIMIT]


def _opened(index: int, fd: int, limit: int) -> _Pack:
    data, size = read_open(index, limit), os.fstat(fd).st_size
    if data is None or len(data) < _FIRST + 2 * _TRAILER or data[:8] != _MAGIC:
        raise _Bad("index")
    count = int.from_bytes(data[_FIRST - 4 : _FIRST], "big")
    crcs_at, end = _FIRST + 20 * count, len(data) - 2 * _TRAILER
    offsets_at, large_at = crcs_at + 4 * count, crcs_at + 8 * count
    if large_at > end or (end - large_at) % 8:
        raise _Bad("index")
    if sha1(data[:-_TRAILER], usedforsecurity=False).digest() != data[-_TRAILER:]:
        raise _Bad("the index's checksum")
    head, trailer = os.pread(fd, _HEAD, 0), os.pread(fd, _TRAILER, size - _TRAILER) if size > _TRAILER + _HEAD else b""
    if head != b"PACK\0\0\0\2" + count.to_bytes(4, "big") or trailer != data[end : end + _TRAILER]:
        raise _Bad("the index of another pack")
    offsets, large = _numbers("I", data[offsets_at:large_at]), _numbers("Q", data[large_at:end])
    if large:
        try:
            offsets = array("Q", [at if at < 1 << 31 else large[at & 0x7FFFFFFF] for at in offsets])
        except IndexError:
            raise _Bad("offsets") from None
    return _in_order(fd, size, data, offsets)


def _in_order(fd: int, size: int, data: bytes, offsets: array[int]) -> _Pack:
    """Returns a pack with its records sorted by where they stand; nothing here is done for each of them alone."""
    count, bits = len(offsets), len(offsets).bit_length()
    crcs = _numbers("I", data[_FIRST + 20 * count : _FIRST + 24 * count])
    # Numbers are sorted in a fourth of the time that it takes to sort tuples.
    order = sorted([offset << bits | at for at, offset in enumerate(offsets)])
    places = [number & (1 << bits) - 1 for number in order]
    begins = [number >> bits for number in order]
    oids = [data[_FIRST + 20 * at : _FIRST + 20 * at + 20] for at in places]
    return _Pack(fd, begins, [*begins[1:], size - _TRAILER], oids, [crcs[at] for at in places])


def _numbers(code: str, data: bytes) -> array[int]:
    found = array(code, data)
    if sys.byteorder == "little":
        found.byteswap()
    return found


def _take_from(pack: _Pack, wanted: Mapping[bytes, int], taken: set[bytes], taker: Taker) -> Iterator[None]:
    whole: list[Row] = []  # what was taken in runs, and is not in `known` yet: only deltas ask for it
    known: _Known = {}
    for rows in _runs(pack, wanted, taken):
        yield
        begin, end = rows[0][0], rows[-1][3]
        data = _read(pack.fd, begin, end)
        # An index that names an object twice is none of git's: the pack that is made of it must not be like it.
        if _are_whole(data, begin, rows, wanted) and len({row[1] for row in rows}) == len(rows):
            taker.add_run(data, [(oid, crc, offset - begin) for offset, oid, crc, _ in rows])
            taken.update([row[1] for row in rows])
            whole += rows
        else:
            known.update([(offset, (oid, _BLOB if wanted[oid] >= 0 else _TREE, 0)) for offset, oid, _, _ in whole])
            whole = []
            _take_each(data, begin, rows, wanted, known, taker)
            taken.update([row[1] for row in rows if row[0] in known])


def _read(fd: int, begin: int, end: int) -> bytes:
    try:
        data: bytes = seam.calls.pread(fd, end - begin, begin)
    except OSError as error:
        raise _Bad(error.strerror) from error
    if len(data) != end - begin:
        raise _Bad("cut short")
    return data


def _runs(pack: _Pack, wanted: Mapping[bytes, int], taken: set[bytes]) -> Iterator[list[Row]]:
    """Yields wanted records that stand one behind the other, as many as are read at once."""
    offsets, ends = pack.offsets, pack.ends
    gaps = [
        at
        for at, (oid, offset, end) in enumerate(zip(pack.oids, offsets, ends, strict=True))
        if oid not in wanted or oid in taken or not _HEAD <= offset < end <= offset + _LONGEST
    ]
    begin = 0
    for gap in (*gaps, len(offsets)):
        while begin < gap:
            stop = max(begin + 1, bisect_right(ends, offsets[begin] + _RUN, begin, gap))
            some = slice(begin, stop)
            yield [*zip(offsets[some], pack.oids[some], pack.crcs[some], ends[some], strict=True)]
            begin = stop
        begin = gap + 1


def _are_whole(data: bytes, begin: int, rows: list[Row], wanted: Mapping[bytes, int]) -> bool:
    """Returns whether all records are right, and whole objects of the wanted sizes."""
    view, headers, crc32 = memoryview(data), _headers, zlib.crc32
    for offset, oid, crc, end in rows:
        size, at = wanted[oid], offset - begin
        if not (data.startswith(headers[size], at) if size >= 0 else data[at] >> 4 & 7 == _TREE):
            return False
        if crc32(view[at : end - begin]) != crc:
            return False
    return True


class _Headers(dict[int, bytes]):
    """How the record of a whole blob of a size begins."""

    def __missing__(self, size: int) -> bytes:
        byte, rest, found = _BLOB << 4 | size & 15, size >> 4, bytearray()
        while rest:
            found.append(byte | 0x80)
            byte, rest = rest & 0x7F, rest >> 7
        found.append(byte)
        header = bytes(found)
        if len(self) < _REMEMBERED:
            self[size] = header
        return header


_headers = _Headers()


def _take_each(
    data: bytes, begin: int, rows: list[Row], wanted: Mapping[bytes, int], known: _Known, taker: Taker
) -> None:
    """Takes what is right of some records, deltas among them."""
    for row in rows:
        offset, oid, crc, end = row
        record, size = data[offset - begin : end - begin], wanted[oid]
        if zlib.crc32(record) != crc:
            continue
        try:
            kind, said, at = read_header(record[:_NUMBERS])
            if kind == _OFS_DELTA:
                kind, depth = _take_delta(record, at, row, size, known, taker)
            elif (kind, said) == (_BLOB, size) or (kind, size) == (_TREE, ANY_SIZE):
                taker.add_run(record, [(oid, crc, 0)])
                depth = 0
            else:
                continue
        except (IndexError, BadPack):
            continue  # cut short, or a number without an end
        if kind:
            known[offset] = oid, kind, depth


def _take_delta(record: bytes, at: int, row: Row, size: int, known: _Known, taker: Taker) -> tuple[int, int]:
    """Hands on a delta whose base was taken; returns the kind of its object and its depth, 0 where it is not taken."""
    numbers = record[:_NUMBERS]
    distance, at = read_distance(numbers, at)
    base, kind, depth = known.get(row[0] - distance, (b"", 0, 0))
    try:
        begun = zlib.decompressobj().decompress(record[at : at + 256], _DELTA_SIZES)
    except zlib.error:
        return 0, 0
    _, middle = read_size(begun, 0)
    made, _ = read_size(begun, middle)
    right = (kind, made) == (_BLOB, size) or (kind, size) == (_TREE, ANY_SIZE)
    if not right or depth >= _DEEPEST or not taker.add_delta(row[1], base, read_header(numbers)[1], record[at:]):
        return 0, 0
    return kind, depth + 1
