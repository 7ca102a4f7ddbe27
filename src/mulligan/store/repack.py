"""
Copy objects from old packs into new ones.

Deflated bytes are copied as they stand, after their checksum was compared, unless a save deflated them: it does that as
quickly as it can, and the bytes say so themselves (in the level that a zlib stream names at its beginning). Versions of
one path become deltas, each against the next newer, which is what is read most; a delta whose base is not at hand in the
new pack is given another base or stored whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from mulligan.gitformat.delta import encode_delta
from mulligan.gitformat.pack import IndexRow, Pack
from mulligan.gitformat.record import (
    HEADER_SIZE,
    KIND_OF_TYPE,
    OFS_DELTA,
    PACK_LIMIT,
    SIGNATURE,
    TRAILER_SIZE,
    TYPE_OF_KIND,
    DamagedRecord,
    RecordHeader,
    compress,
    crc32,
    encode_distance,
    encode_header,
    hash_of,
    parse_header,
)
from mulligan.model.objects import TREE
from mulligan.store.objects import ObjectStore, check_copy
from mulligan.store.pack_writer import PackBuffer, PlacedPacks

DEPTH = 50
# Larger objects are not worth the memory that comparing them takes.
DELTA_MOST = 16 << 20
# What stays in a pack for long is deflated as well as isal can: twice the time of a save's, a sixth smaller.
PACKED_LEVEL = 3
# How a zlib stream begins that was deflated at the quickest level.
_HURRIED = b"\x78\x01"
_LARGE_RECORD = PACK_LIMIT // 2
_CHUNK = 1 << 20


class UnreadableObject(Exception):
    """A pack holds a live object that cannot be copied; the pack must stay as it is."""

    def __init__(self, pack: Pack) -> None:
        super().__init__(pack.name)
        self.pack = pack


class ObjectSource:
    """A pack that shall go, and what of it shall stay; the rows are made when they are asked for, and not kept."""

    __slots__ = ("_stays", "count", "pack")

    def __init__(self, pack: Pack, stays: Callable[[bytes], bool]) -> None:
        self.pack = pack
        self._stays = stays
        self.count = sum(map(stays, pack.index.oids()))

    @property
    def is_whole(self) -> bool:
        """Whether everything in it stays."""
        return bool(self.count == self.pack.index.count)

    def oids(self) -> list[bytes]:
        """Returns the ids that stay, as is known by now."""
        return [oid for oid in self.pack.index.oids() if self._stays(oid)]

    def rows(self) -> list[IndexRow]:
        """Returns the rows that stay, in the order of the pack."""
        rows = self.pack.index.rows()
        return rows if self.is_whole else [row for row in rows if self._stays(row.oid)]


class _ObjectPlace(NamedTuple):
    pack: Pack
    offset: int
    crc: int


class _Rewriter:
    """Copies the objects of some packs into new ones."""

    def __init__(
        self, store: ObjectStore, placed: PlacedPacks, sources: Sequence[ObjectSource], *, deflate: bool
    ) -> None:
        self._store = store
        self._placed = placed
        self._deflate = deflate
        self._buffer = PackBuffer()
        self._depth: dict[bytes, int] = {}
        self._done: set[bytes] = set()
        self._where = {row.oid: _ObjectPlace(s.pack, row.offset, row.crc) for s in sources for row in s.rows()}
        self._names: dict[bytes, dict[int, bytes]] = {}
        self._last: tuple[bytes, bytes, bytes] | None = None

    def run(self, chains: Sequence[Sequence[bytes]]) -> None:
        """Copies chains (newest first), then the rest."""
        for chain in chains:
            newer: bytes | None = None
            head: bytes | None = None
            for oid in chain:
                self._emit(oid, (newer, head))
                if newer is None or self._depth.get(oid) != self._depth.get(newer, 0) + 1:
                    head = oid
                newer = oid
        for oid in list(self._where):
            for one in self._bases_first(oid):
                self._emit(one, ())
        self._flush()

    def _bases_first(self, oid: bytes) -> list[bytes]:
        """Returns an object and the bases it needs that are still to come, in the order in which they must be written."""
        order: list[bytes] = []
        base: bytes | None = oid
        while base is not None and base in self._where and base not in self._done and base not in order:
            order.append(base)
            place = self._where[base]
            base = self._base_name(place.pack, place.offset)
        return order[::-1]

    def _base_name(self, pack: Pack, offset: int) -> bytes | None:
        """Returns the id of the base of a record, None for a whole one."""
        try:
            header = self._store.opened(pack).header(offset)
            if header.type in KIND_OF_TYPE:
                return None
            return self._name_at(pack, pack.base_of(offset, header))
        except DamagedRecord:
            raise UnreadableObject(pack) from None

    def _name_at(self, pack: Pack, offset: int) -> bytes | None:
        names = self._names.get(pack.name)
        if names is None:  # asked of deltas alone, and most packs hold none
            names = self._names[pack.name] = {row.offset: row.oid for row in pack.index.rows()}
        return names.get(offset)

    def _emit(self, oid: bytes, bases: Sequence[bytes | None]) -> None:
        """Writes one object, as a delta if that is at hand or saves."""
        if oid in self._done:
            return
        self._done.add(oid)
        place = self._where[oid]
        try:
            length = self._store.opened(place.pack).length_of(place.offset)
            if length > _LARGE_RECORD and place.pack.header(place.offset).type in KIND_OF_TYPE:
                self._copy_large(oid, place, length)
                return
            record, depth = self._record(oid, place, bases)
        except DamagedRecord:
            raise UnreadableObject(place.pack) from None
        if self._buffer.size + len(record) > PACK_LIMIT - TRAILER_SIZE:
            self._flush()
            if depth:  # its base went with the pack that is full now
                kind, data = self._load(oid)
                record, depth = _whole(kind, data), 0
        self._buffer.append(oid, record)
        self._depth[oid] = depth

    def _flush(self) -> None:
        if self._buffer.rows:
            self._placed.write(self._buffer.rows, self._buffer.chunks())
        self._buffer = PackBuffer()
        self._depth.clear()

    # -- one record -----------------------------------------------------------------------------

    def _record(self, oid: bytes, place: _ObjectPlace, bases: Sequence[bytes | None]) -> tuple[bytes, int]:
        """
        Returns the bytes that an object shall have in the new pack, and the depth of its chain.

        `bases` are the next newer version, and the head of the run of versions it belongs to: where the chain is as deep
        as it may be, a new run starts with a delta against the head of the last one. That way 1,275 versions hang on one
        whole object, and none is deeper than 50.
        """
        record = place.pack.record(place.offset)
        if crc32(record) != place.crc:
            raise DamagedRecord("its checksum in the index is wrong")
        header = parse_header(record)
        wanted = next((base for base in bases if base is not None and self._usable(base)), None)
        if header.type in KIND_OF_TYPE:
            return self._delta(oid, wanted, len(record)) or (self._packed(oid, header, record), 0)
        present = self._base_name(place.pack, place.offset)
        reuse = present is not None and self._usable(present)
        if present is not None and reuse and (present == wanted or wanted is None or wanted != bases[0]):
            return self._delta_record(header.size, record[header.length :], present)
        made = self._delta(oid, wanted or self._ancestor(place), DELTA_MOST)
        if made is None and present is not None and reuse:
            return self._delta_record(header.size, record[header.length :], present)
        kind, data = self._load(oid)
        whole = _whole(kind, data)
        return made if made is not None and len(made[0]) < len(whole) else (whole, 0)

    def _packed(self, oid: bytes, header: RecordHeader, record: bytes) -> bytes:
        """Returns a whole record, deflated again if it was done in a hurry and that makes it smaller."""
        if not self._deflate or record[header.length : header.length + 2] != _HURRIED or header.size > DELTA_MOST:
            return record
        again = record[: header.length] + compress(self._load(oid)[1], PACKED_LEVEL)
        return min(record, again, key=len)

    def _usable(self, base: bytes) -> bool:
        return self._depth.get(base, DEPTH) < DEPTH

    def _delta_record(self, size: int, deflated: bytes, base: bytes) -> tuple[bytes, int]:
        distance = self._buffer.size - self._buffer.offsets[base]
        return encode_header(OFS_DELTA, size) + encode_distance(distance) + deflated, self._depth[base] + 1

    def _delta(self, oid: bytes, base: bytes | None, most: int) -> tuple[bytes, int] | None:
        """Returns an object as a delta against another, None unless that is smaller than `most`."""
        if base is None or not self._usable(base) or max(self._size(oid), self._size(base)) > DELTA_MOST:
            return None
        base_kind, base_data = self._load(base)
        kind, data = self._load(oid)
        if kind != base_kind:
            return None
        delta = encode_delta(base_data, data, tree=kind == TREE)
        if len(delta) >= max(len(data), 64):
            return None
        record = self._delta_record(len(delta), compress(delta, PACKED_LEVEL), base)
        return record if len(record[0]) < most else None

    def _ancestor(self, place: _ObjectPlace) -> bytes | None:
        """Returns the nearest object up a chain of deltas that is in the new pack: what lies between is dead."""
        pack, offset = place.pack, place.offset
        header = pack.header(offset)
        while header.type not in KIND_OF_TYPE:
            offset = pack.base_of(offset, header)
            name = self._name_at(pack, offset)
            if name is not None and name in self._depth:
                return name
            header = pack.header(offset)
        return None

    def _size(self, oid: bytes) -> int:
        place = self._where[oid]
        return self._store.opened(place.pack).kind_and_size(place.offset)[1]

    def _load(self, oid: bytes) -> tuple[bytes, bytes]:
        """Returns kind and bytes of an object, verified; remembers the last one, which is the next one's base."""
        if self._last is not None and self._last[0] == oid:
            return self._last[1], self._last[2]
        place = self._where[oid]
        try:
            kind, data = self._store.opened(place.pack).load_at(place.offset)
        except DamagedRecord:
            raise UnreadableObject(place.pack) from None
        if hash_of(kind, data) != oid:
            raise UnreadableObject(place.pack)
        self._last = (oid, kind, data)
        return kind, data

    def _copy_large(self, oid: bytes, place: _ObjectPlace, length: int) -> None:
        """Copies a large whole record into a pack of its own, a chunk at a time."""
        check_copy(place.pack, place.offset, oid)
        self._placed.write([(oid, place.crc, HEADER_SIZE)], _large_chunks(place, length))


def _whole(kind: bytes, data: bytes) -> bytes:
    return encode_header(TYPE_OF_KIND[kind], len(data)) + compress(data, PACKED_LEVEL)


def _large_chunks(place: _ObjectPlace, length: int) -> Iterator[bytes]:
    yield SIGNATURE + (1).to_bytes(4, "big")
    at, end, crc = place.offset, place.offset + length, 0
    while at < end:
        data = place.pack.pread(min(_CHUNK, end - at), at)
        if not data:
            raise DamagedRecord("it is cut short")
        crc, at = crc32(data, crc), at + len(data)
        yield data
    if crc != place.crc:
        raise DamagedRecord("its checksum in the index is wrong")


# -- groups of packs ----------------------------------------------------------------------------


def repack(
    store: ObjectStore,
    group: list[ObjectSource],
    begin: Callable[[], PlacedPacks],
    *,
    chains: Callable[[Iterable[bytes]], list[list[bytes]]],
    deflate: bool,
) -> tuple[PlacedPacks, list[ObjectSource]]:
    """
    Copies what stays of some packs into new ones; returns these, not in place yet, and the packs that they replace.

    A pack that holds a live object which cannot be read is left out. Records are copied as they stand unless `deflate`:
    then those shrink that a save deflated in a hurry.
    """
    while True:
        placed = begin()
        try:
            versions = chains(row.oid for source in group for row in source.rows())
            _Rewriter(store, placed, group, deflate=deflate).run(versions)
        except UnreadableObject as trouble:
            placed.discard()
            group = [source for source in group if source.pack is not trouble.pack]
            if len(group) == 1 and group[0].is_whole:
                group = []  # there is nothing left to gain
        except BaseException:
            placed.discard()
            raise
        else:
            return placed, group
