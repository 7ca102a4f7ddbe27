"""How much disk a store takes, and how much it may take; `pruning.make_room` evicts what is over that."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from mulligan.safefs.room import disk_usage
from mulligan.scan import cache
from mulligan.timeline.database import NAME

if TYPE_CHECKING:
    from mulligan.timeline.store import Store

# What one file may take more than its bytes, and the short files and the directories of a store in all.
_BLOCK = 8 << 10
_BESIDES = 4 << 20
#: What a save writes beside its packs: the index, a ref, the timeline and its log, the scan's memory.
BESIDES_PACKS = 96 << 10
_LONG_FILES = (*(NAME.encode() + end for end in (b"", b"-wal", b"-shm")), cache.NAME, b"packed-refs")


def used_bytes(store: Store) -> int:
    """Returns the bytes that count against the budget: all that the store's directory takes on the disk, as `du` counts it."""
    return disk_usage(store.directory)


def packed_bytes(store: Store) -> int:
    """Returns the bytes of all packs."""
    return store.objects.disk_bytes()


def limit_of(store: Store) -> int:
    """Returns what the store may take: its own budget, or less where other stores leave less of the total budget."""
    own, total = store.settings.retention.budget, store.settings.retention.total_budget
    if not total:
        return own
    from mulligan.timeline.stores import used_by_stores

    return min(own, max(0, total - used_by_stores(store.settings, others=True)))


def has_room(store: Store, need: int) -> bool:
    """Returns whether a checkpoint with so many new bytes is within the budget; cheap where it is by far."""
    left = limit_of(store) - need - BESIDES_PACKS
    return _at_most(store) <= left or used_bytes(store) <= left


def _at_most(store: Store) -> int:
    """Returns no less than what the store takes on the disk, without looking at each of its files."""
    total = packed_bytes(store) + (2 * store.objects.pack_count() + store.checkpoints.ever()) * _BLOCK + _BESIDES
    for name in _LONG_FILES:
        with suppress(FileNotFoundError):
            total += store.directory.stat(name).st_size + _BLOCK
    return total
