"""
Records of the user's packs, taken over as they stand.

A pack is a row of deflated objects. Who wants some of them need not inflate them: a record is copied byte for byte, and the
copy belongs to who made it, whatever happens to the pack later. What is checked on the way is what git checks when it
copies records from one pack into another: the pack's index against its own checksum, that it is the index of this very
pack, and each record against the CRC-32 that stands for it there, in memory, before it is handed on. Of an
object itself only kind and size are looked at; that its bytes hash to its name shows when it is read.

Only what is wanted is copied, so a delta only where its base is wanted too; everything else (deltas against history, loose and
borrowed objects, whatever is damaged or too large) is not taken, and the walk reads the file.
"""

from __future__ import annotations

import os
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from typing import NamedTuple, Protocol

from mulligan.gitformat.pack_index import PackIndex
from mulligan.gitformat.record import (
    HEADER_SIZE,
    LONGEST_HEADER,
    OFS_DELTA,
    SIGNATURE,
    TRAILER_SIZE,
    TYPE_OF_KIND,
    DamagedRecord,
    RecordHeader,
    delta_sizes,
    encode_header,
    parse_header,
)
from mulligan.model.objects import BLOB, TREE
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory
from mulligan.usergit.files import names_in, read_open

#: The size of a wanted object that may have any: a tree.
ANY_SIZE = -1
_PACKS_LIMIT = 64
# Of all indexes together: what they say is held in memory, some ten times as large.
INDEX_LIMIT = 64 << 20
# How much is read at once, and the longest record that is taken: what is longer is streamed when the file is read.
_RUN = 1 << 20
_LONGEST = 8 << 20
_TREE, _BLOB = TYPE_OF_KIND[TREE], TYPE_OF_KIND[BLOB]
# A delta begins with two sizes, numbers of 64 bits.
_DELTA_SIZES = 20
# Git makes no longer chains of its own accord.
_DEEPEST = 50


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


class _Pack(NamedTuple):
    """An open pack: its records in the order in which they stand."""

    fd: int
    offsets: list[int]
    ends: list[int]
    oids: list[bytes]
    crcs: list[int]


def take_records(directory: Directory, wanted: Mapping[bytes, int], taker: Taker) -> set[bytes]:
    """Hands on the records of wanted objects from the packs in a directory, each with the size it must have; returns their ids."""
    taken, left = set[bytes](), INDEX_LIMIT
    stems = sorted(name[:-4] for name in names_in(directory) if name.startswith(b"pack-") and name.endswith(b".idx"))
    for stem in stems[:_PACKS_LIMIT]:
        with ExitStack() as files:
            try:
                index = files.enter_context(directory.reading(stem + b".idx"))
                pack = _opened(index, files.enter_context(directory.reading(stem + b".pack")), left)
                left -= os.fstat(index).st_size
            except (OSError, DamagedRecord):
                continue  # gone or damaged: git may have packed anew
            with suppress(DamagedRecord):  # cut short, or not to be read: another may hold the same
                _take_from(pack, wanted, taken, taker)
    return taken


def _opened(index: int, fd: int, limit: int) -> _Pack:
    data, size = read_open(index, limit), os.fstat(fd).st_size
    if data is None:
        raise DamagedRecord("its index is too large")
    known = PackIndex(data)
    if not known.is_intact():
        raise DamagedRecord("the checksum of its index is wrong")
    head, trailer = os.pread(fd, HEADER_SIZE, 0), os.pread(fd, TRAILER_SIZE, max(size - TRAILER_SIZE, 0))
    if head != SIGNATURE + known.count.to_bytes(4, "big") or trailer != known.pack_checksum:
        raise DamagedRecord("its index is that of another pack")
    rows = known.rows()
    begins = [row.offset for row in rows]
    return _Pack(fd, begins, [*begins[1:], size - TRAILER_SIZE], [row.oid for row in rows], [row.crc for row in rows])


def _take_from(pack: _Pack, wanted: Mapping[bytes, int], taken: set[bytes], taker: Taker) -> None:
    whole: list[Row] = []  # what was taken in runs, and is not in `known` yet: only deltas ask for it
    known: _Known = {}
    for rows in _runs(pack, wanted, taken):
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
        data: bytes = syscalls.calls.pread(fd, end - begin, begin)
    except OSError as error:
        raise DamagedRecord(f"it cannot be read ({error.strerror})") from error
    if len(data) != end - begin:
        raise DamagedRecord("it is cut short")
    return data


def _runs(pack: _Pack, wanted: Mapping[bytes, int], taken: set[bytes]) -> Iterator[list[Row]]:
    """Yields wanted records that stand one behind the other, as many as are read at once."""
    offsets, ends = pack.offsets, pack.ends
    gaps = [
        at
        for at, (oid, offset, end) in enumerate(zip(pack.oids, offsets, ends, strict=True))
        if oid not in wanted or oid in taken or not HEADER_SIZE <= offset < end <= offset + _LONGEST
    ]
    begin = 0
    for gap in (*gaps, len(offsets)):
        while begin < gap:
            stop = max(begin + 1, bisect_right(ends, offsets[begin] + _RUN, begin, gap))
            some = slice(begin, stop)
            yield [*zip(offsets[some], pack.oids[some], pack.crcs[some], ends[some], strict=True)]
            begin = stop
        begin = gap + 1


@lru_cache(1 << 16)
def _blob_header(size: int) -> bytes:
    """Returns how the record of a whole blob of a size begins."""
    return encode_header(_BLOB, size)


def _are_whole(data: bytes, begin: int, rows: list[Row], wanted: Mapping[bytes, int]) -> bool:
    """Returns whether all records are right, and whole objects of the wanted sizes."""
    view, crc32 = memoryview(data), zlib.crc32
    for offset, oid, crc, end in rows:
        size, at = wanted[oid], offset - begin
        if not (data.startswith(_blob_header(size), at) if size >= 0 else data[at] >> 4 & 7 == _TREE):
            return False
        if crc32(view[at : end - begin]) != crc:
            return False
    return True


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
            header = parse_header(record[:LONGEST_HEADER])
            kind = header.type
            if kind == OFS_DELTA:
                kind, depth = _take_delta(record, header, row, size, known, taker)
            elif (kind, header.size) == (_BLOB, size) or (kind, size) == (_TREE, ANY_SIZE):
                taker.add_run(record, [(oid, crc, 0)])
                depth = 0
            else:
                continue
        except DamagedRecord:
            continue  # cut short, or a number without an end
        if kind:
            known[offset] = oid, kind, depth


def _take_delta(
    record: bytes, header: RecordHeader, row: Row, size: int, known: _Known, taker: Taker
) -> tuple[int, int]:
    """Hands on a delta whose base was taken; returns the kind of its object and its depth, 0 where it is not taken."""
    base, kind, depth = known.get(row[0] - header.distance, (b"", 0, 0))
    try:
        begun = zlib.decompressobj().decompress(record[header.length : header.length + 256], _DELTA_SIZES)
    except zlib.error:
        return 0, 0
    _, made = delta_sizes(begun)
    right = (kind, made) == (_BLOB, size) or (kind, size) == (_TREE, ANY_SIZE)
    if not right or depth >= _DEEPEST or not taker.add_delta(row[1], base, header.size, record[header.length :]):
        return 0, 0
    return kind, depth + 1
