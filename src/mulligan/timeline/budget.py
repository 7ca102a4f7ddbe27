"""
Staying within the disk budget.

The budget evicts steps, automatic, session and old safety checkpoints, in that order, by the bytes only they hold, and none of
them in vain. Manual and feature checkpoints are never deleted for it: the save is refused instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from mulligan.errors import NoRoom
from mulligan.safefs.room import disk_usage
from mulligan.scan import cache
from mulligan.timeline.commits import Entry
from mulligan.timeline.database import NAME
from mulligan.timeline.drafts import remove_checkpoint

if TYPE_CHECKING:
    from mulligan.timeline.store import Store

# What is known since the disk was last freed: how many checkpoints had gone by then, and what the packs took afterwards.
_FREED = "freed"
# By so much, and by one of so many of their bytes, packs grow before it is worth a look at what of them is needed.
_GROWN = 4 << 20
_GROWN_PART = 8
# What one file may take more than its bytes, and the short files and the directories of a store in all.
_BLOCK = 8 << 10
_BESIDES = 4 << 20
# What a save writes beside its packs: the index, a ref, the timeline and its log, the scan's memory.
_BESIDES_PACKS = 96 << 10
_LONG_FILES = (*(NAME.encode() + end for end in (b"", b"-wal", b"-shm")), cache.NAME, b"packed-refs")


def note_freed(store: Store) -> None:
    """Remembers that the disk was freed of what no checkpoint needs."""
    with store.database.transaction():
        store.database.set_meta(_FREED, f"{store.checkpoints.gone()} {packed_bytes(store)}")


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
    return packed_bytes(store) - before >= max(_GROWN, before // _GROWN_PART)


def used_bytes(store: Store) -> int:
    """Returns the bytes that count against the budget: all that the store's directory takes on the disk, as `du` counts it."""
    return disk_usage(store.directory)


def packed_bytes(store: Store) -> int:
    """Returns the bytes of all packs."""
    return store.objects.disk_bytes()


def has_room(store: Store, need: int) -> bool:
    """Returns whether a checkpoint with so many new bytes is within the budget; cheap where it is by far."""
    left = store.settings.retention.budget - need - _BESIDES_PACKS
    return _at_most(store) <= left or used_bytes(store) <= left


def _at_most(store: Store) -> int:
    """Returns no less than what the store takes on the disk, without looking at each of its files."""
    total = packed_bytes(store) + (2 * store.objects.pack_count() + store.checkpoints.ever()) * _BLOCK + _BESIDES
    for name in _LONG_FILES:
        with suppress(FileNotFoundError):
            total += store.directory.stat(name).st_size + _BLOCK
    return total


def make_room(store: Store, need: int, *, pinned: set[str], extra: Iterable[bytes]) -> list[Entry]:
    """Brings the store within its budget with `need` bytes to come; returns what was evicted, raises NoRoom if it cannot."""
    budget, need, extra = store.settings.retention.budget, need + _BESIDES_PACKS, list(extra)
    if need > budget:
        raise _refusal(store, need)
    from mulligan.timeline.pruning import prune

    relied = store.objects.relied_on()
    prune(store, extra=extra, relied=relied)
    gone: list[Entry] = []
    if used_bytes(store) + need > budget and store.database.knows_remotes():
        from mulligan.remotes.pulled import drop_copies

        if drop_copies(store.database):  # a remote has them: they go before anything of this machine's own
            prune(store, extra=extra, relied=relied)
    while (over := used_bytes(store) + need - budget) > 0:
        may_evict = not store.settings.append_only
        batch = _next_to_go(store, over, pinned=pinned, held=[*extra, *relied]) if may_evict else []
        if not batch:
            raise _refusal(store, need)
        with store.database.transaction():
            for entry in batch:
                remove_checkpoint(store, entry)
        store.settle_refs()
        gone += batch
        prune(store, extra=extra, relied=relied)
    return gone


def _next_to_go(store: Store, over: int, *, pinned: set[str], held: Iterable[bytes]) -> list[Entry]:
    """Returns the fewest checkpoints, in order, whose going frees enough; none when that of all of them would not."""
    from mulligan.store.gc import reach, reachable
    from mulligan.timeline.retention import eviction_order

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


def _refusal(store: Store, need: int) -> NoRoom:
    from mulligan.model.sizes import format_size

    budget = store.settings.retention.budget
    return NoRoom(
        f"The store uses {format_size(used_bytes(store))} of its budget of {format_size(budget)} and this checkpoint needs "
        f"{format_size(need)}. It was not saved; nothing you asked to keep was deleted.",
        hint="Delete some (mulligan rm REF; mulligan gc), exclude large files, or raise retention.budget in your config",
    )
