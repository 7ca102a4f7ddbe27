"""
The index of a pack, version 2: which objects it holds and where.

The file is read into memory, or, a large one of the user's repository, by position (`FileBytes`). It is never mapped: a
truncated mapping kills the process. Opening checks the shape only (every object is verified by its hash when it is read); `pack_scan.index_findings` checks the rest.
"""

from __future__ import annotations

import os
import struct
import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from hashlib import sha1
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from mulligan.gitformat.record import TRAILER_SIZE, DamagedRecord
from mulligan.safefs import syscalls

if TYPE_CHECKING:
    from array import array

MAGIC = b"\377tOc\0\0\0\2"
_FANOUT = struct.Struct(">256L")
_NAMES_AT = HEAD_SIZE = len(MAGIC) + _FANOUT.size
# More than the smallest objects that fit into the largest pack that is written need.
_LARGEST = 160 << 20
_LARGE = 0x80000000
ROW_SIZE = 28


class FileBytes:
    """The bytes of an open file, read slice by slice; raises DamagedRecord where the file is shorter than asked for."""

    __slots__ = ("_fd", "_size")

    def __init__(self, fd: int) -> None:
        self._fd, self._size = fd, os.fstat(fd).st_size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._size)
        data: bytes = syscalls.calls.pread(self._fd, max(stop - start, 0), start)
        if len(data) < stop - start:
            raise DamagedRecord("the index was cut short")
        return data


class IndexRow(NamedTuple):
    """Where one object stands in its pack, and the checksum of its record."""

    oid: bytes
    crc: int
    offset: int


def encode_index(rows: Iterable[tuple[bytes, int, int]], pack_checksum: bytes) -> bytes:
    """Returns the bytes of an index."""
    ordered = sorted(rows)
    oids = [row[0] for row in ordered]
    offsets = [row[2] for row in ordered]
    large = [offset for offset in offsets if offset >= _LARGE]
    if large:
        numbers = count(_LARGE)
        offsets = [offset if offset < _LARGE else next(numbers) for offset in offsets]
    checksums = [row[1] for row in ordered]
    tables = [MAGIC, *_fanout(oids), *oids, _big_endian("I", checksums), _big_endian("I", offsets)]
    if large:
        tables.append(_big_endian("Q", large))
    body = b"".join([*tables, pack_checksum])
    return body + sha1(body, usedforsecurity=False).digest()


def _fanout(oids: Sequence[bytes]) -> list[bytes]:
    """Returns, for each first byte, how many of the sorted ids begin with it or a smaller one; equal numbers in one piece."""
    found, done = [], 0
    for number, oid in enumerate(oids):
        if oid[0] > done:
            found.append(number.to_bytes(4, "big") * (oid[0] - done))
            done = oid[0]
    found.append(len(oids).to_bytes(4, "big") * (256 - done))
    return found


def _big_endian(code: str, numbers: Sequence[int]) -> bytes:
    return struct.pack(f">{len(numbers)}{code}", *numbers)


def _numbers(code: str, data: bytes) -> array[int]:
    from array import array

    unpacked = array(code, data)
    if sys.byteorder == "little":
        unpacked.byteswap()
    return unpacked


class PackIndex:
    """One parsed index; positions are those of the sorted ids."""

    __slots__ = (
        "_crc_at",
        "_data",
        "_large_at",
        "_offsets",
        "_offsets_at",
        "_sorted",
        "count",
        "fanout",
        "pack_checksum",
    )

    def __init__(self, data: bytes | FileBytes) -> None:
        if len(data) < _NAMES_AT + 2 * TRAILER_SIZE or data[: len(MAGIC)] != MAGIC:
            raise DamagedRecord("the index is not one of version 2")
        fanout = _FANOUT.unpack(data[len(MAGIC) : _NAMES_AT])
        self.count = fanout[255]
        self._crc_at = _NAMES_AT + 20 * self.count
        self._offsets_at = self._crc_at + 4 * self.count
        self._large_at = self._offsets_at + 4 * self.count
        rest = len(data) - 2 * TRAILER_SIZE - self._large_at
        if rest < 0 or rest % 8 or rest > 8 * self.count or fanout != tuple(sorted(fanout)):
            raise DamagedRecord("the index does not have the size it says")
        self._data = data
        self.fanout = (0, *fanout)
        self.pack_checksum = data[-40:-20]
        self._offsets: array[int] | None = None
        self._sorted: list[int] | None = None

    @staticmethod
    def most_bytes(head: bytes) -> int:
        """Returns how many bytes an index may have that begins so; raises DamagedRecord where none does."""
        if len(head) < HEAD_SIZE or not head.startswith(MAGIC):
            raise DamagedRecord("the index is not one of version 2")
        return min(HEAD_SIZE + 36 * int(_FANOUT.unpack_from(head, len(MAGIC))[255]) + 2 * TRAILER_SIZE, _LARGEST)

    @property
    def size(self) -> int:
        """How many bytes its file has."""
        return len(self._data)

    def find(self, oid: bytes) -> int:
        """Returns the position of an id, -1 when it is not here."""
        position = self.first_from(oid)
        return position if position < self.count and self.oid(position) == oid else -1

    def first_from(self, oid: bytes) -> int:
        """Returns the position of the first id that is not smaller."""
        data = self._data
        low: int = self.fanout[oid[0]]
        high: int = self.fanout[oid[0] + 1]
        while low < high:
            middle = (low + high) >> 1
            at = _NAMES_AT + 20 * middle
            if data[at : at + 20] < oid:
                low = middle + 1
            else:
                high = middle
        return low

    def oid(self, position: int) -> bytes:
        """Returns the id at a position."""
        at = _NAMES_AT + 20 * position
        return self._data[at : at + 20]

    def oids(self) -> list[bytes]:
        """Returns every id, sorted."""
        data = self._data[_NAMES_AT : self._crc_at]
        return [data[at : at + 20] for at in range(0, len(data), 20)]

    def crc(self, position: int) -> int:
        """Returns the checksum of the record at a position."""
        at = self._crc_at + 4 * position
        return int.from_bytes(self._data[at : at + 4], "big")

    def offset(self, position: int) -> int:
        """Returns where the object at a position stands in the pack; raises DamagedRecord when the index cannot say."""
        at = self._offsets_at + 4 * position
        return self._resolve(int.from_bytes(self._data[at : at + 4], "big"))

    def _resolve(self, offset: int) -> int:
        if offset < _LARGE:
            return offset
        at = self._large_at + 8 * (offset & ~_LARGE)
        if at + 8 > len(self._data) - 2 * TRAILER_SIZE:
            raise DamagedRecord("the index names an offset it does not hold")
        return int.from_bytes(self._data[at : at + 8], "big")

    def offsets(self) -> array[int]:
        """Returns every offset, in the order of the ids."""
        if self._offsets is None:
            found = _numbers("I", self._data[self._offsets_at : self._large_at])
            if self._large_at != len(self._data) - 2 * TRAILER_SIZE or (self.count and max(found) >= _LARGE):
                from array import array

                found = array("Q", [self._resolve(offset) for offset in found])
            self._offsets = found
        return self._offsets

    def rows(self) -> list[IndexRow]:
        """Returns every row, in the order of the pack."""
        checksums = _numbers("I", self._data[self._crc_at : self._offsets_at])
        oids, offsets = self.oids(), self.offsets()
        return [
            IndexRow(oids[at], checksums[at], offsets[at]) for at in sorted(range(self.count), key=offsets.__getitem__)
        ]

    def end_of(self, offset: int, pack_size: int) -> int:
        """Returns where the record that starts at an offset ends."""
        if self._sorted is None:
            self._sorted = sorted(self.offsets())
        after = bisect_right(self._sorted, offset)
        return self._sorted[after] if after < self.count else pack_size - TRAILER_SIZE

    def is_intact(self) -> bool:
        """Returns whether the index has the checksum that stands at its end."""
        return sha1(self._data[:-20], usedforsecurity=False).digest() == self._data[-20:]
