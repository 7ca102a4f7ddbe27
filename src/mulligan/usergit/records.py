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
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import NamedTuple, Protocol

from mulligan.gitformat.pack import IndexRow, PackIndex
from mulligan.gitformat.record import (
    HEADER_SIZE,
    LONGEST_HEADER,
    OFS_DELTA,
    SIGNATURE,
    TRAILER_SIZE,
    TYPE_OF_KIND,
    DamagedRecord,
    delta_sizes,
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
# The longest record that is taken: what is longer is streamed when the file is read.
_LONGEST = 8 << 20
_TREE, _BLOB = TYPE_OF_KIND[TREE], TYPE_OF_KIND[BLOB]
# A delta begins with two sizes, numbers of 64 bits.
_DELTA_SIZES = 20
# Git makes no longer chains of its own accord.
_DEEPEST = 50


class Taker(Protocol):
    """Who takes records in."""

    def add_record(self, oid: bytes, record: bytes, crc: int) -> None:
        """Takes an object as a record, with its CRC-32."""

    def add_delta(self, oid: bytes, base: bytes, size: int, deflated: bytes, /) -> bool:
        """Takes an object as a delta, of so many bytes, of another; False where that is not at hand."""


def take_records(directory: Directory, wanted: Mapping[bytes, int], taker: Taker) -> set[bytes]:
    """Hands on the records of wanted objects from the packs in a directory, each with the size it must have; returns their ids."""
    taken, left = set[bytes](), INDEX_LIMIT
    stems = sorted(name[:-4] for name in names_in(directory) if name.startswith(b"pack-") and name.endswith(b".idx"))
    for stem in stems[:_PACKS_LIMIT]:
        with ExitStack() as files:
            try:
                index = files.enter_context(directory.reading(stem + b".idx"))
                fd = files.enter_context(directory.reading(stem + b".pack"))
                rows, end = _opened(index, fd, left)
                left -= os.fstat(index).st_size
            except (OSError, DamagedRecord):
                continue  # gone or damaged: git may have packed anew
            with suppress(DamagedRecord):  # cut short, or not to be read: another may hold the same
                _take_from(fd, rows, end, wanted, taken, taker)
    return taken


def _opened(index: int, fd: int, limit: int) -> tuple[list[IndexRow], int]:
    """Returns the records of a pack in the order in which they stand, and where the last ends; raises DamagedRecord."""
    data, size = read_open(index, limit), os.fstat(fd).st_size
    if data is None:
        raise DamagedRecord("its index is too large")
    known = PackIndex(data)
    if not known.is_intact():
        raise DamagedRecord("the checksum of its index is wrong")
    head, trailer = os.pread(fd, HEADER_SIZE, 0), os.pread(fd, TRAILER_SIZE, max(size - TRAILER_SIZE, 0))
    if head != SIGNATURE + known.count.to_bytes(4, "big") or trailer != known.pack_checksum:
        raise DamagedRecord("its index is that of another pack")
    return known.rows(), size - TRAILER_SIZE


def _take_from(
    fd: int, rows: list[IndexRow], end: int, wanted: Mapping[bytes, int], taken: set[bytes], taker: Taker
) -> None:
    known: dict[int, _TakenRecord] = {}
    for row, stop in zip(rows, [*(row.offset for row in rows[1:]), end], strict=True):
        # An index that names an object twice is none of git's: the pack that is made of it must not be like it.
        if row.oid not in wanted or row.oid in taken or not HEADER_SIZE <= row.offset < stop <= row.offset + _LONGEST:
            continue
        record = _read(fd, row.offset, stop)
        if zlib.crc32(record) != row.crc:
            continue
        with suppress(DamagedRecord):  # cut short, or a number without an end
            found = _take(record, row, wanted[row.oid], known, taker)
            if found is not None:
                known[row.offset] = found
                taken.add(row.oid)


def _read(fd: int, begin: int, end: int) -> bytes:
    try:
        data: bytes = syscalls.calls.pread(fd, end - begin, begin)
    except OSError as error:
        raise DamagedRecord(f"it cannot be read ({error.strerror})") from error
    if len(data) != end - begin:
        raise DamagedRecord("it is cut short")
    return data


class _TakenRecord(NamedTuple):
    """What was taken: which object, of which kind, and how many deltas deep it is."""

    oid: bytes
    kind: int
    depth: int


def _take(
    record: bytes, row: IndexRow, size: int, known: Mapping[int, _TakenRecord], taker: Taker
) -> _TakenRecord | None:
    """Hands on an object that is what was wanted, a delta only if its base was taken; returns None where it is not taken."""
    header = parse_header(record[:LONGEST_HEADER])
    if header.type != OFS_DELTA:
        if not _is_right(header.type, header.size, size):
            return None
        taker.add_record(row.oid, record, row.crc)
        return _TakenRecord(row.oid, header.type, 0)
    base = known.get(row.offset - header.distance)
    try:
        begun = zlib.decompressobj().decompress(record[header.length : header.length + 256], _DELTA_SIZES)
    except zlib.error:
        return None
    if base is None or base.depth >= _DEEPEST or not _is_right(base.kind, delta_sizes(begun)[1], size):
        return None
    if not taker.add_delta(row.oid, base.oid, header.size, record[header.length :]):
        return None
    return _TakenRecord(row.oid, base.kind, base.depth + 1)


def _is_right(kind: int, size: int, wanted: int) -> bool:
    """Returns whether an object is a blob of the wanted size, or a tree where that was wanted."""
    return (kind, size) == (_BLOB, wanted) or (kind, wanted) == (_TREE, ANY_SIZE)
