"""
What agents did: which prompt, which tool, and the checkpoint that holds the workspace of that moment.

An event is remembered also when nothing changed and no checkpoint was needed, so that `@prompt-2` and `@tool-17` always mean
something. Numbers count from 1 in each session. Old events are removed; the checkpoints carry their cause themselves.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from mulligan.errors import UnknownCheckpoint
from mulligan.model.cause import CAUSE
from mulligan.model.event import (
    BEFORE,
    DELEGATING,
    ENDED,
    GIT,
    GOING_ON,
    IN_BETWEEN,
    PROMPT,
    STOP,
    AgentEvent,
    RecordedEvent,
    Turn,
)
from mulligan.safefs.processes import has_ended
from mulligan.timeline.database import Database
from mulligan.timeline.tables import as_column, from_column

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

MOST = 10_000
_SESSIONS = 8
_SAVED = 20
_SHORT = 8
_RUNNING = 100
#: A command that was never seen to end is taken for dead after so long: clients end their commands after ten minutes.
LONGEST_COMMAND_NS = 600_000_000_000
_REF = r"@(?:([^/\s]+)/)?(after-)?(prompt|tool)-(\d{1,9})\Z"
_BEFORE = "@before:"
_KEPT = (
    "agent", "tool", "text", "paths", "subagent", "transcript", "at", "pending", "person", "named", "exact", "processes",
)  # fmt: skip


def is_reference(text: str) -> bool:
    """Returns whether a text means a moment of an agent's session: `@prompt-2`, `@tool-17`, `@before:words`."""
    return text.startswith(_BEFORE) or re.match(_REF, text) is not None


class EventPlace(NamedTuple):
    """
    Where an event belongs: its prompt and tool numbers, and whose the changes are that are found with it.

    `beside` are the commands of others that run at that moment: what is found changed may be theirs. `foreign` are paths that
    no agent changed.
    """

    prompt: int
    number: int
    by: str
    turn: Turn | None
    beside: tuple[RecordedEvent, ...] = ()
    again: bool = False
    foreign: tuple[str, ...] = ()

    def without(self, paths: tuple[str, ...]) -> EventPlace:
        """Returns the same, with paths that no agent changed although they changed now."""
        return self._replace(foreign=(*self.foreign, *paths))

    def cause(self, event: AgentEvent) -> dict[str, object]:
        """Returns what a checkpoint says about why it was made."""
        said: dict[str, object] = {
            "agent": event.agent,
            "session": event.session,
            "when": event.kind,
            "prompt": self.prompt,
            "tool": self.number,
            "name": event.tool,
            "input": event.text,
            "by": self.by,
            "turn": list(self.turn) if self.turn else None,
            "transcript": {"path": event.transcript, "at": event.at} if event.transcript else None,
        }
        more: dict[str, object] = {"subagent": event.subagent, "claimed": dict.fromkeys(self.foreign, "")}
        if self.beside:
            more["beside"] = [_command(each) for each in self.beside]
            more |= {"names": [*event.paths, *event.named], "exact": event.exact}
        return {CAUSE: {**said, **{key: value for key, value in more.items() if value}}}


def _command(each: RecordedEvent) -> dict[str, object]:
    """Returns what a checkpoint keeps of a command of another agent that ran when it was made."""
    event = each.event
    return {
        "session": event.session,
        "prompt": each.prompt,
        "names": [*event.paths, *event.named],
        "exact": event.exact,
        "began": each.created_ns,
    }


class AgentEvents:
    """The rows of the table; every change happens inside the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database

    # -- adding ---------------------------------------------------------------------------------

    def place(self, event: AgentEvent, now_ns: int) -> EventPlace:
        """Returns where an event belongs that happens now."""
        prompt = self._last(event.session, "prompt")
        known = self._same(event)
        if known is not None:
            prompt, number = known.prompt, known.number
        elif event.kind == PROMPT:
            prompt, number = prompt + int(event.person), 0
        elif event.kind == BEFORE:
            number = self._last(event.session, "number") + 1
        elif event.kind in ENDED:
            opened = self._opened(event)
            number = opened.number if opened is not None else self._last(event.session, "number") + 1
            prompt = opened.prompt if opened is not None else prompt
        else:
            number = 0
        return self._attributed(event, prompt, number, self.running(now_ns), again=known is not None)

    def _attributed(
        self, event: AgentEvent, prompt: int, number: int, running: list[RecordedEvent], *, again: bool
    ) -> EventPlace:
        """Decides whose the changes are that are found now: of the tool that ended, else of the one other that runs."""
        beside = tuple(each for each in running if each.event.session != event.session)
        owners = {(each.event.session, each.prompt) for each in beside}
        # Git's hooks change nothing themselves: what they find is the work of the command that called git.
        is_told = event.kind in (*ENDED, *IN_BETWEEN, STOP) and not (event.agent == GIT and owners)
        if is_told or (event.kind == BEFORE and _is_busy(event, running)):
            return EventPlace(prompt, number, event.session, _turn(event.session, prompt), beside, again)
        left = self._left_running(event.session)
        if left is not None:
            # What the last turn left in the background is still its work.
            return EventPlace(prompt, number, event.session, _turn(event.session, left.prompt), beside, again)
        if len(owners) == 1:
            session, prompt_there = next(iter(owners))
            return EventPlace(prompt, number, session, _turn(session, prompt_there), (), again)
        return EventPlace(
            prompt, number, "", _turn(event.session, prompt) if event.kind == BEFORE else None, beside, again
        )

    def add(self, event: AgentEvent, place: EventPlace, checkpoint: str, *, saved: bool, now_ns: int) -> None:
        """Remembers an event; the same one, told twice, is remembered once."""
        if place.again:
            return
        if event.kind in (*ENDED, BEFORE):
            self._close("session=? AND number=? AND kind=? AND open=1", as_column(event.session), place.number, BEFORE)
        elif event.kind not in IN_BETWEEN:
            self._close("session=? AND open=1", as_column(event.session))
        about = {name: value for name in _KEPT if (value := getattr(event, name)) or name in {"agent", "person"}}
        self._db.insert(
            "deed", None, now_ns, as_column(event.session), event.kind, place.prompt, place.number, as_column(event.call),
            int(event.kind == BEFORE), json.dumps(about), checkpoint, int(saved),
        )  # fmt: skip
        self._db.run("DELETE FROM deed WHERE seq <= (SELECT max(seq) FROM deed) - ?", MOST)
        self.end_calls_of_the_dead()

    def end_calls_of_the_dead(self) -> None:
        """Ends the tool calls of agents whose process has ended: what changes from now on is not their work."""
        for session in {each.event.session for each in self.running()}:
            last = [each.event.processes for each in self.newest(2, session)]
            if len(last) == 2 and has_ended(*last):
                self._close("session=? AND open=1", as_column(session))

    def _close(self, where: str, *values: object) -> None:
        for row in self._db.select("deed", f"WHERE {where}", *values):
            self._db.update("deed", "seq=?", row["seq"], open=0)

    def _last(self, session: str, column: str) -> int:
        return self._db.number(f"SELECT max({column}) FROM deed WHERE session=?", as_column(session))

    def _same(self, event: AgentEvent) -> RecordedEvent | None:
        """Returns the row of an event that another installed hook has told already."""
        if not event.call:
            return None
        where = "WHERE session=? AND kind=? AND call=? ORDER BY seq DESC LIMIT 1"
        return self._one(where, as_column(event.session), event.kind, as_column(event.call))

    def _opened(self, event: AgentEvent) -> RecordedEvent | None:
        """Returns the beginning of a tool call that ends now: by its id, else the newest that looks the same."""
        open_here = self._select(
            "WHERE session=? AND kind=? AND open=1 ORDER BY seq DESC LIMIT 100", as_column(event.session), BEFORE
        )
        if event.call:
            return next((each for each in open_here if each.event.call == event.call), None)
        return next(
            (each for each in open_here if (each.event.tool, each.event.text) == (event.tool, event.text)), None
        )

    # -- asking ---------------------------------------------------------------------------------

    def running(self, now_ns: int | None = None) -> list[RecordedEvent]:
        """
        Returns the tool calls that have begun and not ended, oldest first: no more than can be at work at a time.

        With the time that it is now, without those whose agent was not heard of for longer than a command can take.
        """
        # An agent that was killed never ends its calls; those of a year of such agents are not read with every hook.
        found = self._select("WHERE open=1 ORDER BY seq DESC LIMIT ?", _RUNNING)[::-1]
        if now_ns is None:
            return found
        return [each for each in found if now_ns - self._heard_at(each) < LONGEST_COMMAND_NS]

    def _heard_at(self, each: RecordedEvent) -> int:
        last = self.last(each.event.session)
        return last.created_ns if last is not None else each.created_ns

    def _left_running(self, session: str) -> RecordedEvent | None:
        last = self.last(session)
        return last if last is not None and last.event.kind == STOP and last.event.pending else None

    def last(self, session: str | None = None) -> RecordedEvent | None:
        """Returns the newest event, of one session or of all."""
        return next(iter(self.newest(1, session)), None)

    def saved_at(self, event: AgentEvent) -> int:
        """Returns where a transcript stood at the last checkpoint of its session; a subagent may have one of its own."""
        found = self._select(f"WHERE session=? AND saved=1 ORDER BY seq DESC LIMIT {_SAVED}", as_column(event.session))
        return next((each.event.at for each in found if each.event.transcript == event.transcript), 0)

    def is_open(self, turn: Turn) -> bool:
        """Returns whether a turn was never seen to end: its agent is at work, or was cut off."""
        last = self.last(turn.session)
        if last is None or last.prompt != turn.prompt:
            return False
        return last.event.kind in GOING_ON or (last.event.kind == STOP and last.event.pending > 0)

    def begun(self, turn: Turn) -> RecordedEvent | None:
        """Returns the prompt that a turn is for."""
        return self._numbered(turn.session, "prompt", turn.prompt, after=False)

    def newest(self, limit: int | None = None, session: str | None = None) -> list[RecordedEvent]:
        """Returns events, newest first."""
        where, values = ("WHERE session=? ", [as_column(session)]) if session is not None else ("", [])
        return self._select(f"{where}ORDER BY seq DESC LIMIT ?", *values, -1 if limit is None else limit)

    def after(self, seq: int, limit: int) -> list[RecordedEvent]:
        """Returns the events after a row, newest first."""
        return self._select("WHERE seq>? ORDER BY seq DESC LIMIT ?", seq, limit)

    def since(self, seq: int) -> list[RecordedEvent]:
        """Returns all events of the prompts that something happened for after a row, and of the prompt before, newest first."""
        rows = self._db.rows("SELECT session, min(prompt) FROM deed WHERE seq>? GROUP BY session", seq)
        parts = [self._select("WHERE session=? AND prompt>=?", session, prompt - 1) for session, prompt in rows]
        return sorted((each for part in parts for each in part), key=lambda each: -each.seq)

    def around(self, checkpoints: Iterable[str]) -> list[RecordedEvent]:
        """Returns all events of the prompts that some checkpoints were made for, and of each session's last prompt."""
        found = "SELECT DISTINCT session, prompt FROM deed WHERE checkpoint IN (SELECT value FROM json_each(?))"
        turns = {(row[0], row[1]) for row in self._db.rows(found, json.dumps(list(checkpoints)))}
        for session in {session for session, _ in turns}:
            turns |= {
                (session, row[0]) for row in self._db.rows("SELECT max(prompt) FROM deed WHERE session=?", session)
            }
        return [each for turn in turns for each in self._select("WHERE session=? AND prompt=?", *turn)]

    def turns(self) -> list[Turn]:
        """Returns the prompts, the one last heard of first."""
        rows = self._db.rows(
            "SELECT session, prompt FROM deed WHERE prompt+number>0 GROUP BY 1, 2 ORDER BY max(seq) DESC"
        )
        return [Turn(from_column(row[0]), row[1]) for row in rows]

    def starts(self) -> set[str]:
        """Returns the checkpoints at which the newest prompts began, of the sessions heard of last: a turn may be long."""
        rows = self._db.rows(
            "SELECT checkpoint FROM deed WHERE seq IN "
            "(SELECT max(seq) FROM deed WHERE kind=? AND prompt>0 GROUP BY session ORDER BY 1 DESC LIMIT ?)",
            PROMPT,
            _SESSIONS,
        )
        return {row[0] for row in rows}

    def heard(self) -> list[RecordedEvent]:
        """Returns the newest event of each agent."""
        rows = self._db.rows("SELECT json_extract(about, '$.agent'), max(seq) FROM deed GROUP BY 1 ORDER BY 2 DESC")
        return [self._select("WHERE seq=?", row[1])[0] for row in rows]

    def short_names(self) -> dict[str, str]:
        """Returns the beginning of each session's id that no other session has, at least eight characters of it."""
        rows = self._db.rows("SELECT DISTINCT session FROM deed ORDER BY 1")
        return short_names(from_column(row[0]) for row in rows)

    def session(self, beginning: str) -> str:
        """Returns the session whose id begins so; raises UnknownCheckpoint when none or several do."""
        rows = self._db.rows("SELECT session, max(seq) FROM deed GROUP BY session ORDER BY 2")
        names = [from_column(row[0]) for row in rows]
        found = [name for name in names if name == beginning] or [name for name in names if name.startswith(beginning)]
        if len(found) == 1:
            return found[0]
        what = "No session begins" if not found else "Several sessions begin"
        raise UnknownCheckpoint(
            f"{what} with {beginning!r}. Nothing was changed.", hint="See the sessions: mulligan log --story"
        )

    def find(self, ref: str) -> RecordedEvent | None:
        """Returns the event that `@prompt-2`, `@after-tool-17`, `@SESSION/tool-3` or `@before:some words` means, None for other text."""
        if ref.startswith(_BEFORE):
            return self._mentioning(ref.removeprefix(_BEFORE))
        match = re.match(_REF, ref)
        if match is None:
            return None
        whose, after, what, number = match[1], bool(match[2]), match[3], int(match[4])
        found = self._numbered(self.session(whose) if whose else self._newest_session(), what, number, after=after)
        if found is None:
            raise UnknownCheckpoint(
                f"There is no {'end of ' if after else ''}{what} {number} in the newest session that anything is known of."
                if not whose
                else f"There is no {what} {number} in session {whose}.",
                hint="See prompts and tools: mulligan log --story",
            )
        return found

    def _newest_session(self) -> str:
        last = self.last()
        return last.event.session if last is not None else ""

    def _numbered(self, session: str, what: str, number: int, *, after: bool) -> RecordedEvent | None:
        column, kinds, last = _sought(what, after=after)
        marks = ", ".join("?" * len(kinds))
        tail = f"ORDER BY seq {'DESC ' if last else ''}LIMIT 1"
        where = f"WHERE session=? AND {column}=? AND kind IN ({marks}) {tail}"
        return self._one(where, as_column(session), number, *kinds)

    def _mentioning(self, words: str) -> RecordedEvent | None:
        found = _first_mention(self.newest(), words)
        if found is not None:
            return found
        raise UnknownCheckpoint(
            f"No prompt and no tool call mentions {words!r}. Nothing was changed.", hint="mulligan log --story"
        )

    def _one(self, tail: str, *values: object) -> RecordedEvent | None:
        return next(iter(self._select(tail, *values)), None)

    def _select(self, tail: str, *values: object) -> list[RecordedEvent]:
        return [_read(row) for row in self._db.select("deed", tail, *values)]


def _sought(what: str, *, after: bool) -> tuple[str, tuple[str, ...], bool]:
    """Returns which events a reference means: the column of its number, their kinds, and whether the last of them counts."""
    if what == "tool":
        return "number", ENDED if after else (BEFORE,), False
    return "prompt", (*ENDED, STOP) if after else (PROMPT,), after


def _first_mention(newest: Iterable[RecordedEvent], words: str) -> RecordedEvent | None:
    wanted = words.casefold().strip()
    for each in newest if wanted else ():
        if each.event.kind in {PROMPT, BEFORE} and wanted in f"{each.event.tool} {each.event.text}".casefold():
            return each
    return None


def find_event(told: Sequence[RecordedEvent], ref: str) -> RecordedEvent | None:
    """Returns the event that a reference means among events of another machine, oldest first; None where there is none."""
    if ref.startswith(_BEFORE):
        return _first_mention(reversed(told), ref.removeprefix(_BEFORE))
    match = re.match(_REF, ref)
    if match is None:
        return None
    session = next((e.event.session for e in reversed(told) if e.event.session.startswith(match[1] or "")), None)
    column, kinds, last = _sought(match[3], after=bool(match[2]))
    found = [
        each
        for each in told
        if each.event.session == session and each.event.kind in kinds and getattr(each, column) == int(match[4])
    ]
    return found[-1 if last else 0] if found else None


def _is_busy(event: AgentEvent, running: list[RecordedEvent]) -> bool:
    """Returns whether another agent of the same session is at work: a subagent, or the one that started it."""
    return any(
        each.event.session == event.session
        and each.event.subagent != event.subagent
        and each.event.tool not in DELEGATING
        for each in running
    )


def short_names(sessions: Iterable[str]) -> dict[str, str]:
    """Returns the beginning of each session's id that no other session has, at least eight characters of it."""
    names = sorted(set(sessions))
    shared = [0, *(_shared(*pair) for pair in pairwise(names)), 0]
    # A neighbour in this order shares the longest beginning.
    return {name: name[: max(_SHORT, 1 + max(shared[at : at + 2]))] for at, name in enumerate(names)}


def _shared(one: str, two: str) -> int:
    """Returns how many characters two names begin with alike."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(two)))


def _turn(session: str, prompt: int) -> Turn | None:
    """Returns the turn of a prompt; without one, as with git, each event stands for itself."""
    return Turn(session, prompt) if prompt else None


def _read(row: sqlite3.Row) -> RecordedEvent:
    about = json.loads(row["about"])
    about |= {name: tuple(about.get(name, ())) for name in ("paths", "named", "processes")}
    event = AgentEvent(session=from_column(row["session"]), kind=row["kind"], call=from_column(row["call"]), **about)
    return RecordedEvent(
        row["seq"], row["created_ns"], event, row["prompt"], row["number"], row["checkpoint"], bool(row["saved"])
    )
