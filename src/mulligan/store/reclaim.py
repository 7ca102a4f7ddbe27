"""
Freeing what nothing needs a little at a time, while others save, restore and read.

What takes long, reading and deflating, is done without the store's lock and can be left off after every few objects; the
copies wait in memory. Only `place` needs the store held, for as long as writing 8 MiB takes. It believes nothing that was
found out before without asking again: where somebody else removed packs it gives up, and a pack of which more is needed by then stays.

Promise: that of `collect`; room: 8 MiB, and of a pack that is larger than that, what of it was copied before it can go.
LIMIT: a pack with an object that takes more than 8 MiB is left to `collect`, and so is one of which less than a fifth is dead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from mulligan.gitformat.pack import Pack
from mulligan.gitformat.record import PACK_LIMIT
from mulligan.safefs.directory import Directory
from mulligan.store.collect import live_bytes, remove_packs, sources_of
from mulligan.store.objects import ObjectStore
from mulligan.store.pack_writer import PlacedPacks
from mulligan.store.rewrite import Rewriter, Source, Unreadable

PORTION = 8 << 20
# A pack is copied when at least one of so many of its bytes is dead.
_WORTH = 5
# So many objects are copied between two moments at which the work can be left off.
_AT_A_TIME = 16


class Outdated(Exception):
    """What was found out without the lock does not hold any more: somebody else removed packs."""


class Batch:
    """What is copied at a time: ids by pack, the packs that may go afterwards, and the copies, which wait in memory."""

    def __init__(self) -> None:
        self.wanted: dict[bytes, tuple[Pack, set[bytes]]] = {}
        self.ending: list[Source] = []
        self.live = self.freed = 0
        self._packs: list[tuple[list[tuple[bytes, int, int]], bytes]] = []

    def take(self, pack: Pack, oid: bytes, length: int) -> None:
        """Adds an object that is to be copied."""
        self.wanted.setdefault(pack.name, (pack, set()))[1].add(oid)
        self.live += length

    def end(self, source: Source) -> None:
        """Adds a pack of which nothing more is to be copied."""
        self.ending.append(source)
        self.freed += source.pack.size

    def oids(self) -> set[bytes]:
        """Returns what is copied."""
        return {oid for _, oids in self.wanted.values() for oid in oids}

    def hold(self, rows: Iterable[tuple[bytes, int, int]], chunks: Iterable[bytes]) -> bytes:
        """Takes copies in, as a pack; it has no name yet."""
        self._packs.append((list(rows), b"".join(chunks)))
        return b""

    def place(self, directory: Directory) -> list[bytes]:
        """Writes the copies to a store and puts them in place, durably; on failure nothing of them is left."""
        placed = PlacedPacks(directory)
        try:
            for rows, data in self._packs:
                placed.write(rows, [data])
            return placed.place()
        except BaseException:
            placed.discard()
            raise


class Reclaiming:
    """One walk over the packs of a store, with what of them is needed; `live` must hold all that the needed reaches."""

    def __init__(self, store: ObjectStore, live: set[bytes]) -> None:
        self._store, self._live = store, live
        self._copied: set[bytes] = set()
        self._made: set[bytes] = set()
        self._sources = sources_of(store, live)
        self._known = {pack.name for pack in store.packs()}

    def batches(self) -> Iterator[Batch | None]:
        """Yields None whenever the work may be left off, and each batch that is ready to be placed."""
        for batch in self._drawn():
            if batch is None:
                yield None
                continue
            sources = [Source(pack, oids.__contains__) for pack, oids in batch.wanted.values()]
            try:
                for number, _ in enumerate(Rewriter(self._store, batch.hold, sources).steps(())):
                    if number % _AT_A_TIME == 0:
                        yield None
            except Unreadable:
                continue  # these packs stay as they are, for the doctor
            yield batch

    def _drawn(self) -> Iterator[Batch | None]:
        """Yields what to copy at a time, of a large pack a part, and None after each pack that was looked at."""
        batch = Batch()
        for source in self._sources:
            yield None
            if not _is_worth(source):
                continue
            pack = source.pack
            for row in source.rows():
                length = pack.index.end_of(row.offset, pack.size) - row.offset
                if batch.live and batch.live + length > PORTION:
                    yield batch
                    batch = Batch()
                batch.take(pack, row.oid, length)
            batch.end(source)
            if batch.freed > PACK_LIMIT:
                yield batch
                batch = Batch()
        if batch.ending:
            yield batch

    def place(self, batch: Batch, before_removing: Callable[[], None]) -> None:
        """
        Puts copies in place and removes the packs that are not needed any more; the store must be held.

        `live` must know all that is needed by now. Raises Outdated, with nothing changed, where others removed packs.
        """
        if not self._known <= {pack.name for pack in self._store.packs()}:
            raise Outdated
        here, before = batch.oids(), self._copied
        # What became needed again since it was passed over keeps its pack, and so does what could not be read.
        going = [s.pack for s in batch.ending if all(oid in here or oid in before for oid in s.oids())]
        if going:
            before_removing()
        names = batch.place(self._store.directory)
        # What an interrupted walk left may be, byte for byte, what was just made: it is nobody's predecessor any more.
        self._made.update(names)
        going = [pack for pack in going if pack.name not in self._made]
        remove_packs(self._store, going)
        self._known = (self._known - {pack.name for pack in going}).union(names)
        self._copied |= here


def _is_worth(source: Source) -> bool:
    pack = source.pack
    if not source.count:
        return True
    if source.is_whole or _WORTH * (pack.size - live_bytes(source)) < pack.size:
        return False
    return all(pack.index.end_of(row.offset, pack.size) - row.offset <= PORTION for row in source.rows())
