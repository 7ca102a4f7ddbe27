"""
One pack, opened for reading, and its index (version 2): which objects it holds and where.

Reads are by position in an open file, so a pack that another process removes stays readable while it is open. Every
result is bounded by what its header declares, a declared size by what the bytes can hold, a chain of deltas by its
depth, by the bytes it produces and by never meeting the same place twice.
Not verified here: that the bytes hash to the id that was asked for; the store does that.
An index is read into memory, or, a large one of the user's repository, by position (`FileBytes`). It is never mapped: a truncated
mapping kills the process. Opening one checks the shape only; `pack_scan.index_findings` checks the rest.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha1
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.gitformat.record import (
    CHAIN_LIMIT,
    DELTA_LIMIT,
    KIND_OF_TYPE,
    LONGEST_HEADER,
    OFS_DELTA,
    REF_DELTA,
    TRAILER_SIZE,
    TREE_LIMIT,
    TYPE_OF_KIND,
    WHOLE_LIMIT,
    DamagedRecord,
    RecordHeader,
    check_size,
    delta_sizes,
    engine,
    inflate_errors,
    parse_header,
)
from mulligan.model.objects import BLOB
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory, NotRegular

if TYPE_CHECKING:
    from array import array

# One read that brings the header and, for most objects, all of the content.
_CHUNK = 256 << 10
_BULKY = (TYPE_OF_KIND[BLOB], OFS_DELTA, REF_DELTA)
_CACHE_BYTES = 8 << 20
# An index up to this size is read at once, whatever it says of itself.
_PLAIN_INDEX = 8 << 20

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


@contextmanager
def _plain_files() -> Iterator[None]:
    """Turns what stands in the place of a file, a directory or a link, into damage."""
    try:
        yield
    except NotRegular:
        raise DamagedRecord("a directory stands in the place of its file") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DamagedRecord("a link stands in the place of its file") from None
        raise


def read_index(directory: Directory, name: bytes, size: int) -> PackIndex:
    """Returns the index of a pack; raises DamagedRecord, before it is read, for a file that has more bytes than an index of its kind."""
    with _plain_files():
        if size > _PLAIN_INDEX and size > PackIndex.most_bytes(directory.read(name + b".idx", limit=HEAD_SIZE)):
            raise DamagedRecord("the index does not have the size it says")
        return PackIndex(directory.read(name + b".idx"))


class Limits(NamedTuple):
    """How many bytes reading one object may need: as a blob or delta, as anything else, and for a whole chain of deltas."""

    blob: int = WHOLE_LIMIT
    other: int = TREE_LIMIT
    delta: int = DELTA_LIMIT
    chain: int = 4 << 30


OURS = Limits()


class Pack:
    """
    One pack and its index; `name` is the file name without its ending.

    `spend` is called with the number of bytes before they are made; it may raise DamagedRecord to end work that gets too much.
    """

    __slots__ = ("_cache", "_cached", "_limits", "_spend", "fd", "index", "name", "size", "stamp")

    def __init__(
        self,
        name: bytes,
        index: PackIndex,
        size: int,
        stamp: tuple[int, ...] = (),
        *,
        limits: Limits = OURS,
        spend: Callable[[int], None] | None = None,
    ) -> None:
        self.name = name
        self.stamp = stamp
        self._limits, self._spend = limits, spend
        self.index = index
        self.size = size
        self.fd = -1
        self._cache: OrderedDict[int, tuple[bytes, bytes]] = OrderedDict()
        self._cached = 0

    @classmethod
    def load(cls, directory: Directory, name: bytes) -> Pack:
        """Reads the index of a pack; raises DamagedRecord or OSError."""
        stamp = cls.stamp_of(directory, name)
        size = directory.stat(name + b".pack").st_size
        return cls(name, read_index(directory, name, stamp[1]), size, stamp)

    @staticmethod
    def stamp_of(directory: Directory, name: bytes) -> tuple[int, ...]:
        """Returns what tells an index from another of the same name: a repair puts a new one in its place."""
        status = directory.stat(name + b".idx")
        return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def open(self, directory: Directory) -> None:
        """Opens the pack's file, if it is not open."""
        if self.fd < 0:
            with _plain_files():
                self.fd = directory.open_file(self.name + b".pack")
            self.size = os.fstat(self.fd).st_size

    def close(self) -> None:
        """Closes the pack's file; again is harmless."""
        fd, self.fd = self.fd, -1
        self._cache.clear()
        self._cached = 0
        if fd >= 0:
            syscalls.calls.close(fd)

    # -- bytes ----------------------------------------------------------------------------------

    def pread(self, length: int, offset: int) -> bytes:
        """Returns bytes of the file, fewer only at its end; a disk that cannot read them has lost them."""
        try:
            data: bytes = syscalls.calls.pread(self.fd, length, offset)
            while len(data) < length and (
                more := syscalls.calls.pread(self.fd, length - len(data), offset + len(data))
            ):
                data += more
        except OSError as error:
            if error.errno == errno.EIO:
                raise DamagedRecord("the disk cannot read it (EIO)") from error
            raise
        return data

    def header(self, offset: int) -> RecordHeader:
        """Returns the header of the record at an offset."""
        return parse_header(self.pread(LONGEST_HEADER, self._inside(offset)))

    def record(self, offset: int) -> bytes:
        """Returns a record as it stands, header and deflated bytes."""
        return self.pread(self.length_of(offset), offset)

    def length_of(self, offset: int) -> int:
        """Returns how many bytes a record takes."""
        return self.index.end_of(offset, self.size) - self._inside(offset)

    def _inside(self, offset: int) -> int:
        if not 12 <= offset < self.size - TRAILER_SIZE:
            raise DamagedRecord("its place lies outside the pack")
        return offset

    def _content(self, offset: int) -> tuple[RecordHeader, bytes]:
        """Returns header and inflated bytes of the record at an offset, a delta not applied."""
        header = self.header(offset)
        limit = self._limits.blob if header.type in _BULKY else self._limits.other
        check_size(header.size, self.size - TRAILER_SIZE - offset - header.length, limit)
        if self._spend is not None:
            self._spend(header.size)
        return header, b"".join(self.stream_at(offset, header))

    # -- objects --------------------------------------------------------------------------------

    def base_of(self, offset: int, header: RecordHeader) -> int:
        """Returns where the base of a delta stands."""
        if header.type == OFS_DELTA:
            if not 0 < header.distance <= offset:
                raise DamagedRecord("the base of its delta lies outside the pack")
            return self._inside(offset - header.distance)
        position = self.index.find(header.base)
        if position < 0:
            raise DamagedRecord("the base of its delta is not in its pack")
        return self._inside(self.index.offset(position))

    def load_at(self, offset: int) -> tuple[bytes, bytes]:
        """Returns kind and bytes of the object at an offset, its deltas applied."""
        chain: list[tuple[int, bytes]] = []
        seen: set[int] = set()
        produced = 0
        while True:
            if (known := self._cache.get(offset)) is not None:
                kind, data = known
                break
            if offset in seen or len(chain) > CHAIN_LIMIT:
                raise DamagedRecord("its chain of deltas is too long or runs in a circle")
            seen.add(offset)
            header, data = self._content(offset)
            if header.type in KIND_OF_TYPE:
                kind = KIND_OF_TYPE[header.type]
                break
            produced += delta_sizes(data)[1]
            if produced > self._limits.chain:
                raise DamagedRecord("its chain of deltas produces too many bytes")
            chain.append((offset, data))
            offset = self.base_of(offset, header)
        if not chain:
            return kind, data
        from mulligan.gitformat.delta import apply_delta  # loaded where there are deltas: a save writes none

        self._remember(offset, kind, data)
        for at, delta in reversed(chain):
            data = apply_delta(data, delta, limit=self._limits.delta)
            if self._spend is not None:
                self._spend(len(data))
            self._remember(at, kind, data)
        return kind, data

    def _remember(self, offset: int, kind: bytes, data: bytes) -> None:
        if len(data) > _CACHE_BYTES // 4 or offset in self._cache:
            return
        self._cache[offset] = (kind, data)
        self._cached += len(data)
        while self._cached > _CACHE_BYTES:
            _, (_, dropped) = self._cache.popitem(last=False)
            self._cached -= len(dropped)

    def kind_and_size(self, offset: int) -> tuple[bytes, int]:
        """Returns what an object is and how many bytes it has, without reading all of it."""
        header = self.header(offset)
        size = header.size
        if header.type not in KIND_OF_TYPE:
            size = delta_sizes(self._beginning(offset, header))[1]
        for _ in range(CHAIN_LIMIT):
            if header.type in KIND_OF_TYPE:
                return KIND_OF_TYPE[header.type], size
            offset = self.base_of(offset, header)
            header = self.header(offset)
        raise DamagedRecord("its chain of deltas is too long or runs in a circle")

    def _beginning(self, offset: int, header: RecordHeader) -> bytes:
        try:
            begun: bytes = engine(0).decompressobj().decompress(self.pread(256, offset + header.length), 32)
        except inflate_errors() as error:
            raise DamagedRecord(f"its bytes do not inflate ({error})") from None
        return begun

    def stream_at(self, offset: int, header: RecordHeader) -> Generator[bytes, None, int]:
        """Yields the content of a record in chunks, then returns its length; raises DamagedRecord where it ends wrong."""
        at, end, left = offset + header.length, self.size - TRAILER_SIZE, header.size
        check_size(left, end - at, limit=left)
        stream: Any = engine(header.size).decompressobj()
        feed = b""
        while not stream.eof:
            if not feed:
                # Deflated bytes are hardly ever more than those that they hold: of a small object, one read for all.
                feed = self.pread(min(_CHUNK, left + (left >> 9) + 64, end - at), at)
                at += len(feed)
                if not feed:
                    raise DamagedRecord("it is cut short")
            try:
                part = stream.decompress(feed, min(_CHUNK, left + 1))
            except inflate_errors() as error:
                raise DamagedRecord(f"its bytes do not inflate ({error})") from None
            feed = stream.unconsumed_tail
            left -= len(part)
            if left < 0:
                break
            if part:
                yield part
        if left:
            raise DamagedRecord("it does not have the size its header says")
        return at - len(stream.unused_data) - offset
