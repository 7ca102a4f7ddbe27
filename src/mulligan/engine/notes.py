"""Values that the store keeps beside the checkpoints: notes of programs, and state that is still owed to providers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mulligan.engine.save import keep_now
from mulligan.engine.workbench import Workbench
from mulligan.model.bounded import read_json
from mulligan.timeline import journal
from mulligan.timeline.undo import Move


def note(bench: Workbench, key: str, default: Any) -> Any:
    """Returns a value that `update_note` keeps."""
    with bench.reading() as store:
        text = store.database.meta(f"note:{key}") if store is not None else ""
    return read_json(text) if text else default


def update_note(bench: Workbench, key: str, change: Callable[[Any], Any]) -> Any:
    """Puts what `change` makes of a note (None before the first) in its place, in one step; returns the new value."""
    with bench.writing("note", create=True) as store, store.database.transaction():
        text = store.database.meta(f"note:{key}")
        changed = change(read_json(text) if text else None)
        store.database.set_meta(f"note:{key}", json.dumps(changed, allow_nan=False))
    return changed


def state_owed(bench: Workbench, *, forgive: bool = False) -> str | None:
    """Returns the checkpoint whose files came back and whose state did not; with `forgive`, the state is dropped."""
    with bench.reading() as store:
        unknown = store is not None and store.database.row("SELECT 1 FROM journal") is not None
    if unknown:
        with bench.writing("settle"):
            pass
    with bench.reading() as store:
        owed = journal.state_owed(store.database) if store is not None else ""
    if owed and forgive:
        with bench.writing("settle") as store:
            journal.state_given(store.database)
    return owed or None


def settle_state(bench: Workbench) -> bool:
    """Hands owed state to the registered providers, if the files are where that restore left them; returns whether it did."""
    if state_owed(bench) is None:
        return False
    with bench.writing("settle") as store:
        owed = journal.state_owed(store.database)
        entry = store.checkpoints.by_id(owed)
        if entry is None or store.checkpoints.position() != owed:
            journal.state_given(store.database)
            return False
        staged = bench.stage_state(entry.checkpoint.state)
        if not _is_kept(bench):
            safety = keep_now(bench, f"before the state of {entry.checkpoint.name or entry.checkpoint.short_id}")
            with store.database.transaction():
                store.moves.push(Move(safety, "state"), Move(owed, "state"))
        for make_current in staged:
            make_current()
        journal.state_given(store.database)
        return True


def _is_kept(bench: Workbench) -> bool:
    """Returns whether a state that undo or redo leads to holds what the providers have now."""
    store = bench.store
    held, near = bench.capture_state(), [*store.moves.down(2), *store.moves.redoable()[:1]]
    entries = (store.checkpoints.by_id(move.id) for move in near if move.what != "files")
    return any(entry is not None and entry.checkpoint.state == held for entry in entries)
