"""
Freeing what nothing needs, and keeping the packs few.

Promise: at every instant every live object stands in a durable pack with its index; an old pack goes only after the new
one is on the disk; so an interruption leaves duplicates at worst, and the next collection removes them. Room: packs are
rewritten in groups of one new pack, so that no more than about 64 MiB is needed at a time.
LIMIT: a pack that is larger than 64 MiB (none of ours is) needs room for its live objects before it can go.
A pack that holds a live object which cannot be read is left as it is, for the doctor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mulligan.gitformat.delta import encode_delta
from mulligan.gitformat.pack import Pack
from mulligan.gitformat.pack_index import IndexRow, encode_index
from mulligan.gitformat.record import (
    HEADER_SIZE,
    KIND_OF_TYPE,
    PACK_LIMIT,
    SIGNATURE,
    TRAILER_SIZE,
    Damaged,
    compress,
)
from mulligan.safefs.directory import Directory
from mulligan.safefs.durable import sync
from mulligan.safefs.usage import on_disk, whole_blocks
from mulligan.store.objects import ObjectStore, check_copy
from mulligan.store.pack_writer import MOST_ROWS, PlacedPacks, remove_pack
from mulligan.store.repository import PERMANENT
from mulligan.store.rewrite import (
    DELTA_MOST,
    PACKED_LEVEL,
    Rewriter,
    Source,
    Unreadable,
    deflated_again,
    is_hurried,
)
from mulligan.store.sweep import settle_halves

_SETTLED_SIZE = 32 << 20
_SETTLED_COUNT = MOST_ROWS // 2
# A pack is rewritten for better deltas alone only if they save so much of it.
_WORTH = 0.05
_SAMPLES = 8
_RECORDS = 32

Progress = Callable[[int, int], None]
if TYPE_CHECKING:
    from typing import TypeVar

    P = TypeVar("P", "PlacedPacks", "_Measured")


def collect(
    store: ObjectStore,
    live: set[bytes],
    *,
    chains: Iterable[Sequence[bytes]] = (),
    progress: Progress | None = None,
) -> int:
    """Removes every object that is not live, gathers small packs, and returns how many bytes that freed."""
    before = store.disk_bytes()
    settle_halves(store.directory)
    store.refresh()
    live = live if live >= PERMANENT else live | PERMANENT  # a copy of a million ids is not made in vain
    sources, order = sources_of(store, live), _Chains(chains, live)
    remove_packs(store, [source.pack for source in sources if not source.count])
    groups = _groups_to_rewrite(store, sources, order)
    total, done = sum(s.pack.size for group in groups for s in group), 0
    for group in groups:
        _rewrite(store, group, order)
        done += sum(source.pack.size for source in group)
        if progress is not None:
            progress(done, total)
    return before - store.disk_bytes()


def foretell(store: ObjectStore, live: set[bytes], *, chains: Iterable[Sequence[bytes]] = ()) -> int:
    """Returns how many bytes on the disk `collect` would free; packs all the same, and keeps nothing but the sizes."""
    sources, order, directory = sources_of(store, live), _Chains(chains, live), store.packs_directory()
    going, coming = [source.pack for source in sources if not source.count], 0
    for group in _groups_to_rewrite(store, sources, order):
        if (done := _repacked(store, group, order, partial(_Measured, directory))) is not None:
            measured, group_done, names = done
            going += [source.pack for source in group_done if source.pack.name not in names]
            coming += sum(size for name, size in measured.sizes.items() if not directory.exists(name + b".pack"))
    return sum(on_disk(directory.stat(pack.name + end)) for pack in going for end in (b".pack", b".idx")) - coming


class _Measured:
    """Takes new packs as `PlacedPacks` does, and keeps what they would take on the disk."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.sizes: dict[bytes, int] = {}

    def write(self, rows: Iterable[tuple[bytes, int, int]], chunks: Iterable[bytes]) -> bytes:
        """Returns the name that a pack would have."""
        digest, size = hashlib.sha1(usedforsecurity=False), TRAILER_SIZE
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
        index = len(encode_index(rows, digest.digest()))
        name = b"pack-" + digest.hexdigest().encode()
        self.sizes[name] = whole_blocks(size, self._directory) + whole_blocks(index, self._directory)
        return name

    def discard(self) -> None:
        """Has nothing to remove."""


# -- planning -----------------------------------------------------------------------------------


class _Chains:
    """Which object is a version of what: the chain it belongs to, and its place in it."""

    def __init__(self, chains: Iterable[Sequence[bytes]], live: set[bytes]) -> None:
        self._position: dict[bytes, tuple[int, int]] = {}
        for number, chain in enumerate(chains):
            for place, oid in enumerate(chain):
                if oid in live and self._position.get(oid, (number, 0))[0] == number:
                    self._position[oid] = (number, place)

    def among(self, oids: Iterable[bytes]) -> list[list[bytes]]:
        """Returns the chains that some objects form, each the newest first."""
        position = self._position
        found = sorted((number, -place, oid) for oid in oids if oid in position for number, place in (position[oid],))
        chains: dict[int, list[bytes]] = {}
        for number, _, oid in found:
            chains.setdefault(number, []).append(oid)
        return [chain for chain in chains.values() if len(chain) > 1]


def sources_of(store: ObjectStore, live: set[bytes]) -> list[Source]:
    """Returns what each pack must give to its successor (nothing, if nothing in it is live), the oldest first."""
    directory = store.packs_directory()
    packs = sorted(store.packs(), key=lambda pack: (-pack.size, pack.name))
    keeper = _keepers(store, packs, live)
    sources = []
    for pack in packs:
        try:
            source = Source(pack, partial(_stays, pack, live, keeper))
            pack.index.offsets()
        except Damaged:
            continue  # an index that contradicts itself: the doctor makes it anew
        sources.append(source)
    sources.sort(key=lambda source: (directory.stat(source.pack.name + b".pack").st_mtime_ns, source.pack.name))
    return sources


def _stays(pack: Pack, live: set[bytes], keeper: dict[bytes, Pack], oid: bytes) -> bool:
    return oid in live and keeper.get(oid, pack) is pack


def _keepers(store: ObjectStore, packs: Sequence[Pack], live: set[bytes]) -> dict[bytes, Pack]:
    """Returns, of each live object that stands in several packs, the one that keeps it."""
    unseen = live.copy()
    several: set[bytes] = set()
    for pack in packs:
        oids = live.intersection(pack.index.oids())
        several |= oids - unseen
        unseen -= oids
    keeper: dict[bytes, Pack] = {}
    for pack in packs if several else ():
        for oid in several.intersection(pack.index.oids()):
            other = keeper.setdefault(oid, pack)
            if other is not pack and not _good(store, other, oid) and _good(store, pack, oid):
                keeper[oid] = pack
    return keeper


def _good(store: ObjectStore, pack: Pack, oid: bytes) -> bool:
    try:
        check_copy(store.opened(pack), pack.index.offset(pack.index.find(oid)), oid)
    except Damaged:
        return False
    return True


def _groups(sources: Iterable[Source]) -> Iterator[list[Source]]:
    """Yields packs that together fill one new pack; large ones without anything dead stand alone."""
    group: list[Source] = []
    size = count = 0
    for source in sources:
        if source.is_whole and (source.pack.size >= _SETTLED_SIZE or source.count >= _SETTLED_COUNT):
            yield [source]
            continue
        estimate = live_bytes(source)
        if group and (size + estimate > PACK_LIMIT or count + source.count > MOST_ROWS):
            yield group
            group, size, count = [], 0, 0
        group.append(source)
        size, count = size + estimate, count + source.count
    if group:
        yield group


def _groups_to_rewrite(store: ObjectStore, sources: Iterable[Source], order: _Chains) -> list[list[Source]]:
    """Returns the packs that are to be replaced, by the new pack that each group makes."""
    return [group for group in _groups(s for s in sources if s.count) if _worthwhile(store, group, order)]


def live_bytes(source: Source) -> int:
    """Returns how many bytes of a pack stay."""
    if source.is_whole:
        return source.pack.size
    return sum(source.pack.index.end_of(row.offset, source.pack.size) - row.offset for row in source.rows())


def _worthwhile(store: ObjectStore, group: Sequence[Source], order: _Chains) -> bool:
    if len(group) > 1 or not group[0].is_whole:
        return True
    source = group[0]
    gain = _gain(store, source, order)
    if source.pack.size < _SETTLED_SIZE:  # a larger one is not deflated again: that takes seconds, and a save may wait
        gain += _slack(store, source)
    return gain >= _WORTH * source.pack.size


def _gain(store: ObjectStore, source: Source, order: _Chains) -> float:
    """Returns about how many bytes deltas would save, judged by trying a few of the pairs that are both whole."""
    pack = store.opened(source.pack)
    offsets = {row.oid: row.offset for row in source.rows()}
    pairs: list[tuple[int, int]] = []
    try:
        for chain in order.among(offsets):
            whole = [pack.header(offsets[oid]).type in KIND_OF_TYPE for oid in chain]
            pairs += [
                (offsets[chain[at]], offsets[chain[at + 1]])
                for at in range(len(chain) - 1)
                if whole[at] and whole[at + 1]
            ]
        tried = pairs[:: max(1, len(pairs) // _SAMPLES)]
        saved = sum(_saving(pack, newer, older) for newer, older in tried)
    except Damaged:
        return 0  # then it must stay as it is
    return saved * len(pairs) / len(tried) if tried else 0


def _slack(store: ObjectStore, source: Source) -> float:
    """Returns about how many bytes better deflating would save, judged by trying it on a few records."""
    pack, rows = store.opened(source.pack), source.rows()
    size = saved = 0
    try:
        for row in rows[:: max(1, len(rows) // _RECORDS)]:
            header = pack.header(row.offset)
            if header.type in KIND_OF_TYPE and header.size <= DELTA_MOST:
                record = pack.record(row.offset)
                size += len(record)
                if is_hurried(header, record):
                    saved += len(record) - len(deflated_again(header, record, pack.load_at(row.offset)[1]))
    except Damaged:
        return 0  # then it must stay as it is
    return saved / size * pack.size if size else 0


def _saving(pack: Pack, newer: int, older: int) -> int:
    if max(pack.header(newer).size, pack.header(older).size) > DELTA_MOST:
        return 0
    delta = compress(encode_delta(pack.load_at(newer)[1], pack.load_at(older)[1]), PACKED_LEVEL)
    return max(0, pack.length_of(older) - len(delta))


# -- acting -------------------------------------------------------------------------------------


def _rewrite(store: ObjectStore, group: list[Source], order: _Chains) -> None:
    """Replaces some packs by new ones; a pack that cannot be read in full is left out and stays."""
    done = _repacked(store, group, order, partial(PlacedPacks, store.directory))
    if done is None:
        return
    placed, group, names = done
    try:
        placed.place()
    except BaseException:
        placed.discard()
        raise
    # A pack that came out as it went in has its old name: it must not be removed as its own predecessor.
    remove_packs(store, [source.pack for source in group if source.pack.name not in names])


def _repacked(
    store: ObjectStore, group: list[Source], order: _Chains, begin: Callable[[], P]
) -> tuple[P, list[Source], list[bytes]] | None:
    """Writes the objects of some packs into new ones; returns those, and of which packs they hold all that stays."""
    while group:
        placed = begin()
        try:
            chains = order.among(row.oid for source in group for row in source.rows())
            return placed, group, Rewriter(store, placed.write, group).run(chains)
        except Unreadable as trouble:
            placed.discard()
            group = [source for source in group if source.pack is not trouble.pack]
            if len(group) == 1 and group[0].is_whole:
                return None
        except BaseException:
            placed.discard()
            raise
    return None


def remove_packs(store: ObjectStore, packs: Sequence[Pack]) -> None:
    """Removes packs, durably."""
    directory = store.packs_directory()
    for pack in packs:
        remove_pack(directory, pack.name)
    if packs:
        sync(directory.fd, "the directory of packs")
    store.refresh()


# -- merging ------------------------------------------------------------------------------------


def merge_small(store: ObjectStore, *, limit_bytes: int = 8 << 20, at_least: int = 32) -> bool:
    """Joins many small packs into one of at most `limit_bytes`, byte for byte; returns whether there were enough."""
    chosen = _choose(store, limit_bytes, at_least)
    bodies: list[bytes] = []
    rows: list[IndexRow] = []
    merged: list[Pack] = []
    seen: set[bytes] = set()
    at = HEADER_SIZE
    for pack in chosen:
        body = _body(store, pack)
        oids = pack.index.oids()
        if body is None or not seen.isdisjoint(oids):
            continue
        rows += [IndexRow(row.oid, row.crc, row.offset - HEADER_SIZE + at) for row in pack.index.rows()]
        seen.update(oids)
        bodies.append(body)
        merged.append(pack)
        at += len(body)
    if len(merged) < max(at_least, 2):
        return False
    placed = PlacedPacks(store.directory)
    try:
        placed.write(rows, [SIGNATURE + len(rows).to_bytes(4, "big"), *bodies])
        names = placed.place()
    except BaseException:
        placed.discard()
        raise
    remove_packs(store, [pack for pack in merged if pack.name not in names])
    return True


def _choose(store: ObjectStore, limit_bytes: int, at_least: int) -> list[Pack]:
    """Returns the smallest packs, without those so large that copying them again and again would be the main cost."""
    packs = sorted(store.packs(), key=lambda pack: (pack.size, pack.name))
    chosen: list[Pack] = []
    total = 0
    for pack in packs:
        if total + pack.size > limit_bytes or (len(chosen) >= at_least and pack.size > 2 * total):
            break
        chosen.append(pack)
        total += pack.size
    return chosen if len(chosen) >= at_least else []


def _body(store: ObjectStore, pack: Pack) -> bytes | None:
    """Returns the records of a pack as one piece, None when they are not what they were written as."""
    try:
        data = store.opened(pack).pread(pack.size, 0)
    except Damaged:
        return None
    checksum = data[-TRAILER_SIZE:]
    right = hashlib.sha1(data[:-TRAILER_SIZE], usedforsecurity=False).digest() == checksum == pack.index.pack_checksum
    return data[HEADER_SIZE:-TRAILER_SIZE] if right else None
