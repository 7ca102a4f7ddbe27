"""
Freeing the disk space of what no checkpoint needs.

`prune` does all of it at once, `prunable` says what it would free, without writing. A `Tidier` does it for a watched workspace
in idle time, in portions that take a moment each. What is needed is found without the lock. What changes the store is handed
to the caller, who holds the lock. New checkpoints are followed again then; what only a deleted one reached stays until the
next time. An interrupted `Tidier` leaves nothing half done.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mulligan.errors import NoRoom, StoreDamaged
from mulligan.model.objects import COMMIT, parse_commit
from mulligan.model.sizes import format_size
from mulligan.safefs.room import on_disk, whole_blocks
from mulligan.scan import cache
from mulligan.store.gc import collect, merge_small, pack_refs, reach, reachable, reaching, replace, wasteful_groups
from mulligan.store.layout import PERMANENT
from mulligan.store.objects import MANY_PACKS
from mulligan.timeline.commits import Entry, remove_checkpoint
from mulligan.timeline.database import NAME, connect_to_read
from mulligan.timeline.retention import eviction_order
from mulligan.timeline.store import BESIDES_PACKS, Store

if TYPE_CHECKING:
    from mulligan.scan.scanner import Scanner
    from mulligan.store.objects import ObjectStore
    from mulligan.store.repack import ObjectSource

Progress = Callable[[int, int], None]
_MANY_REFS = 256
# What is known since the disk was last freed: how many checkpoints had gone by then, and what the packs took afterwards.
_FREED = "freed"
# By so much, and by one of so many of their bytes, packs grow before it is worth a look at what of them is needed.
_GROWN = 4 << 20
_GROWN_PART = 8


def prune(
    store: Store, *, extra: Iterable[bytes] = (), relied: Iterable[bytes] = (), progress: Progress | None = None
) -> int:
    """Frees what no checkpoint needs and packs the rest; keeps also what `extra` reaches and `relied` names; returns the bytes freed."""
    before = store.used_bytes()
    # First: after a kill below, no cache may be trusted that was made before objects went.
    store.next_epoch()
    cache.compact(store.directory, store.checkpoints.files_trees())
    live, chains = needed_objects(store, extra)
    live.update(relied)
    collect(store.objects, live, chains=chains, progress=progress)
    if store.checkpoints.count() > _MANY_REFS:
        pack_refs(store.directory)
        with store.database.transaction():
            store.checkpoints.forget_refs()  # all that there are are durable now, and in another file
    note_freed(store)
    store.database.compact()
    return max(0, before - store.used_bytes())


def needed_objects(store: Store, extra: Iterable[bytes] = ()) -> tuple[set[bytes], list[Sequence[bytes]]]:
    """Returns the objects that checkpoints and `extra` reach, and which of them are versions of one thing, oldest first."""
    from mulligan.diff.history import version_chains

    roots = [*store.checkpoints.roots().values()]
    live = reachable(store.objects, [*roots, *extra]) | PERMANENT
    trees = [parse_commit(store.objects.read(commit, COMMIT)).tree for commit in roots]
    return live, [roots, *version_chains(store.objects.read_tree, trees)]


def prunable(store: Store) -> int:
    """Returns how many bytes `prune` would free."""
    live, chains = needed_objects(store)
    freed = collect(store.objects, live, chains=chains, dry_run=True) + _freed_by_timeline(store)
    freed += cache.compact(store.directory, store.checkpoints.files_trees(), dry_run=True)
    return max(0, freed + (pack_refs(store.directory, dry_run=True) if store.checkpoints.count() > _MANY_REFS else 0))


def _freed_by_timeline(store: Store) -> int:
    """Returns what compacting the timeline would free, its log included."""
    with (
        closing(connect_to_read(os.path.join(store.path, NAME))) as here,
        closing(sqlite3.connect(":memory:")) as copy,
    ):
        here.backup(copy)
        copy.execute("VACUUM")
        pages, size = (copy.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size"))
    names = (NAME.encode(), NAME.encode() + b"-wal")
    now = sum(on_disk(store.directory.stat(name)) for name in names if store.directory.exists(name))
    return now - whole_blocks(pages * size, store.directory)


def make_room(store: Store, need: int, *, pinned: set[str], extra: Iterable[bytes]) -> list[Entry]:
    """
    Brings the store within its budget with `need` bytes to come; returns what was evicted, raises NoRoom if it cannot.

    Steps, automatic, session and old safety checkpoints go, in that order, by the bytes only they hold, and none of them
    in vain. Manual and feature checkpoints are never deleted for it: the save is refused instead.
    """
    budget, need, extra = store.limit_bytes(), need + BESIDES_PACKS, list(extra)
    if need > budget:
        raise _refusal(store, need, budget)
    relied = store.objects.relied_on()
    prune(store, extra=extra, relied=relied)
    gone: list[Entry] = []
    if store.used_bytes() + need > budget and store.database.knows_remotes():
        from mulligan.remotes.pulled import drop_copies

        if drop_copies(store.database):  # a remote has them: they go before anything of this machine's own
            prune(store, extra=extra, relied=relied)
    while (over := store.used_bytes() + need - budget) > 0:
        may_evict = not store.settings.append_only
        batch = _next_to_go(store, over, pinned=pinned, held=[*extra, *relied]) if may_evict else []
        if not batch:
            raise _refusal(store, need, budget)
        with store.database.transaction():
            for entry in batch:
                remove_checkpoint(store, entry)
        store.settle_refs()
        gone += batch
        prune(store, extra=extra, relied=relied)
    return gone


def _next_to_go(store: Store, over: int, *, pinned: set[str], held: Iterable[bytes]) -> list[Entry]:
    """Returns the fewest checkpoints, in order, whose going frees enough; none when that of all of them would not."""
    objects, order = store.objects, eviction_order(store.checkpoints.oldest(), pinned=pinned)
    going = {entry.id for entry in order}
    staying = [commit for name, commit in store.checkpoints.roots().items() if name not in going]
    seen = reachable(objects, [*staying, *held])
    # From the last to go: what only it and those before it reach is there until it goes.
    held_by = [reach(objects, entry.commit_id, seen) for entry in reversed(order)]
    rows = store.checkpoints.row_sizes()
    freed = [
        rows[entry.id] + sum(objects.packed_size(oid) for oid in oids if objects.has(oid))
        for entry, oids in zip(reversed(order), held_by, strict=True)
    ]
    if sum(freed) < over:
        return []
    batch = []
    for entry, size in zip(order, reversed(freed), strict=True):
        if over <= 0:
            break
        batch.append(entry)
        over -= size
    return batch


def _refusal(store: Store, need: int, budget: int) -> NoRoom:
    shared = budget < store.settings.retention.budget
    whose = "what other stores leave of retention.total_budget," if shared else "its budget of"
    return NoRoom(
        f"The store uses {format_size(store.used_bytes())} of {whose} {format_size(budget)} and this checkpoint needs "
        f"{format_size(need)}. It was not saved; nothing you asked to keep was deleted.",
        hint="Delete some (mulligan rm REF; mulligan gc), exclude large files, or raise "
        f"retention.{'total_budget in your config; see: mulligan stores' if shared else 'budget in your config'}",
    )


# -- in idle time -------------------------------------------------------------------------------

# So many trees are read between two moments at which the work can be left off.
_AT_A_TIME = 64


def note_freed(store: Store) -> None:
    """Remembers that the disk was freed of what no checkpoint needs."""
    with store.database.transaction():
        store.database.set_meta(_FREED, f"{store.checkpoints.gone()} {store.objects.disk_bytes()}")


def expect_waste(store: Store) -> None:
    """Says, inside a transaction, that much may not be needed any more, whatever the packs grew by."""
    store.database.set_meta(_FREED, "")


def may_be_wasteful(store: Store) -> bool:
    """
    Returns whether it may be worth it to look for what no checkpoint needs; cheap, and asked every few seconds.

    Checkpoints must have gone since the last time, and packs must have grown: once retention lets one go for each that
    comes, they grow by what is not needed any more.
    """
    gone, _, kept = store.database.meta(_FREED, "0 0").partition(" ")
    if gone == str(store.checkpoints.gone()):
        return False
    before = int(kept) if kept.isdecimal() else 0
    return store.objects.disk_bytes() - before >= max(_GROWN, before // _GROWN_PART)


class Portion(NamedTuple):
    """A portion of the work, done but for what needs the store held, if anything does."""

    act: Callable[[], None] | None = None


class Tidier:
    """Tidies one store up, a portion at a time."""

    def __init__(self, store: Store, scanner: Scanner) -> None:
        self._store, self._scanner = store, scanner
        self._objects: ObjectStore | None = None
        self._work: Iterator[Portion] | None = None
        self._owed: Portion | None = None
        # When there was nothing to join, and when freeing was last begun: until something changes, neither is tried again.
        self._joined = -1
        self._tried = (-1, -1)

    def portion(self) -> Portion | None:
        """Does a portion of what needs no lock and returns the rest of it; None when there is nothing to do."""
        if self._work is not None and self._objects is not self._store.objects:
            self._give_up()  # another store stands there, or the same was opened anew
        if self._owed is not None:
            return self._owed  # the store was in use
        if self._work is None:
            if self._is_untidy():
                return Portion(self.join)
            if not self._is_due():
                return None
            self._objects, self._work = self._store.objects, self._free()
        portion = None
        # Another process removed what was being read; or it is damaged, which the next command reports.
        with suppress(OSError, StoreDamaged):
            portion = next(self._work, None)
        if portion is None:
            self._give_up()
        elif portion.act is not None:
            self._owed = portion
        return portion

    def _give_up(self) -> None:
        self._objects = self._work = self._owed = None

    # -- joining --------------------------------------------------------------------------------

    def _is_untidy(self) -> bool:
        count = self._store.objects.pack_count()
        return count > MANY_PACKS and count != self._joined

    def join(self) -> None:
        """Joins small packs into one; the store must be held."""
        # What they hold is saved already: joining them has time until the disk has room.
        with suppress(OSError):
            merge_small(self._store.objects)
        self._joined = self._store.objects.pack_count()

    # -- freeing --------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        return may_be_wasteful(self._store) and self._state() != self._tried

    def _state(self) -> tuple[int, int]:
        return self._store.checkpoints.gone(), self._store.objects.disk_bytes()

    def _free(self) -> Iterator[Portion]:
        """Finds out what is needed, copies it out of packs that hold much else, and lets those go."""
        self._tried = self._state()
        objects, live, read = self._store.objects, set(PERMANENT), 0
        for commit in self._store.checkpoints.roots().values():
            for _ in reaching(objects, commit, live):
                read += 1
                if read % _AT_A_TIME == 0:
                    yield Portion()
        known = {pack.name for pack in objects.packs()}
        for group in wasteful_groups(objects, live):
            yield Portion(partial(self._replace, group, live, known))
        yield Portion(self._note)

    def _replace(self, group: list[ObjectSource], live: set[bytes], known: set[bytes]) -> None:
        """Replaces some packs; gives up where another process removed packs since, or there is no room: it has time."""
        self._owed, objects = None, self._store.objects
        if not known <= (there := {pack.name for pack in objects.packs()}):
            self._give_up()
            return
        try:
            for commit in self._store.checkpoints.roots().values():
                reach(objects, commit, live)
            self._begin_epoch()
            replace(objects, group)
            now = {pack.name for pack in objects.packs()}
            known.intersection_update(now)
            known.update(now - there)
        except OSError:
            self._give_up()
        except BaseException:
            self._give_up()
            raise

    def _begin_epoch(self) -> None:
        """Before objects go: whatever is remembered of them counts no more, but for what a checkpoint holds."""
        before = self._store.epoch()
        self._store.next_epoch()
        self._scanner.outlive(before, self._store.epoch(), self._store.checkpoints.holds_tree)

    def _note(self) -> None:
        self._owed = None
        note_freed(self._store)
