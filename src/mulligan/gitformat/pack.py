"""
One pack, opened for reading.

Reads are by position in an open file, so a pack that another process removes stays readable while it is open. Every
result is bounded by what its header declares, a declared size by what the bytes can hold, a chain of deltas by its
depth, by the bytes it produces and by never meeting the same place twice.
Not verified here: that the bytes hash to the id that was asked for; the store does that.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from mulligan.gitformat.pack_index import HEAD_SIZE, PackIndex
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
    apply_delta,
    check_size,
    delta_sizes,
    engine,
    inflate_errors,
    parse_header,
)
from mulligan.model.objects import BLOB
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory, NotRegular

# One read that brings the header and, for most objects, all of the content.
_CHUNK = 256 << 10
_BULKY = (TYPE_OF_KIND[BLOB], OFS_DELTA, REF_DELTA)
_CACHE_BYTES = 8 << 20
# An index up to this size is read at once, whatever it says of itself.
_PLAIN_INDEX = 8 << 20


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
