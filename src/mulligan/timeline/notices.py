"""
What has to be said later: to agents about restores, to people about hooks that failed.

An agent hears at its next prompt that files were undone, restored or redone since it last looked. It hears it once, because its
next prompt is newer than the notice. Notices are bounded, and kept with the store.
A hook that fails never stops its agent, so `mulligan status` shows the failure. The store may be what failed, so failures are
in a file of their own beside the stores, one line each, bounded. `mulligan doctor` shows and removes them.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.model.bounded import read_json
from mulligan.model.event import PROMPT
from mulligan.model.policy import Settings
from mulligan.safefs.userfile import append_private_line, read_user_file, remove_user_file
from mulligan.timeline.tables import as_column

if TYPE_CHECKING:
    from mulligan.model.plan import RestoreReport
    from mulligan.timeline.database import Database

MOST = 20
#: So many paths of each kind are named.
NAMED = 10


class RestoreNotice(NamedTuple):
    """One restore, for an agent: what was typed, which prompt it undid, which files came back and which were removed."""

    verb: str
    prompt: int
    text: str
    restored: list[str]
    restored_count: int
    removed: list[str]
    removed_count: int
    left_alone: list[str] = []  # noqa: RUF012 - read only; a notice of an earlier version has none


def notice_of(verb: str, report: RestoreReport) -> RestoreNotice:
    """Returns the notice about a restore."""
    undone, restored = report.undone, [*report.created, *report.modified]
    prompt, text = (undone.prompt, undone.text) if undone is not None else (0, "")
    return RestoreNotice(
        *(verb, prompt, text, restored[:NAMED], len(restored), report.deleted[:NAMED], len(report.deleted)),
        [each.path for each in report.kept if each.failed][:NAMED],
    )


_KEY = "notices"


def add_notice(database: Database, notice: RestoreNotice, *, since_ns: int, now_ns: int) -> None:
    """Remembers a notice for the sessions that were at work since a moment; inside the caller's transaction."""
    kept = [*_notices(database), (now_ns, since_ns, notice)][-MOST:]
    database.set_meta(_KEY, json.dumps(kept))


def notices_for(database: Database, session: str) -> list[RestoreNotice]:
    """Returns what a session has not heard yet, oldest first; ask before its prompt is recorded."""
    found = _notices(database)
    if not found:
        return []
    name = as_column(session)
    asked = database.number("SELECT max(created_ns) FROM deed WHERE session=? AND kind=?", name, PROMPT)
    at_work = "SELECT 1 FROM deed WHERE session=? AND created_ns BETWEEN ? AND ? LIMIT 1"
    return [notice for at, since, notice in found if asked < at and database.row(at_work, name, since, at) is not None]


def recent_notices(database: Database) -> list[tuple[int, RestoreNotice]]:
    """Returns the newest restores that agents had to hear of, oldest first, each with its time."""
    return [(at, notice) for at, _, notice in _notices(database)]


def _notices(database: Database) -> list[tuple[int, int, RestoreNotice]]:
    text = database.meta(_KEY)
    rows = read_json(text) if text else []
    return [(at, since, RestoreNotice(*about)) for at, since, about in rows]


FAILURES_LIMIT = 64 * 1024


def _place(settings: Settings) -> tuple[str, str]:
    name = os.path.basename(settings.store.rstrip("/"))
    return os.path.join(os.path.dirname(settings.stores), "hooks"), f"{name}.jsonl"


def remember_failure(settings: Settings, *, at: str, agent: str, event: str, why: str) -> None:
    """Adds a failure; raises OSError where not even that can be written."""
    line = json.dumps({"at": at, "agent": agent, "event": event, "why": why[:500]}) + "\n"
    append_private_line(*_place(settings), line.encode("ascii"), limit=FAILURES_LIMIT)


def failures(settings: Settings) -> list[dict[str, Any]]:
    """Returns the failures since the last `forget_failures`, oldest first."""
    try:
        data = read_user_file(os.path.join(*_place(settings)), limit=2 * FAILURES_LIMIT) or b""
    except OSError:
        return []  # it is a courtesy: what cannot be read must not keep `status` from answering
    found = []
    for line in data.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # two hooks wrote while a third cut the file
        if isinstance(row, dict):
            found.append(row)
    return found


def forget_failures(settings: Settings) -> None:
    """Begins anew."""
    remove_user_file(os.path.join(*_place(settings)))
