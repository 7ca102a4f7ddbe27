"""
Free space: find what checkpoints need, and replace packs that hold anything else.

There is one path. `reachable` finds what is needed. `sources_of` says what each pack must keep. A plan forms groups of
packs. `repack` copies what stays of a group into new packs, and the old packs go once those are on the disk.
There are three plans. `collect` (`gc`, and saves over the budget) takes every pack that can shrink and makes deltas.
`wasteful_groups` (the watcher's idle time) takes packs of which a fifth is dead, a few at a time. `merge_small` joins many
small packs. The last two copy records as they are.

Promise: at every instant every live object stands in a durable pack with its index. An interruption leaves duplicates at
worst, and the next collection removes them. A pack with a live object that cannot be read stays, for the doctor.
Room: a group fills one new pack, so about 64 MiB are needed at a time.
LIMIT: a pack that is larger than 64 MiB (none of ours is) needs room for its live objects before it can go.
LIMIT: a pack with an object that takes more than 8 MiB is left to `collect` when a watcher frees space.
Every caller that changes packs holds the store's lock.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from mulligan.gitformat.pack import Pack, encode_index
from mulligan.gitformat.record import PACK_LIMIT, TRAILER_SIZE, DamagedRecord
from mulligan.model.objects import COMMIT, TREE, parse_commit
from mulligan.safefs.directory import Directory
from mulligan.safefs.durable import sync
from mulligan.safefs.room import on_disk, whole_blocks
from mulligan.store.layout import PERMANENT
from mulligan.store.objects import ObjectStore, check_copy, damaged
from mulligan.store.pack_writer import MOST_ROWS, PlacedPacks, remove_pack
from mulligan.store.refs import HOME, PACKED, loose_refs, packed_lines, packed_refs, write_packed
from mulligan.store.repack import ObjectSource, repack
from mulligan.store.trash import settle_halves

# A tree's entries. Unsafe names count too: a restore refuses them, a collection keeps their objects.
_ENTRY = rb"(?s)(?:(4)0000|100644|100755|120000) [^\0/]+\0(.{20})"
_SETTLED_SIZE = 32 << 20
_SETTLED_COUNT = MOST_ROWS // 2
# A pack of which nothing is dead is rewritten only if that saves so much of it.
_WORTH = 0.05
# The watcher copies about so many live bytes at a time, from packs of which one byte in so many is dead.
PORTION = 8 << 20
_DEAD_PART = 5

Progress = Callable[[int, int], None]


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
    dry_run: bool = False,
) -> int:
    """
    Removes every object that is not live, gathers small packs, and returns how many bytes on the disk that freed.

    With `dry_run` everything is packed the same way, and only the sizes are kept.
    """
    if not dry_run:
        settle_halves(store.directory)
        store.refresh()
    live = live if live >= PERMANENT else live | PERMANENT  # a copy of a million ids is not made in vain
    sources, versions = sources_of(store, live), _Versions(chains, live)
    # Dead packs go first: a copy may come out under the name of one that a kill left.
    groups = [dead] if (dead := [source for source in sources if not source.count]) else []
    groups += [group for group in _groups(s for s in sources if s.count) if _is_worth(store, group, versions)]
    total, done, freed = sum(s.pack.size for group in groups for s in group), 0, 0
    for group in groups:
        freed += replace(store, group, chains=versions.among, deflate=True, dry_run=dry_run)
        done += sum(source.pack.size for source in group)
        if progress is not None:
            progress(done, total)
    return freed


def _is_worth(store: ObjectStore, group: list[ObjectSource], versions: _Versions) -> bool:
    """Returns whether to rewrite a group; a lone pack without anything dead is tried first, unless that takes seconds."""
    pack = group[0].pack
    if len(group) > 1 or not group[0].is_whole:
        return True
    return pack.size < _SETTLED_SIZE and _WORTH * pack.size < replace(
        store, group, chains=versions.among, deflate=True, dry_run=True
    )


def replace(
    store: ObjectStore,
    group: list[ObjectSource],
    *,
    chains: Callable[[Iterable[bytes]], list[list[bytes]]] = lambda _: [],
    deflate: bool = False,
    dry_run: bool = False,
) -> int:
    """Replaces packs by new ones, durably, and returns the bytes on the disk that this frees; unreadable packs stay."""
    begin = partial(_MeasuredPacks if dry_run else PlacedPacks, store.directory)
    placed, group = repack(store, group, begin, chains=chains, deflate=deflate)
    directory, names = store.packs_directory(), {new.name for new in placed.written}
    # A pack that came out as it went in has its old name: it must not be removed as its own predecessor.
    gone = [source.pack.name for source in group if source.pack.name not in names]
    freed = sum(on_disk(directory.stat(name + end)) for name in gone for end in (b".pack", b".idx"))
    fresh = [new for new in placed.written if not directory.exists(new.name + b".pack")]
    freed -= sum(whole_blocks(size, directory) for new in fresh for size in (new.size, new.index_size))
    if not dry_run:
        _swap(store, placed, gone)
    return freed


def _swap(store: ObjectStore, placed: PlacedPacks, gone: Sequence[bytes]) -> None:
    """Puts new packs in place, durably, and removes old ones by their names."""
    try:
        placed.place()
    except BaseException:
        placed.discard()
        raise
    directory = store.packs_directory()
    for name in gone:
        remove_pack(directory, name)
    if gone:
        sync(directory.fd, "the directory of packs")
    store.refresh()


class _MeasuredPacks(PlacedPacks):
    """Packs of which only the sizes are kept."""

    def write(self, rows: Iterable[tuple[bytes, int, int]], chunks: Iterable[bytes], **_: object) -> None:
        """Takes note of what a pack would be."""
        digest, size = hashlib.sha1(usedforsecurity=False), TRAILER_SIZE
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
        self.register(b"", digest.digest(), size, len(encode_index(rows, digest.digest())))

    def discard(self, newest: int = 0) -> None:
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


def _live_bytes(source: ObjectSource) -> int:
    """Returns how many bytes of a pack stay."""
    return source.pack.size if source.is_whole else sum(_lengths(source))


def _lengths(source: ObjectSource) -> Iterator[int]:
    pack = source.pack
    return (pack.index.end_of(row.offset, pack.size) - row.offset for row in source.rows())


# -- a few packs at a time ----------------------------------------------------------------------


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
    replace(store, group)
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


def wasteful_groups(store: ObjectStore, live: set[bytes]) -> Iterator[list[ObjectSource]]:
    """
    Yields packs of which much is dead, in groups for `replace`; `live` may grow in between, but must be complete by then.

    The plan holds as long as no other process removes packs: the copy that was to stay may have been in one of them.
    """
    sources = sources_of(store, live)
    # Dead packs go first: a copy may come out under the name of one that a kill left.
    if dead := [source for source in sources if not source.count]:
        yield dead
    group: list[ObjectSource] = []
    size = 0
    for source in sources:
        if source.count and _is_wasteful(source):
            length = _live_bytes(source)
            if group and size + length > PORTION:
                yield group
                group, size = [], 0
            group.append(source)
            size += length
    if group:
        yield group


def _is_wasteful(source: ObjectSource) -> bool:
    size = source.pack.size
    if source.is_whole or _DEAD_PART * (size - _live_bytes(source)) < size:
        return False
    return all(length <= PORTION for length in _lengths(source))


# -- refs ---------------------------------------------------------------------------------------


def pack_refs(directory: Directory, *, dry_run: bool = False) -> int:
    """Gathers the loose refs of checkpoints in packed-refs, durably; returns the bytes on the disk that this frees."""
    loose, _ = loose_refs(directory)
    if not loose:
        return 0
    packed = packed_refs(directory) | {HOME + b"/" + name: oid for name, oid in loose.items()}
    freed = on_disk(directory.stat(PACKED)) if directory.exists(PACKED) else 0
    with directory.descend(HOME) as refs:
        freed += sum(on_disk(refs.stat(name)) for name in loose)
        if not dry_run:
            write_packed(directory, packed)
            for name in loose:
                refs.unlink(name, missing_ok=True)
            sync(refs.fd, "the directory of refs")
    return freed - whole_blocks(sum(map(len, packed_lines(packed))), directory)
