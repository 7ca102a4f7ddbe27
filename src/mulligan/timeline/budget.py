"""
Disk: freeing it for real, and staying within the budget.

Pruning drops objects that no checkpoint reaches and consolidates packs, with little room of its own. The budget evicts
steps, automatic, session and old safety checkpoints, in that order, by the bytes only they hold, and none of them in vain;
manual and feature checkpoints are never deleted for it: the save is refused instead.
Between two prunings, what retention let go is freed by whoever watches the workspace (`tidying`), once it may be worth it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from mulligan.errors import NoRoom
from mulligan.model.objects import COMMIT, parse_commit
from mulligan.safefs.room import disk_usage
from mulligan.scan import cache
from mulligan.store.refs import pack_refs
from mulligan.store.repository import PERMANENT
from mulligan.timeline.commits import Entry
from mulligan.timeline.database import NAME
from mulligan.timeline.retention import eviction_order
from mulligan.timeline.saving import remove
from mulligan.timeline.vault import Vault

Progress = Callable[[int, int], None]
_MANY_REFS = 256
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


def prune(
    vault: Vault, *, extra: Iterable[bytes] = (), relied: Iterable[bytes] = (), progress: Progress | None = None
) -> int:
    """Frees what no checkpoint needs and packs the rest; keeps also what `extra` reaches and `relied` names; returns the bytes freed."""
    # Every save imports this module, and few prune.
    from mulligan.store.gc import collect

    before = used(vault)
    # First of all: whoever dies below must leave nobody trusting what was remembered of the objects.
    vault.next_epoch()
    if cache.root_tree_of(vault.directory) not in vault.checkpoints.files_trees():
        cache.discard(vault.directory)
    else:
        cache.compact(vault.directory)
    live, chains = needed(vault, extra)
    live.update(relied)
    collect(vault.objects, live, chains=chains, progress=progress)
    if vault.checkpoints.count() > _MANY_REFS:
        pack_refs(vault.directory)
        with vault.database.transaction():
            vault.checkpoints.forget_refs()  # all that there are are durable now, and in another file
    note_freed(vault)
    vault.database.compact()
    return max(0, before - used(vault))


def needed(vault: Vault, extra: Iterable[bytes] = ()) -> tuple[set[bytes], list[Sequence[bytes]]]:
    """Returns the objects that checkpoints and `extra` reach, and which of them are versions of one thing, oldest first."""
    from mulligan.diff.history import version_chains
    from mulligan.store.gc import reachable

    roots = [*vault.checkpoints.roots().values()]
    live = reachable(vault.objects, [*roots, *extra]) | PERMANENT
    trees = [parse_commit(vault.objects.read(commit, COMMIT)).tree for commit in roots]
    return live, [roots, *version_chains(vault.objects.read_tree, trees)]


def note_freed(vault: Vault) -> None:
    """Remembers that the disk was freed of what no checkpoint needs."""
    with vault.database.transaction():
        vault.database.set_meta(_FREED, f"{vault.checkpoints.gone()} {packed(vault)}")


def expect_waste(vault: Vault) -> None:
    """Says, inside a transaction, that much may not be needed any more, whatever the packs grew by."""
    vault.database.set_meta(_FREED, "")


def may_be_wasteful(vault: Vault) -> bool:
    """
    Returns whether it may be worth it to look for what no checkpoint needs; cheap, and asked every few seconds.

    Checkpoints must have gone since the last time, and packs must have grown: once retention lets one go for each that
    comes, they grow by what is not needed any more.
    """
    gone, _, kept = vault.database.meta(_FREED, "0 0").partition(" ")
    if gone == str(vault.checkpoints.gone()):
        return False
    before = int(kept) if kept.isdecimal() else 0
    return packed(vault) - before >= max(_GROWN, before // _GROWN_PART)


def prunable(vault: Vault) -> int:
    """Returns how many bytes `prune` would free."""
    from mulligan.timeline import forecast

    freed = forecast.of_packs(vault) + forecast.of_memory(vault) + forecast.of_timeline(vault)
    return max(0, freed + (forecast.of_refs(vault) if vault.checkpoints.count() > _MANY_REFS else 0))


def used(vault: Vault) -> int:
    """Returns the bytes that count against the budget: all that the store's directory takes on the disk, as `du` counts it."""
    return disk_usage(vault.directory)


def packed(vault: Vault) -> int:
    """Returns the bytes of all packs."""
    return vault.objects.disk_bytes()


def has_room(vault: Vault, need: int) -> bool:
    """Returns whether a checkpoint with so many new bytes is within the budget; cheap where it is by far."""
    left = vault.settings.retention.budget - need - _BESIDES_PACKS
    return _at_most(vault) <= left or used(vault) <= left


def _at_most(vault: Vault) -> int:
    """Returns no less than what the store takes on the disk, without looking at each of its files."""
    total = packed(vault) + (2 * vault.objects.pack_count() + vault.checkpoints.ever()) * _BLOCK + _BESIDES
    for name in _LONG_FILES:
        with suppress(FileNotFoundError):
            total += vault.directory.stat(name).st_size + _BLOCK
    return total


def make_room(vault: Vault, need: int, *, pinned: set[str], extra: Iterable[bytes]) -> list[Entry]:
    """Brings the store within its budget with `need` bytes to come; returns what was evicted, raises NoRoom if it cannot."""
    budget, need, extra = vault.settings.retention.budget, need + _BESIDES_PACKS, list(extra)
    if need > budget:
        raise _refusal(vault, need)
    relied = vault.objects.relied_on()
    prune(vault, extra=extra, relied=relied)
    gone: list[Entry] = []
    while (over := used(vault) + need - budget) > 0:
        may_evict = not vault.settings.append_only
        batch = _next_to_go(vault, over, pinned=pinned, held=[*extra, *relied]) if may_evict else []
        if not batch:
            raise _refusal(vault, need)
        with vault.database.transaction():
            for entry in batch:
                remove(vault, entry)
        vault.settle()
        gone += batch
        prune(vault, extra=extra, relied=relied)
    return gone


def _next_to_go(vault: Vault, over: int, *, pinned: set[str], held: Iterable[bytes]) -> list[Entry]:
    """Returns the fewest checkpoints, in order, whose going frees enough; none when that of all of them would not."""
    from mulligan.store.gc import reach, reachable

    store, order = vault.objects, eviction_order(vault.checkpoints.oldest(), pinned=pinned)
    going = {entry.id for entry in order}
    staying = [commit for name, commit in vault.checkpoints.roots().items() if name not in going]
    seen = reachable(store, [*staying, *held])
    # From the last to go: what only it and those before it reach is there until it goes.
    held_by = [reach(store, entry.commit_id, seen) for entry in reversed(order)]
    rows = vault.checkpoints.row_sizes()
    freed = [
        rows[entry.id] + sum(store.packed_size(oid) for oid in oids if store.has(oid))
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


def _refusal(vault: Vault, need: int) -> NoRoom:
    from mulligan.model.sizes import format_size

    budget = vault.settings.retention.budget
    return NoRoom(
        f"The store uses {format_size(used(vault))} of its budget of {format_size(budget)} and this checkpoint needs "
        f"{format_size(need)}. It was not saved; nothing you asked to keep was deleted.",
        hint="Delete some (mulligan rm REF; mulligan gc), exclude large files, or raise retention.budget in your config",
    )
