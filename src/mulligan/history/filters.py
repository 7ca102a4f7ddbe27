"""Which checkpoints and prompts a question is about: since when, by which agent, mentioning what."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.errors import UserError
from mulligan.model.cause import CAUSE
from mulligan.model.event import PROMPT, RecordedEvent, Turn, commands_beside
from mulligan.timeline.time_refs import nanoseconds, parse_time

if TYPE_CHECKING:
    from mulligan.model.checkpoint import Checkpoint
    from mulligan.timeline.commits import Entry
    from mulligan.timeline.story import Chapter

#: A time as a caller gives it.
When = str | datetime


class Filters(NamedTuple):
    """Bounds on a question about history; an agent and a session are known by the beginning of their names."""

    since: int | None = None
    until: int | None = None
    grep: str = ""
    agent: str = ""
    session: str = ""

    def covers(self, created_ns: int) -> bool:
        """Whether a moment lies between the bounds."""
        return (self.since is None or created_ns >= self.since) and (self.until is None or created_ns <= self.until)

    def names(self, agents: Iterable[str], sessions: Iterable[str]) -> bool:
        """Whether one of the agents and one of the sessions is meant."""
        return _any(self.agent, agents) and _any(self.session, sessions)

    def mentions(self, *texts: str) -> bool:
        """Whether a text holds the words, in whatever case."""
        return not self.grep or any(self.grep.casefold() in text.casefold() for text in texts)


def parse_filters(
    *,
    since: When | None = None,
    until: When | None = None,
    grep: str | None = None,
    agent: str | None = None,
    session: str | None = None,
) -> Filters | None:
    """Returns the bounds that a caller gave, None where there are none; raises UserError for a time that is none."""
    if not any((since, until, grep, agent, session)):
        return None
    first = _moment(since, "since", end=False) if since else None
    return Filters(first, _moment(until, "until", end=True) if until else None, grep or "", agent or "", session or "")


def _moment(given: When, name: str, *, end: bool) -> int:
    if isinstance(given, datetime):
        return nanoseconds(given) + (999 if end else 0)
    span = parse_time(given, time.time_ns())
    if span is None:
        raise UserError(
            f"{name} is a time, and {given!r} is none. Nothing was changed.",
            hint="Times: '20 minutes ago', yesterday, @14:05, 2026-11-18, 2026-11-18T14:05",
        )
    return span.end if end else span.start


class FilterContext(NamedTuple):
    """What checkpoints do not carry themselves: the text of each prompt, and the agent of each session."""

    prompts: dict[Turn, str]
    agents: dict[str, str]


def context_of(events: Iterable[RecordedEvent]) -> FilterContext:
    """Returns the prompts and agents that some events tell of."""
    prompts: dict[Turn, str] = {}
    agents: dict[str, str] = {}
    for each in events:
        agents[each.event.session] = each.event.agent
        if each.event.kind == PROMPT and each.event.person:
            prompts[Turn(each.event.session, each.prompt)] = each.event.text
    return FilterContext(prompts, agents)


def keeps_entry(filters: Filters, entry: Entry, known: FilterContext) -> bool:
    """Whether a checkpoint is within the bounds: by its time, by what it says, by the agents whose work it holds."""
    if not filters.covers(entry.created_ns):
        return False
    cause = cause_of(entry.checkpoint)
    sessions = sessions_in(cause)
    agents = {str(cause.get("agent", "")), *(known.agents.get(session, "") for session in sessions)}
    turn = Turn(str(cause.get("session", "")), int(cause.get("prompt") or 0))
    texts = (
        entry.checkpoint.name,
        entry.checkpoint.description,
        str(cause.get("input", "")),
        known.prompts.get(turn, ""),
    )
    return filters.names(agents, sessions) and filters.mentions(*texts)


def keeps_chapter(filters: Filters, chapter: Chapter) -> bool:
    """Whether a prompt is within the bounds: anything of it in time, its agent, its words and those of its tool calls."""
    moments = [chapter.at, *(each.at for each in chapter.happened)]
    texts = (chapter.text, *(f"{each.name}: {each.text}" for each in chapter.happened))
    return (
        filters.names((chapter.agent,), (chapter.session,))
        and filters.mentions(*texts)
        and any(filters.covers(nanoseconds(datetime.fromisoformat(at))) for at in moments)
    )


def cause_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """Returns what a checkpoint says about the agent's event that made it; nothing for others."""
    cause = checkpoint.metadata.get(CAUSE)
    return cause if isinstance(cause, dict) else {}


def sessions_in(cause: dict[str, Any]) -> set[str]:
    """Returns the sessions whose work a checkpoint may hold, and the one whose event made it."""
    named = {str(cause.get("session") or ""), str(cause.get("by") or "")}
    return {*named, *(each["session"] for each in commands_beside(cause))} - {""}


def _any(wanted: str, names: Iterable[str]) -> bool:
    return not wanted or any(name.startswith(wanted) for name in names)
