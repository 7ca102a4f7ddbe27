"""
One pack of the user's repository: its index and its objects, read by position.

Small pack indexes are held in memory, large ones are read where needed. Sizes in a pack are claims: what is inflated is
bounded, delta chains are bounded in length and in bytes, and every offset is checked before it is used.
LIMIT: pack index version 1, which git stopped writing in 2007, is not read.
"""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import ExitStack

from mulligan.safefs.directory import Directory
from mulligan.scan.git.files import read_open

OBJECT_LIMIT = 32 << 20
CHAIN_LIMIT = 4096
CHAIN_BYTES = 4 * OBJECT_LIMIT
LOOKUP_PRICE = 1024
_IN_MEMORY = 4 << 20
_MAGIC = b"\xfftOc\0\0\0\x02"
_FIRST = 8 + 1024
_CHUNK = 1 << 16

_KINDS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_OFS_DELTA, _REF_DELTA = 6, 7
_LONGEST_NUMBER = 60  # bits


class BadPack(ValueError):
    """The pack is not what the format says; the object counts as missing."""


class Meter:
    """How much work reading may still be, in bytes inflated; look-ups have a price too."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, amount: int) -> None:
        """Takes from what is left; raises BadPack when nothing is."""
        self.left -= amount
        if self.left < 0:
            raise BadPack("too much work")


def inflate(data: bytes, limit: int) -> bytes:
    """Returns what deflated bytes hold; raises BadPack when that is more than the limit or no deflate at all."""
    stream = zlib.decompressobj()
    try:
        out = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise BadPack(str(error)) from None
    if len(out) > limit or not stream.eof:
        raise BadPack("size")
    return out


class Pack:
    """An open pack; `close` releases its descriptors."""

    def __init__(self, directory: Directory, stem: bytes, meter: Meter) -> None:
        """Opens the index; raises OSError or BadPack."""
        self._directory, self._stem, self._meter, self._files = directory, stem, meter, ExitStack()
        self._index: bytes | None = None
        self._data_fd = -1
        self._index_fd = self._files.enter_context(directory.reading(stem + b".idx"))
        try:
            self._index_size = os.fstat(self._index_fd).st_size
            if self._index_size <= _IN_MEMORY:
                self._index = read_open(self._index_fd, _IN_MEMORY)
                self._files.close()
            if self._at(0, 8) != _MAGIC:
                raise BadPack("index")
            self._fan = struct.unpack(">256I", self._at(8, 1024))
        except BaseException:
            self.close()
            raise
        self._count = self._fan[255]

    def close(self) -> None:
        """Closes what is open; again is harmless."""
        self._files.close()
        self._data_fd = -1

    def _at(self, offset: int, size: int) -> bytes:
        data = (
            self._index[offset : offset + size] if self._index is not None else os.pread(self._index_fd, size, offset)
        )
        if len(data) != size:
            raise BadPack("index")
        return data

    def offset_of(self, oid: bytes) -> int | None:
        """Returns where an object lies in the pack, None when it is not there; raises BadPack."""
        self._meter.spend(LOOKUP_PRICE)
        low = self._fan[oid[0] - 1] if oid[0] else 0
        high = min(self._fan[oid[0]], self._count)
        while low < high:
            middle = (low + high) // 2
            found = self._at(_FIRST + middle * 20, 20)
            if found == oid:
                return self._offset(middle)
            if found < oid:
                low = middle + 1
            else:
                high = middle
        return None

    def between(self, low: bytes, high: bytes, most: int) -> list[bytes]:
        """Returns the first few ids from one to another, both included; raises BadPack."""
        first, last = 0, self._count
        while first < last:
            self._meter.spend(LOOKUP_PRICE)
            middle = (first + last) // 2
            if self._at(_FIRST + middle * 20, 20) < low:
                first = middle + 1
            else:
                last = middle
        found = [self._at(_FIRST + at * 20, 20) for at in range(first, min(first + most, self._count))]
        return [oid for oid in found if oid <= high]

    def _offset(self, position: int) -> int:
        offsets = _FIRST + self._count * 24
        offset = int.from_bytes(self._at(offsets + position * 4, 4), "big")
        if offset & 0x80000000:
            large = offsets + self._count * 4 + (offset & 0x7FFFFFFF) * 8
            offset = int.from_bytes(self._at(large, 8), "big")
        return offset

    def read(self, offset: int) -> tuple[bytes, bytes]:
        """Returns kind and bytes of the object at an offset; raises BadPack or OSError."""
        deltas: list[bytes] = []
        total = 0
        while True:
            kind, size, base, start = self._entry(offset)
            data = self._inflate(start, size)
            total += size
            if kind in _KINDS:
                break
            deltas.append(data)
            if base is None or len(deltas) > CHAIN_LIMIT or total > CHAIN_BYTES:
                raise BadPack("delta chain")
            offset = base
        for delta in reversed(deltas):
            data = apply_delta(data, delta)
            self._meter.spend(len(data))
        return _KINDS[kind], data

    def _entry(self, offset: int) -> tuple[int, int, int | None, int]:
        """Returns kind, size, the base's offset (for deltas) and where the deflated bytes begin."""
        head = self._pack_at(offset, 48)
        kind, size, at = read_header(head)
        if size > OBJECT_LIMIT or (kind not in _KINDS and kind not in (_OFS_DELTA, _REF_DELTA)):
            raise BadPack("entry")
        base: int | None = None
        if kind == _REF_DELTA:
            base = self.offset_of(head[at : at + 20]) if len(head) >= at + 20 else None
            at += 20
        elif kind == _OFS_DELTA:
            back, at = read_distance(head, at)
            base = offset - back if 0 < back < offset else None
        return kind, size, base, offset + at

    def _pack_at(self, offset: int, size: int) -> bytes:
        if self._data_fd < 0:
            self._data_fd = self._files.enter_context(self._directory.reading(self._stem + b".pack"))
        if not 12 <= offset < 1 << 62:
            raise BadPack("offset")
        data = os.pread(self._data_fd, size, offset)
        if len(data) < 4:
            raise BadPack("cut short")
        return data

    def _inflate(self, start: int, size: int) -> bytes:
        self._meter.spend(size)
        stream, parts, made, end = zlib.decompressobj(), [b""], 0, start + 2 * size + _CHUNK
        while not stream.eof:
            chunk = self._pack_at(start, min(size + 64, _CHUNK))
            start += len(chunk)
            try:
                parts.append(stream.decompress(chunk, size + 1 - made))
            except zlib.error as error:
                raise BadPack(str(error)) from None
            made += len(parts[-1])
            # Deflate hardly makes anything longer: a stream that goes on for ever is none.
            if made > size or stream.unconsumed_tail or start > end:
                raise BadPack("size")
        if made != size:
            raise BadPack("size")
        return b"".join(parts)


def read_header(head: bytes) -> tuple[int, int, int]:
    """Returns the kind of a record, the size it says, and where its header ends; raises BadPack, IndexError where it is cut short."""
    kind, size, shift, at = head[0] >> 4 & 7, head[0] & 15, 4, 1
    while head[at - 1] & 0x80:
        size |= (head[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if shift > _LONGEST_NUMBER:
            raise BadPack("size")
    return kind, size, at


def read_distance(head: bytes, at: int) -> tuple[int, int]:
    """Returns how far before a delta its base stands, and where that number ends; IndexError where it is cut short."""
    value, at = head[at] & 0x7F, at + 1
    while head[at - 1] & 0x80:
        value, at = (value + 1) << 7 | head[at] & 0x7F, at + 1
    return value, at


def read_size(data: bytes, at: int) -> tuple[int, int]:
    """Returns a size that a delta begins with, and where it ends; raises BadPack, IndexError where it is cut short."""
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if not byte & 0x80:
            return value, at
        if shift > _LONGEST_NUMBER:
            raise BadPack("delta size")


def apply_delta(base: bytes, delta: bytes) -> bytes:
    """Returns the object that a delta makes of its base; raises BadPack."""
    try:
        return _applied(base, delta)
    except IndexError:
        raise BadPack("delta cut short") from None


def _applied(base: bytes, delta: bytes) -> bytes:
    base_size, at = read_size(delta, 0)
    size, at = read_size(delta, at)
    if base_size != len(base) or size > OBJECT_LIMIT:
        raise BadPack("delta sizes")
    parts: list[bytes] = []
    made = 0
    while at < len(delta):
        command, at = delta[at], at + 1
        if command & 0x80:
            begin = length = 0
            for bit in range(7):
                if command >> bit & 1:
                    if bit < 4:
                        begin |= delta[at] << 8 * bit
                    else:
                        length |= delta[at] << 8 * (bit - 4)
                    at += 1
            length = length or 0x10000
            part = base[begin : begin + length]
        else:
            length = command
            part, at = delta[at : at + length], at + length
        parts.append(part)
        made += length
        if not length or len(part) != length or made > size:
            raise BadPack("delta result")
    if made != size:
        raise BadPack("delta result")
    return b"".join(parts)
