"""
New packs.

Promise: when `finish` returns, every object that was added survives a power cut; before that, nothing of it can be seen;
after `abort` nothing of it remains. The order is always: bytes of pack and index, fsync of both, rename of the pack,
rename of its index, one fsync of the directory.
A writer belongs to one thread, and to the process that holds the store's lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from hashlib import sha1
from itertools import count
from typing import Any, NamedTuple

from mulligan.gitformat.pack import ROW_SIZE, encode_index
from mulligan.gitformat.record import (
    HEADER_SIZE,
    LEVEL,
    OFS_DELTA,
    PACK_LIMIT,
    SIGNATURE,
    TRAILER_SIZE,
    TYPE_OF_KIND,
    crc32,
    deflate,
    encode_distance,
    encode_header,
    engine,
    hash_of,
)
from mulligan.model.objects import BLOB
from mulligan.safefs.directory import Directory
from mulligan.safefs.durable import NewFile, sync, write_all_synced

_CHUNK = 1 << 20
# An index without any rows, and the ends of a pack.
_FRAME = 1072 + HEADER_SIZE + TRAILER_SIZE
# A streamed object below this size joins the others: a pack of its own would cost more than it saves.
_STREAM_LEAST = 1 << 20
# And no pack has more objects: tiny ones would take a kilobyte of memory each until their pack is full.
MOST_ROWS = 1 << 16
_serial = count()


class PackBuffer:
    """Records on their way into one pack, in memory."""

    __slots__ = ("_parts", "offsets", "rows", "size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.rows: list[tuple[bytes, int, int]] = []
        self.offsets: dict[bytes, int] = {}
        self.size = HEADER_SIZE

    def append(self, oid: bytes, record: bytes, crc: int | None = None) -> None:
        """Takes one record, header and deflated bytes; a delta's base must be in this buffer already."""
        offset = self.size
        self.offsets[oid] = offset
        self.rows.append((oid, crc32(record) if crc is None else crc, offset))
        self._parts.append(record)
        self.size = offset + len(record)

    def chunks(self) -> Iterator[bytes]:
        """Yields the bytes of the pack but for its trailer, in few pieces."""
        held: list[bytes] = [SIGNATURE + len(self.rows).to_bytes(4, "big")]
        size = 0
        for part in self._parts:
            held.append(part)
            size += len(part)
            if size >= _CHUNK:
                yield b"".join(held) if len(held) > 1 else part
                held, size = [], 0
        yield b"".join(held)


class NewPack(NamedTuple):
    """A pack in tmp/: how its files begin there, the name that it will have, and the sizes of both files."""

    stem: bytes
    name: bytes
    size: int
    index_size: int


class PlacedPacks:
    """Packs that are written and synced in tmp/, and the step that puts them in place together."""

    def __init__(self, root: Directory) -> None:
        """Takes the store's directory."""
        self.root = root
        self.written: list[NewPack] = []

    @property
    def total(self) -> int:
        """How many bytes the packs and their indexes have."""
        return sum(new.size + new.index_size for new in self.written)

    def write(
        self,
        rows: Iterable[tuple[bytes, int, int]],
        chunks: Iterable[bytes],
        *,
        beside: Iterable[NewFile] = (),
    ) -> None:
        """Writes a pack, its index and what is to be `beside` them to tmp/, durably."""
        stem = _temporary_stem()
        digest = sha1(usedforsecurity=False)
        written, index = 0, b""

        def hashed() -> Iterator[bytes]:
            nonlocal written
            last = b""
            for chunk in chunks:
                if last:
                    yield last
                digest.update(chunk)
                last, written = chunk, written + len(chunk)
            yield b"".join((last, digest.digest()))  # of a small pack, one write for all
            written += TRAILER_SIZE

        def indexed() -> Iterator[bytes]:
            nonlocal index
            index = encode_index(rows, digest.digest())
            yield index

        with self.root.child(b"tmp") as tmp:
            files = [(stem + b".pack", hashed(), "a pack"), (stem + b".idx", indexed(), "the index of a pack"), *beside]
            write_all_synced(tmp, files)
        self.register(stem, digest.digest(), written, len(index))

    def register(self, stem: bytes, checksum: bytes, size: int, index_size: int) -> None:
        """Takes note of a pack that was written."""
        self.written.append(NewPack(stem, b"pack-" + checksum.hex().encode(), size, index_size))

    def place(self) -> list[bytes]:
        """Puts every pack in place, durably, and returns their names; on failure none of them is left."""
        fresh: list[bytes] = []
        with self.root.child(b"tmp") as tmp, self.root.descend(b"objects/pack") as packs:
            try:
                for stem, name, *_ in self.written:
                    if not packs.exists(name + b".idx"):
                        fresh.append(name)
                    tmp.rename(stem + b".pack", name + b".pack", to=packs)
                    tmp.rename(stem + b".idx", name + b".idx", to=packs)
                sync(packs.fd, "the directory of packs")
            except BaseException:
                for name in fresh:
                    remove_pack(packs, name)
                raise
        names = [new.name for new in self.written]
        self.written.clear()
        return names

    def discard(self, newest: int = 0) -> None:
        """Removes what was written and not placed: so many of the newest packs, or all."""
        going = self.written[-newest:]
        if not going:
            return
        with self.root.child(b"tmp") as tmp:
            for stem, *_ in going:
                tmp.unlink(stem + b".idx", missing_ok=True)
                tmp.unlink(stem + b".pack", missing_ok=True)
        del self.written[-len(going) :]


class _BlobStream:
    """One blob on its way into a pack of its own; its id and its row are known when all of it was asked for."""

    def __init__(self, size: int, chunks: Iterable[bytes]) -> None:
        self._size, self._chunks = size, chunks
        self._crc = 0
        self.oid = b""

    def records(self) -> Iterator[bytes]:
        """Yields the bytes of the pack but for its trailer; raises ValueError if the blob does not have its size."""
        yield SIGNATURE + (1).to_bytes(4, "big")
        for part in self._record():
            self._crc = crc32(part, self._crc)
            yield part

    def _record(self) -> Iterator[bytes]:
        digest, total = sha1(b"blob %d\0" % self._size, usedforsecurity=False), 0
        deflater: Any = engine().compressobj(LEVEL)
        yield encode_header(TYPE_OF_KIND[BLOB], self._size)
        for chunk in self._chunks:
            total += len(chunk)
            if total > self._size:
                break
            digest.update(chunk)
            if deflated := deflater.compress(chunk):
                yield deflated
        if total != self._size:
            raise ValueError(f"{self._size} bytes were announced, and {total} or more came")
        yield deflater.flush()
        self.oid = digest.digest()

    def rows(self) -> Iterator[tuple[bytes, int, int]]:
        """Yields the row of the index."""
        yield self.oid, self._crc, HEADER_SIZE


class PackWriter:
    """Adds objects to a store; use it with `with`, and call `finish`."""

    hash_only = False

    def __init__(
        self,
        root: Directory,
        *,
        knows: Callable[[bytes], bool],
        finished: Callable[[list[bytes]], None],
        anew: Container[bytes] = (),
    ) -> None:
        self.relied: set[bytes] = set()
        self._placed = PlacedPacks(root)
        self._buffer = PackBuffer()
        self._offsets = self._buffer.offsets
        self._flushed: set[bytes] = set()
        self._store_knows = knows
        self._finished = finished
        self._anew = anew

    def __enter__(self) -> PackWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    @property
    def pending_bytes(self) -> int:
        """The bytes that `finish` will add to the store."""
        rows = len(self._buffer.rows)
        return self._placed.total + (self._buffer.size + ROW_SIZE * rows + _FRAME - HEADER_SIZE if rows else 0)

    def add(self, kind: bytes, data: bytes) -> bytes:
        """Adds an object, unless it is there already, and returns its id."""
        oid = hash_of(kind, data)
        self.add_hashed(oid, kind, data)
        return oid

    def add_hashed(self, oid: bytes, kind: bytes, data: bytes) -> None:
        """Adds an object whose id the caller has computed, unless it is there already."""
        if oid in self._offsets or self._known(oid):
            return
        self._append(oid, encode_header(TYPE_OF_KIND[kind], len(data)) + deflate(data))

    def add_record(self, oid: bytes, record: bytes, crc: int) -> None:
        """Adds an object as a finished record with its CRC-32, also one that another pack holds already."""
        if oid not in self._offsets:
            self._append(oid, record, crc)

    def add_delta(self, oid: bytes, base: bytes, size: int, deflated: bytes, /) -> bool:
        """Adds an object as a deflated delta of `size` bytes; returns False where its base does not wait for the same pack."""
        if oid in self._offsets or self._known(oid):
            return True
        buffer, there = self._buffer, self._offsets.get(base)
        # Room for the record and its header: a full pack would be written, and the base with it.
        if (
            there is None
            or buffer.size + len(deflated) + 64 > PACK_LIMIT - TRAILER_SIZE
            or len(buffer.rows) >= MOST_ROWS
        ):
            return False
        distance = encode_distance(buffer.size - there)
        self._append(oid, encode_header(OFS_DELTA, size) + distance + deflated)
        return True

    def add_stream(self, size: int, chunks: Iterable[bytes]) -> bytes:
        """Adds a large blob as it comes and returns its id; ValueError, and nothing remains, if its size is not `size`."""
        if size >= _STREAM_LEAST:
            blob = _BlobStream(size, chunks)
            self._placed.write(blob.rows(), blob.records())
            if blob.oid in self._offsets or self._known(blob.oid):
                self._placed.discard(1)
            self._flushed.add(blob.oid)
            return blob.oid
        data = bytearray()
        for chunk in chunks:
            data += chunk
            if len(data) > size:
                break
        if len(data) != size:
            raise ValueError(f"{size} bytes were announced, and {len(data)} or more came")
        return self.add(BLOB, bytes(data))

    def finish(self, *, beside: Iterable[NewFile] = ()) -> list[bytes]:
        """Makes everything durable and visible and returns the names of the new packs; `beside` them, files in tmp/ become durable."""
        if self._buffer.rows:
            self._flush(beside)
        elif beside:
            with self._placed.root.child(b"tmp") as tmp:
                write_all_synced(tmp, beside)
        if not self._placed.written:
            return []
        names = self._placed.place()
        self._flushed.clear()
        self._finished(names)
        return names

    def abort(self) -> None:
        """Drops what was not finished; nothing of it remains on the disk."""
        self._reset()
        # A temporary that cannot be removed now is swept by the next writer; the first error matters more.
        with suppress(OSError):
            self._placed.discard()

    def _known(self, oid: bytes) -> bool:
        if oid in self._flushed:
            return True
        if oid in self._anew or not self._store_knows(oid):
            return False
        self.relied.add(oid)
        return True

    def _append(self, oid: bytes, record: bytes, crc: int | None = None) -> None:
        buffer = self._buffer
        if buffer.size + len(record) > PACK_LIMIT - TRAILER_SIZE or len(buffer.rows) >= MOST_ROWS:
            self._flush()
        self._buffer.append(oid, record, crc)

    def _flush(self, beside: Iterable[NewFile] = ()) -> None:
        if self._buffer.rows:
            buffer = self._buffer
            self._placed.write(buffer.rows, buffer.chunks(), beside=beside)
            self._flushed.update(self._offsets)
            self._reset()

    def _reset(self) -> None:
        self._buffer = PackBuffer()
        self._offsets = self._buffer.offsets


def remove_pack(packs: Directory, name: bytes) -> None:
    """Removes a pack; its index goes first, so that no reader finds an index whose pack is gone."""
    packs.unlink(name + b".idx", missing_ok=True)
    packs.unlink(name + b".pack", missing_ok=True)
    for ending in (b".rev", b".bitmap", b".mtimes"):  # what plain git may have put beside it
        packs.unlink(name + ending, missing_ok=True)


def _temporary_stem() -> bytes:
    return b"pack-%d-%d-%s" % (os.getpid(), next(_serial), os.urandom(4).hex().encode())
