"""
What agents must hear at their next prompt: that files were undone, restored or redone since they last looked.

Bounded, and kept with the store. A session is concerned if it was at work after the state that came back was made; it is
told once, because its next prompt is newer than the notice.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from mulligan.model.bounded import read_json
from mulligan.model.deed import PROMPT
from mulligan.timeline.seals import as_column

if TYPE_CHECKING:
    from mulligan.model.plan import RestoreReport
    from mulligan.timeline.database import Database

MOST = 20
#: So many paths of each kind are named.
NAMED = 10


class Notice(NamedTuple):
    """One restore, for an agent: what was typed, which prompt it undid, which files came back and which were removed."""

    verb: str
    prompt: int
    text: str
    restored: list[str]
    restored_count: int
    removed: list[str]
    removed_count: int


def notice_of(verb: str, report: RestoreReport) -> Notice:
    """Returns the notice about a restore."""
    undone, restored = report.undone, [*report.created, *report.modified]
    prompt, text = (undone.prompt, undone.text) if undone is not None else (0, "")
    return Notice(verb, prompt, text, restored[:NAMED], len(restored), report.deleted[:NAMED], len(report.deleted))


_KEY = "notices"


def add_notice(database: Database, notice: Notice, *, since_ns: int, now_ns: int) -> None:
    """Remembers a notice for the sessions that were at work since a moment; inside the caller's transaction."""
    kept = [*_notices(database), (now_ns, since_ns, notice)][-MOST:]
    database.set_meta(_KEY, json.dumps(kept))


def notices_for(database: Database, session: str) -> list[Notice]:
    """Returns what a session has not heard yet, oldest first; ask before its prompt is recorded."""
    found = _notices(database)
    if not found:
        return []
    name = as_column(session)
    row = database.row("SELECT max(created_ns) FROM deed WHERE session=? AND kind=?", name, PROMPT)
    asked = int(row[0] or 0) if row is not None else 0
    at_work = "SELECT 1 FROM deed WHERE session=? AND created_ns BETWEEN ? AND ? LIMIT 1"
    return [notice for at, since, notice in found if asked < at and database.row(at_work, name, since, at) is not None]


def _notices(database: Database) -> list[tuple[int, int, Notice]]:
    text = database.meta(_KEY)
    rows = read_json(text) if text else []
    return [(at, since, Notice(*about)) for at, since, about in rows]
