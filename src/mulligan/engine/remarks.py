"""What every command remarks beside its answer: a restore that has not ended, and hooks that are gone."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from mulligan.engine.workbench import Workbench
from mulligan.model.bounded import read_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mulligan.timeline.store import Store

_HOOKS = "hooks"
_LARGEST = 4 << 20


def pending(bench: Workbench) -> dict[str, Any] | None:
    """Returns a restore that runs in another `process`, or was interrupted (`process` None); None if there is none."""
    with bench.reading() as store:
        if store is None or store.database.row("SELECT 1 FROM journal") is None:
            return None
        from mulligan.safefs.lock import holder
        from mulligan.timeline.journal import read_journal

        process, journal = holder(store.directory), read_journal(store.database)
    if journal is None:
        return None
    said = {"target": journal.target, "phase": journal.phase, "total": len(journal.actions), "token": journal.token}
    return {**said, "process": process or None}


def expect_hooks(bench: Workbench, agent: str, files: Sequence[str]) -> None:
    """Remembers the files of the workspace that hold an agent's hooks, so that it is noticed when they vanish."""
    with bench.reading() as store:
        known = _known_hooks(store)
    if known.get(agent, []) == list(files) or store is None:
        return
    with bench.writing("hook"), store.database.transaction():
        kept = {name: named for name, named in known.items() if name != agent}
        store.database.set_meta(_HOOKS, json.dumps({**kept, agent: list(files)} if files else kept))


def missing_hooks(bench: Workbench) -> list[tuple[str, str]]:
    """Returns the agents whose hooks stood in a file of this workspace and do not any more, with that file."""
    with bench.reading() as store:
        known = _known_hooks(store)
    gone = [(agent, [file for file in files if not _holds_hooks(bench, file)]) for agent, files in known.items()]
    return [(agent, missing[0]) for agent, missing in gone if missing]


def _holds_hooks(bench: Workbench, file: str) -> bool:
    from mulligan.safefs.userfile import read_user_file

    try:
        path = os.path.join(bench.settings.workspace, file)
        return b"mulligan" in (read_user_file(path, limit=_LARGEST) or b"")
    except OSError:
        return False


def _known_hooks(store: Store | None) -> dict[str, list[str]]:
    text = store.database.meta(_HOOKS) if store is not None else ""
    found = read_json(text) if text else {}
    return found if isinstance(found, dict) else {}
