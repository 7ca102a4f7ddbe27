"""
What `gc` would free, to the byte where the disk keeps whole blocks: everything that it does, done without keeping it.

Packs are made and only measured, the timeline is compacted in memory. Nothing is written, so a full disk is no obstacle.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from mulligan.safefs.room import on_disk, whole_blocks
from mulligan.scan import cache
from mulligan.store.gc import foretell
from mulligan.store.refs import foretell_packing
from mulligan.timeline.budget import needed
from mulligan.timeline.database import NAME, connect_to_read
from mulligan.timeline.vault import Vault


def of_packs(vault: Vault) -> int:
    """Returns what dropping objects that no checkpoint needs, and packing the others, would free."""
    live, chains = needed(vault)
    return foretell(vault.objects, live, chains=chains)


def of_memory(vault: Vault) -> int:
    """Returns what writing the scan's memory anew would free."""
    keep = cache.root_tree_of(vault.directory) in vault.checkpoints.files_trees()
    return cache.foretell_compacting(vault.directory, keep=keep)


def of_refs(vault: Vault) -> int:
    """Returns what gathering the refs in one file would free."""
    return foretell_packing(vault.directory)


def of_timeline(vault: Vault) -> int:
    """Returns what compacting the timeline would free, its log included."""
    with (
        closing(connect_to_read(os.path.join(vault.path, NAME))) as here,
        closing(sqlite3.connect(":memory:")) as copy,
    ):
        here.backup(copy)
        copy.execute("VACUUM")
        pages, size = (copy.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size"))
    names = (NAME.encode(), NAME.encode() + b"-wal")
    now = sum(on_disk(vault.directory.stat(name)) for name in names if vault.directory.exists(name))
    return now - whole_blocks(pages * size, vault.directory)
