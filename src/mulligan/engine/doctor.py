"""Checks and repairs a store, and takes over the history of a project that moved."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mulligan.doctor import repair
from mulligan.doctor.check import CheckReport, DoctorReport, check, look, lost_objects
from mulligan.engine.workbench import Workbench
from mulligan.errors import UserError


def check_store(bench: Workbench, progress: Callable[[int, int], None] | None) -> CheckReport:
    """Reads every byte of the store and returns what is wrong with it. Changes nothing."""
    with bench.reading() as store:
        if store is None:
            return CheckReport()
        found = check(store, progress or bench.counted("checking"))
        if not store.database.knows_remotes():
            return found
        from mulligan.remotes.records import RemoteRecords

        return replace(found, only_remote=len(RemoteRecords(store).pulled().only_remote()))


def repair_store(bench: Workbench) -> DoctorReport:
    """Ends what was interrupted and repairs what can be repaired."""
    with bench.mutex:
        if not os.path.isdir(bench.settings.store):
            return DoctorReport()
        repaired = repair.repair(bench.store)
        bench.scanner.forget()
        with bench.writing("doctor") as store:
            repaired += repair.mend_damaged_indexes(store) + repair.mend_refs(store) + _heal_objects(bench)
            repaired += repair.retire_damaged(store)
            problems = look(store).problems
        if bench.last_recovery:
            repaired.insert(0, bench.last_recovery)
        return DoctorReport(problems, repaired)


def _heal_objects(bench: Workbench) -> list[str]:
    """Brings back objects that were lost: what the workspace still holds, and what the timeline says of checkpoints."""
    store = bench.store
    lost = lost_objects(store)
    if not lost:
        return []
    with store.objects.writer(anew=lost) as writer:
        there = repair.derived_objects(store) | bench.look(writer, fresh=True).scan.objects
        for oid in lost & there.keys():
            writer.add_hashed(oid, *there[oid])
        writer.finish()
    healed = len(lost) - len(lost_objects(store))
    return [f"Took {healed} lost objects from the workspace and the timeline."] if healed else []


def adopt(bench: Workbench, old: str | os.PathLike[str]) -> dict[str, Any]:
    """Takes over the history of a project that moved here from `old` (its former directory, or its store)."""
    from mulligan.timeline.adopt import adopt

    with bench.mutex:
        if bench.store.exists():
            # Finishes an interrupted restore first; a store that an interrupted adoption left here is not ours yet.
            with suppress(UserError), bench.writing("adopt"):
                pass
        bench.close()
        moved = adopt(bench.settings, os.fspath(old))
        with bench.writing("adopt") as store, store.database.transaction():
            store.record_workspace()
        return {"store": bench.settings.store, "workspace": bench.settings.workspace, **moved}


def recognise(bench: Workbench) -> None:
    """Says that the directory that stands here is this history's project, although it was made in another one."""
    with bench.writing("settle", needed=True):
        bench.root.recognise()
