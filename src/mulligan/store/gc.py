"""
Free space: find what checkpoints need, and replace packs that hold anything else.

There is one path. `reachable` finds what is needed. `sources_of` says what each pack must keep. A plan forms groups of
packs. `repacking` copies what stays of a group into new packs, and the old packs go once those are on the disk.
There are three plans. `collect` (`gc`, and saves over the budget) takes every pack that can shrink and makes deltas.
`Reclaimer` (the watcher's idle time) takes packs of which a fifth is dead and works without the lock until a group is
ready. `merge_small` joins many small packs as they are.

Promise: at every instant every live object stands in a durable pack with its index. An interruption leaves duplicates at
worst, and the next collection removes them. A pack with a live object that cannot be read stays, for the doctor.
Room: a group fills one new pack, so about 64 MiB are needed at a time.
LIMIT: a pack that is larger than 64 MiB (none of ours is) needs room for its live objects before it can go.
LIMIT: a pack with an object that takes more than 8 MiB is left to `collect` when a watcher frees space.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from mulligan.gitformat.pack import Pack
from mulligan.gitformat.pack_index import encode_index
from mulligan.gitformat.record import PACK_LIMIT, TRAILER_SIZE, DamagedRecord
from mulligan.model.objects import COMMIT, TREE, parse_commit
from mulligan.safefs.directory import Directory
from mulligan.safefs.durable import sync
from mulligan.safefs.room import on_disk, whole_blocks
from mulligan.store.objects import ObjectStore, check_copy, damaged
from mulligan.store.pack_writer import MOST_ROWS, PlacedPacks, remove_pack
from mulligan.store.repack import ObjectSource, repacking
from mulligan.store.repository import PERMANENT
from mulligan.store.trash import settle_halves

# A tree's entries. Unsafe names count too: a restore refuses them, a collection keeps their objects.
_ENTRY = rb"(?s)(?:(4)0000|100644|100755|120000) [^\0/]+\0(.{20})"
_SETTLED_SIZE = 32 << 20
_SETTLED_COUNT = MOST_ROWS // 2
# A pack of which nothing is dead is rewritten only if that saves so much of it.
_WORTH = 0.05
# The watcher copies so many live bytes while it does not hold the lock, from packs of which one byte in so many is dead.
PORTION = 8 << 20
_DEAD_PART = 5
# The watcher can stop after so many copied objects.
_AT_A_TIME = 16

Progress = Callable[[int, int], None]
R = TypeVar("R")


# -- what is needed ----------------------------------------------------------------------------


def reachable(store: ObjectStore, roots: Iterable[bytes]) -> set[bytes]:
    """
    Returns the ids of everything that commits or trees reach, themselves included.

    Raises StoreDamaged for a tree that cannot be read: what lies below it is unknown, and must not pass for dead.
    """
    seen: set[bytes] = set()
    for root in roots:
        reach(store, root, seen)
    return seen


def reach(store: ObjectStore, root: bytes, seen: set[bytes]) -> list[bytes]:
    """Adds to `seen` what a commit or tree reaches and returns what is new; what was there before came with all below it."""
    return [oid for found in reaching(store, root, seen) for oid in found]


def reaching(store: ObjectStore, root: bytes, seen: set[bytes]) -> Iterator[list[bytes]]:
    """Does what `reach` does, tree by tree, and yields what each adds; `seen` may be believed when it has ended."""
    if root in seen:
        return
    waiting = _root_trees(store, root)
    seen.add(root)
    yield [root]
    while waiting:
        tree = waiting.pop()
        if tree in seen and tree != root:
            continue
        trees, blobs = _children(store, tree)
        new = [oid for oid in dict.fromkeys((tree, *blobs)) if oid not in seen]
        seen.update(new)
        waiting += [below for below in trees if below not in seen]
        yield new


def _root_trees(store: ObjectStore, root: bytes) -> list[bytes]:
    kind, _ = store.kind_and_size(root)
    if kind == COMMIT:
        return [parse_commit(store.read(root, COMMIT)).tree]
    return [root] if kind == TREE else []


def _children(store: ObjectStore, tree: bytes) -> tuple[list[bytes], list[bytes]]:
    """Returns the trees and the blobs that a tree names."""
    data = store.read(tree, TREE)
    trees: list[bytes] = []
    blobs: list[bytes] = []
    at = 0
    for found in re.finditer(_ENTRY, data):
        if found.start() != at:
            break
        at = found.end()
        (trees if found[1] else blobs).append(found[2])
    if at != len(data):
        raise damaged(tree, "it is not a tree that mulligan writes")
    return trees, blobs


# -- everything at once -------------------------------------------------------------------------


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
    sources, versions = sources_of(store, live), _Versions(chains, live)
    remove_packs(store, [source.pack for source in sources if not source.count])
    groups = _groups_to_rewrite(store, sources, versions)
    total, done = sum(s.pack.size for group in groups for s in group), 0
    for group in groups:
        _rewrite(store, group, versions)
        done += sum(source.pack.size for source in group)
        if progress is not None:
            progress(done, total)
    return before - store.disk_bytes()


def foretell(store: ObjectStore, live: set[bytes], *, chains: Iterable[Sequence[bytes]] = ()) -> int:
    """Returns how many bytes on the disk `collect` would free; packs the same way and keeps only the sizes."""
    sources, versions, directory = sources_of(store, live), _Versions(chains, live), store.packs_directory()
    going, coming = [source.pack for source in sources if not source.count], 0
    for group in _groups_to_rewrite(store, sources, versions):
        done = _finished(repacking(store, group, partial(_MeasuringSink, directory), chains=versions.among))
        if done is not None:
            measured, replaced, names = done
            going += [source.pack for source in replaced if source.pack.name not in names]
            coming += sum(size for name, size in measured.on_disk.items() if not directory.exists(name + b".pack"))
    return sum(on_disk(directory.stat(pack.name + end)) for pack in going for end in (b".pack", b".idx")) - coming


def _finished(work: Generator[None, None, R]) -> R:
    """Does all the work of a generator and returns its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: R = end.value
            return found


class _MeasuringSink:
    """Takes new packs and keeps only their sizes: their bytes, and by name what each would take on the disk."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.bytes = 0
        self.on_disk: dict[bytes, int] = {}

    def write(self, rows: Iterable[tuple[bytes, int, int]], chunks: Iterable[bytes]) -> bytes:
        """Returns the name that a pack would have."""
        digest, size = hashlib.sha1(usedforsecurity=False), TRAILER_SIZE
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
        index = len(encode_index(rows, digest.digest()))
        name = b"pack-" + digest.hexdigest().encode()
        self.bytes += size + index
        self.on_disk[name] = whole_blocks(size, self._directory) + whole_blocks(index, self._directory)
        return name

    def discard(self) -> None:
        """Has nothing to remove."""


# -- planning -----------------------------------------------------------------------------------


class _Versions:
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


def sources_of(store: ObjectStore, live: set[bytes]) -> list[ObjectSource]:
    """Returns what each pack must give to its successor (nothing, if nothing in it is live), the oldest first."""
    directory, keeper = store.packs_directory(), _keepers(store, live)
    sources = []
    for pack in store.packs():
        try:
            source = ObjectSource(pack, partial(_stays, pack, live, keeper))
            pack.index.offsets()
        except DamagedRecord:
            continue  # an index that contradicts itself: the doctor makes it anew
        sources.append(source)
    sources.sort(key=lambda source: (directory.stat(source.pack.name + b".pack").st_mtime_ns, source.pack.name))
    return sources


def _stays(pack: Pack, live: set[bytes], keeper: dict[bytes, Pack], oid: bytes) -> bool:
    return oid in live and keeper.get(oid, pack) is pack


def _keepers(store: ObjectStore, live: set[bytes]) -> dict[bytes, Pack]:
    """Returns, for each live object that stands in several packs, the pack that keeps it: the largest with a good copy."""
    unseen, holders = live.copy(), dict[bytes, list[Pack]]()
    packs = sorted(store.packs(), key=lambda pack: (-pack.size, pack.name))
    for pack in packs:
        oids = live.intersection(pack.index.oids())
        holders.update((oid, []) for oid in oids - unseen)
        unseen -= oids
    for pack in packs if holders else ():
        for oid in holders.keys() & pack.index.oids():
            holders[oid].append(pack)
    return {oid: next((p for p in found if _good(store, p, oid)), found[0]) for oid, found in holders.items()}


def _good(store: ObjectStore, pack: Pack, oid: bytes) -> bool:
    try:
        check_copy(store.opened(pack), pack.index.offset(pack.index.find(oid)), oid)
    except DamagedRecord:
        return False
    return True


def _groups(sources: Iterable[ObjectSource]) -> Iterator[list[ObjectSource]]:
    """Yields packs that together fill one new pack; large ones without anything dead stand alone."""
    group: list[ObjectSource] = []
    size = count = 0
    for source in sources:
        if source.is_whole and (source.pack.size >= _SETTLED_SIZE or source.count >= _SETTLED_COUNT):
            yield [source]
            continue
        estimate = _live_bytes(source)
        if group and (size + estimate > PACK_LIMIT or count + source.count > MOST_ROWS):
            yield group
            group, size, count = [], 0, 0
        group.append(source)
        size, count = size + estimate, count + source.count
    if group:
        yield group


def _groups_to_rewrite(
    store: ObjectStore, sources: Iterable[ObjectSource], versions: _Versions
) -> list[list[ObjectSource]]:
    """Returns the packs that are to be replaced, by the new pack that each group makes."""
    return [group for group in _groups(s for s in sources if s.count) if _is_worth(store, group, versions)]


def _live_bytes(source: ObjectSource) -> int:
    """Returns how many bytes of a pack stay."""
    return source.pack.size if source.is_whole else sum(_lengths(source))


def _lengths(source: ObjectSource) -> Iterator[int]:
    pack = source.pack
    return (pack.index.end_of(row.offset, pack.size) - row.offset for row in source.rows())


def _is_worth(store: ObjectStore, group: list[ObjectSource], versions: _Versions) -> bool:
    """Returns whether to rewrite a group; a lone pack without anything dead is packed on trial, without writing."""
    pack = group[0].pack
    if len(group) > 1 or not group[0].is_whole:
        return True
    if pack.size >= _SETTLED_SIZE:
        return False  # to try it would take seconds each time
    done = _finished(repacking(store, group, partial(_MeasuringSink, store.packs_directory()), chains=versions.among))
    return done is not None and done[0].bytes <= (1 - _WORTH) * (pack.size + pack.index.size)


# -- acting -------------------------------------------------------------------------------------


def _rewrite(store: ObjectStore, group: list[ObjectSource], versions: _Versions) -> None:
    """Replaces some packs by new ones; a pack that cannot be read in full stays."""
    begin = partial(PlacedPacks, store.directory)
    if (done := _finished(repacking(store, group, begin, chains=versions.among))) is not None:
        _replace(store, done[0], [source.pack for source in done[1]])


def _replace(store: ObjectStore, placed: PlacedPacks, old: Iterable[Pack]) -> list[bytes]:
    """Puts new packs in place, durably, removes the old ones, and returns the names of the new ones."""
    try:
        names = placed.place() if placed.written else []
    except BaseException:
        placed.discard()
        raise
    # A pack that came out as it went in has its old name: it must not be removed as its own predecessor.
    remove_packs(store, [pack for pack in old if pack.name not in names])
    return names


def remove_packs(store: ObjectStore, packs: Sequence[Pack]) -> None:
    """Removes packs, durably."""
    directory = store.packs_directory()
    for pack in packs:
        remove_pack(directory, pack.name)
    if packs:
        sync(directory.fd, "the directory of packs")
    store.refresh()


# -- many small packs ---------------------------------------------------------------------------


def merge_small(store: ObjectStore, *, limit_bytes: int = 8 << 20, at_least: int = 32) -> bool:
    """Joins many small packs into one of at most `limit_bytes`, records as they are; returns whether there were enough."""
    group: list[ObjectSource] = []
    seen: set[bytes] = set()
    for pack in _choose(store, limit_bytes, at_least):
        # Which of two copies is good is for `collect` to find out.
        if seen.isdisjoint(oids := pack.index.oids()):
            group.append(ObjectSource(pack, lambda _: True))
            seen.update(oids)
    if len(group) < max(at_least, 2):
        return False
    done = _finished(repacking(store, group, partial(PlacedPacks, store.directory), deflate=False))
    if done is None:
        return False
    _replace(store, done[0], [source.pack for source in done[1]])
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


# -- in idle time -------------------------------------------------------------------------------


class OutdatedPlan(Exception):
    """Another process removed packs, so what was found out without the lock no longer holds."""


class Batch:
    """Packs that may go, and copies of what stays of them, held in memory until the lock is held."""

    def __init__(self, sources: Sequence[ObjectSource]) -> None:
        self.sources = sources
        self.oids: set[bytes] = set()
        self._packs: list[tuple[list[tuple[bytes, int, int]], bytes]] = []

    def write(self, rows: Iterable[tuple[bytes, int, int]], chunks: Iterable[bytes]) -> bytes:
        """Takes copies in, as a pack that has no name yet."""
        self._packs.append((list(rows), b"".join(chunks)))
        self.oids.update(oid for oid, _, _ in self._packs[-1][0])
        return b""

    def discard(self) -> None:
        """Has nothing to remove."""

    def written(self, directory: Directory) -> PlacedPacks:
        """Returns the copies, written to tmp/ of a store."""
        placed = PlacedPacks(directory)
        try:
            for rows, data in self._packs:
                placed.write(rows, [data])
        except BaseException:
            placed.discard()
            raise
        return placed


class Reclaimer:
    """One pass over the packs of a store that reads without the lock; `live` must hold all that is needed."""

    def __init__(self, store: ObjectStore, live: set[bytes]) -> None:
        self._store = store
        self._sources = sources_of(store, live)
        self._known = {pack.name for pack in store.packs()}

    def batches(self) -> Iterator[Batch | None]:
        """Yields None wherever the caller may stop, and each batch that is ready to be placed."""
        # Packs without anything live go first: a copy may come out under the name of one that a kill left.
        if dead := [source for source in self._sources if not source.count]:
            yield Batch(dead)
        group: list[ObjectSource] = []
        size = 0
        for source in self._sources:
            yield None
            if source.count and _is_wasteful(source):
                length = _live_bytes(source)
                if group and size + length > PORTION:
                    yield from self._copied(group)
                    group, size = [], 0
                group.append(source)
                size += length
        yield from self._copied(group)

    def _copied(self, group: list[ObjectSource]) -> Generator[Batch | None, None, None]:
        work = repacking(self._store, group, partial(Batch, group))
        number = 0
        while True:
            try:
                next(work)
            except StopIteration as end:
                if end.value is not None:
                    batch, batch.sources, _ = end.value
                    yield batch
                return
            number += 1
            if number % _AT_A_TIME == 0:
                yield None

    def place(self, batch: Batch, before_removing: Callable[[], None]) -> None:
        """
        Replaces packs by their copies; the caller holds the store, and `live` knows all that is needed by now.

        A pack of which more is needed than was copied stays. Raises OutdatedPlan, with nothing changed, where another
        process removed packs: the copy that was to stay may have been in one of them.
        """
        if not self._known <= {pack.name for pack in self._store.packs()}:
            raise OutdatedPlan
        going = [source.pack for source in batch.sources if batch.oids.issuperset(source.oids())]
        if not going:
            return
        before_removing()
        names = _replace(self._store, batch.written(self._store.directory), going)
        self._known = (self._known - {pack.name for pack in going}).union(names)


def _is_wasteful(source: ObjectSource) -> bool:
    size = source.pack.size
    if source.is_whole or _DEAD_PART * (size - _live_bytes(source)) < size:
        return False
    return all(length <= PORTION for length in _lengths(source))
