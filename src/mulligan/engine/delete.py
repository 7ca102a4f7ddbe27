"""Takes from history: single checkpoints, old ones, what no checkpoint needs, a path. The workspace is not touched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mulligan.engine.save import pinned_ids
from mulligan.engine.workbench import Workbench
from mulligan.errors import UserError
from mulligan.model.checkpoint import Checkpoint
from mulligan.model.paths import parse_path
from mulligan.timeline.commits import remove_checkpoint
from mulligan.timeline.pruning import expect_waste

if TYPE_CHECKING:
    from mulligan.doctor.forget import ForgetReport


def _refuse_taking(bench: Workbench) -> None:
    if bench.settings.append_only:
        raise UserError("This workspace was opened to add to history, never to take from it. Nothing was deleted.")


def delete(bench: Workbench, ref: str | Checkpoint) -> Checkpoint:
    """Deletes a checkpoint; its disk is freed by the next `prune`."""
    _refuse_taking(bench)
    with bench.writing("delete", needed=True) as store:
        entry = store.checkpoints.resolve(ref)
        with store.database.transaction():
            remove_checkpoint(store, entry)
            expect_waste(store)
        store.settle_refs()
    bench.emit("deleted", entry.checkpoint)
    return entry.checkpoint


def trim(bench: Workbench, keep: int, match: Mapping[str, Any]) -> list[Checkpoint]:
    """Deletes all but the newest `keep` checkpoints with these metadata, except what is in use; returns what went."""
    _refuse_taking(bench)
    if keep < 0 or not match:
        raise UserError("trim keeps a number from 0 on, of the checkpoints that match something. Nothing was deleted.")
    with bench.writing("trim", needed=True) as store:
        with store.database.transaction():
            found = [entry for entry in store.checkpoints.newest() if entry.checkpoint.has(match)]
            used = pinned_ids(store) | store.needed()
            gone = [entry for entry in found[keep:] if entry.id not in used]
            for entry in gone:
                remove_checkpoint(store, entry)
            expect_waste(store)
        store.settle_refs()
    for entry in gone:
        bench.emit("pruned", entry.checkpoint)
    return [entry.checkpoint for entry in gone]


def prune(bench: Workbench, *, dry_run: bool) -> int:
    """Frees the disk that no checkpoint needs and packs the rest; returns the bytes freed."""
    from mulligan.timeline import pruning

    with bench.reading() as store:
        if store is None or dry_run:
            return pruning.prunable(store) if store is not None else 0
    with bench.writing("gc") as store:
        freed = pruning.prune(store, progress=bench.counted("packing"))
    bench.emit("pruned", freed)
    return freed


def forget(bench: Workbench, path: str | os.PathLike[str]) -> ForgetReport:
    """Removes a path from every checkpoint, provably."""
    from mulligan.doctor.forget import forget

    _refuse_taking(bench)
    wanted = parse_path(path)
    if not wanted:
        raise UserError("The whole workspace cannot be forgotten. Nothing was changed.", hint="mulligan stores --purge")
    with bench.writing("forget", needed=True) as store:
        report = forget(store, wanted)
    bench.emit("pruned", report.freed_bytes)
    return report
