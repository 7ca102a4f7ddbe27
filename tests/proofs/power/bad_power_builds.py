"""
Builds that lose something when the power goes: each has one fault in what it makes durable, and the cuts must find it.

A build is put into the process that works; the judge and the next command are always the real ones.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Any

from mulligan.engine import save as engine_save
from mulligan.restore import apply, stage
from mulligan.safefs import durable, platform, syscalls
from mulligan.store import refs
from mulligan.timeline.database import Database
from mulligan.timeline.store import Store


def no_fsync() -> None:
    """Nothing is ever confirmed by the disk."""
    real = Database._initialise

    def initialise(self: Any) -> None:
        real(self)
        self._connection.execute("PRAGMA synchronous=OFF")

    Database._initialise = initialise  # type: ignore[method-assign]
    syscalls.calls.fsync = lambda _: None  # type: ignore[method-assign]
    syscalls.calls.syncfs = lambda _: None  # type: ignore[method-assign]


def no_directory_fsync() -> None:
    """Files are confirmed, and their names are not; a whole file system is not either."""

    def fsync(fd: int) -> None:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            os.fsync(fd)

    syscalls.calls.fsync = fsync  # type: ignore[method-assign]
    syscalls.calls.syncfs = lambda _: None  # type: ignore[method-assign]


def refs_unsynced() -> None:
    """A ref is renamed into place with its bytes still in memory."""
    real = durable.sync

    def sync(fd: int, what: str) -> None:
        if what != "a ref":
            real(fd, what)

    durable.sync = sync
    platform.HERE.advise = lambda *_: None  # type: ignore[method-assign]


def ref_names_unsynced() -> None:
    """A save returns before the disk confirmed the name of its ref."""
    real = refs.sync

    def sync(fd: int, what: str) -> None:
        if what != "the directory of refs":
            real(fd, what)

    refs.sync = sync


def timeline_unsynced() -> None:
    """The timeline's transaction is not waited for."""
    real = Database._initialise

    def initialise(self: Any) -> None:
        real(self)
        self._connection.execute("PRAGMA synchronous=OFF")

    Database._initialise = initialise  # type: ignore[method-assign]


def acknowledges_early() -> None:
    """A save is acknowledged when its objects are written; the timeline hears of it with the next command."""
    waiting: list[tuple[Any, ...]] = []
    record, writing = engine_save.record_checkpoint, Store.writing

    def late(store: Any, entry: Any, **how: Any) -> list[Any]:
        waiting.append((store, entry, how))
        return []

    def first(self: Any, *what: Any, **how: Any) -> Any:
        while waiting:
            store, entry, options = waiting.pop()
            record(store, entry, **options)
        return writing(self, *what, **how)

    engine_save.record_checkpoint = late
    Store.writing = first  # type: ignore[method-assign]


def restores_unsynced() -> None:
    """A restore is acknowledged with its files in memory."""
    apply.Executor._sync = lambda _: None  # type: ignore[method-assign]
    stage.sync = lambda *_: None
    stage.sync_filesystem = lambda *_: None


def stages_unsynced() -> None:
    """New files take the place of the old ones with their bytes still in memory; names are synced."""
    stage.sync = lambda *_: None
    stage.sync_filesystem = lambda *_: None


BUILDS: dict[str, Callable[[], None]] = {
    "good": lambda: None,
    "no-fsync": no_fsync,
    "no-directory-fsync": no_directory_fsync,
    "refs-unsynced": refs_unsynced,
    "ref-names-unsynced": ref_names_unsynced,
    "timeline-unsynced": timeline_unsynced,
    "acknowledges-early": acknowledges_early,
    "restores-unsynced": restores_unsynced,
    "stages-unsynced": stages_unsynced,
}


def shown_by(build: str) -> tuple[str, ...]:
    """The options of `power_cut.py` under which a build shows its fault soonest."""
    # On one disk the timeline's own fsync takes the names of earlier files with it.
    return ("--apart", "1") if build == "no-directory-fsync" else ()
