"""
What agents did on other machines: how a segment carries their events, and how a store keeps those that it was told.

Each segment's events are one value of the store's own, so a pull writes what is new. A segment that comes twice replaces itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mulligan.model.bounded import read_json
from mulligan.model.event import AgentEvent, RecordedEvent

if TYPE_CHECKING:
    from mulligan.remotes.protocol import Segment
    from mulligan.timeline.database import Database
    from mulligan.timeline.store import Store

#: As many events as a timeline keeps of its own agents.
MOST_EVENTS = 10_000
#: The events of one push take at most so many bytes in a segment; the oldest are left out.
_ROOM = 8 << 20
_LONGEST, _LONGEST_TEXT = 200, 4000
_LAST_MOMENT, _LAST_NUMBER = 1 << 63, 10**9
_KIND, _CHECKPOINT = r"[a-z]{1,20}", r"[0-9A-Za-z_-]{4,64}|"
_KEPT = "remotes:events:"
# More values than this are joined into one.
_MOST_VALUES = 100


def to_row(each: RecordedEvent) -> dict[str, Any]:
    """Returns the JSON form of an event in a segment; what is empty is left out."""
    event = each.event
    said = {
        "at": each.created_ns, "session": event.session, "kind": event.kind, "prompt": each.prompt, "number": each.number,
        "agent": event.agent[:_LONGEST], "tool": event.tool[:_LONGEST], "text": event.text[:_LONGEST_TEXT],
        "subagent": event.subagent[:_LONGEST], "automatic": not event.person, "checkpoint": each.checkpoint,
        "saved": each.saved,
    }  # fmt: skip
    return {key: value for key, value in said.items() if value}


def read_event(row: Any) -> RecordedEvent:
    """Returns the event that a row of a segment tells of; raises ValueError where it tells of none."""
    if not isinstance(row, dict):
        raise ValueError("an event is no object")  # noqa: TRY004 - a stranger sent it
    session = _text(row, "session")
    if not session.isprintable():
        raise ValueError("a session has no name")
    kind, checkpoint = _text(row, "kind"), _text(row, "checkpoint")
    if not re.fullmatch(_KIND, kind) or not re.fullmatch(_CHECKPOINT, checkpoint):
        raise ValueError("an event has no kind or no checkpoint")
    event = AgentEvent(
        _text(row, "agent"), session, kind, tool=_text(row, "tool"), text=_text(row, "text", _LONGEST_TEXT),
        subagent=_text(row, "subagent"), person=row.get("automatic") is not True,
    )  # fmt: skip
    at, prompt, number = _number(row, "at", _LAST_MOMENT), _number(row, "prompt"), _number(row, "number")
    return RecordedEvent(0, at, event, prompt, number, checkpoint, row.get("saved") is True)


def _text(row: dict[str, Any], key: str, longest: int = _LONGEST) -> str:
    value = row.get(key, "")
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError(f"the {key} of an event is no text of at most {longest} characters")
    return value


def _number(row: dict[str, Any], key: str, end: int = _LAST_NUMBER) -> int:
    value = row.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < end:
        raise ValueError(f"the {key} of an event is no number")
    return value


def new_events(store: Store, since: int) -> tuple[int, tuple[RecordedEvent, ...]]:
    """Returns the number of the last event here, and the events after a number, oldest first."""
    last = store.events.last()
    if last is None:
        return 0, ()
    # A timeline that was rebuilt counts anew: then all are told again, and readers know which they have.
    found, left = [], _ROOM
    for each in store.events.after(since if since <= last.seq else 0, MOST_EVENTS):
        session = each.event.session
        if not session.isprintable() or len(session) > _LONGEST:
            continue
        left -= len(json.dumps(to_row(each)))
        if left < 0:
            break
        found.append(each)
    return last.seq, tuple(reversed(found))


def keep_events(database: Database, machine: str, segments: Iterable[Segment]) -> None:
    """Keeps what a machine told of its agents (inside a transaction); a full segment replaces all before it."""
    for segment in segments:
        if segment.full:
            _drop(database, machine)
        if segment.events:
            _put(database, machine, segment.number, segment.events)
    rows = _values(database, machine)
    if len(rows) > _MOST_VALUES:
        joined = events_of(database, machine)
        last = int(rows[-1]["key"].rpartition(":")[2])
        _drop(database, machine)
        _put(database, machine, last, joined)


def _put(database: Database, machine: str, number: int, events: Iterable[RecordedEvent]) -> None:
    database.set_meta(f"{_KEPT}{machine}:{number:015d}", json.dumps([to_row(each) for each in events]))


def _values(database: Database, machine: str) -> list[Any]:
    prefix = f"{_KEPT}{machine}:"
    return database.select("meta", "WHERE key>=? AND key<? ORDER BY key", prefix, prefix + "~")


def _drop(database: Database, machine: str) -> None:
    prefix = f"{_KEPT}{machine}:"
    database.run("DELETE FROM meta WHERE key>=? AND key<?", prefix, prefix + "~")


def events_of(database: Database, machine: str) -> list[RecordedEvent]:
    """Returns what a machine told of its agents, oldest first."""
    rows = [row for value in _values(database, machine) for row in read_json(value["value"])]
    return in_order(map(read_event, rows))


def in_order(told: Iterable[RecordedEvent]) -> list[RecordedEvent]:
    """Returns events numbered as they were told, each once; a push that was interrupted tells some of them again."""
    once: dict[tuple[object, ...], RecordedEvent] = {}
    for each in told:
        once.setdefault((each.created_ns, each.event.session, each.event.kind, each.prompt, each.number), each)
    return [each._replace(seq=seq) for seq, each in enumerate([*once.values()][-MOST_EVENTS:], 1)]
