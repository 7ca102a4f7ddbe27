"""
What an agent does, as words: one event of a session, and what the timeline remembers of it.

Every client has its own names for its events; these are the ones that all of them are translated to.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from mulligan.model.cause import CAUSE
from mulligan.model.checkpoint import Checkpoint, moment

SESSION, PROMPT, BEFORE, AFTER, FAILED, STOP, END = "session", "prompt", "before", "after", "failed", "stop", "end"
SUBAGENT, COMPACT = "subagent", "compact"
#: A tool is over, one way or the other.
ENDED = (AFTER, FAILED)
#: Something happened within a turn that neither begins nor ends it.
IN_BETWEEN = (SUBAGENT, COMPACT)
#: After these a turn goes on.
GOING_ON = (PROMPT, BEFORE, *ENDED, *IN_BETWEEN)
#: Tools that last as long as a subagent works, and change nothing themselves.
DELEGATING = ("Agent", "Task", "task")
#: The agent that git's own hooks tell of.
GIT = "git"


class AgentEvent(NamedTuple):
    """
    One event of an agent's session.

    `call` is the client's own id of the tool call or prompt, `text` what was asked or a summary of the tool's input,
    `paths` the files of the workspace that the input names, `pending` how many tasks go on after a stop.
    `person` is false for a prompt that no person typed. `named` are the words of a shell command that may be paths; `exact` says
    that the tool changes the files it names and no others. `processes` are those that the hook was started by.
    """

    agent: str
    session: str
    kind: str
    tool: str = ""
    call: str = ""
    text: str = ""
    paths: tuple[str, ...] = ()
    subagent: str = ""
    transcript: str = ""
    at: int = 0
    pending: int = 0
    person: bool = True
    named: tuple[str, ...] = ()
    exact: bool = False
    processes: tuple[str, ...] = ()

    @property
    def begins_turn(self) -> bool:
        """Whether a person sent a prompt."""
        return self.kind == PROMPT and self.person

    @property
    def is_over(self) -> bool:
        """Whether it is the end of a tool call."""
        return self.kind in ENDED


class RecordedEvent(NamedTuple):
    """An event as the timeline remembers it: its numbers, and the checkpoint that holds the workspace of that moment."""

    seq: int
    created_ns: int
    event: AgentEvent
    prompt: int
    number: int
    checkpoint: str
    saved: bool

    @property
    def created_at(self) -> datetime:
        """When it happened."""
        return moment(self.created_ns)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        event = self.event
        return {
            "at": self.created_at.isoformat(),
            "agent": event.agent,
            "session": event.session,
            "event": event.kind,
            "prompt": self.prompt,
            "tool": self.number,
            "name": event.tool,
            "text": event.text,
            "subagent": event.subagent,
            "checkpoint": self.checkpoint,
            "saved": self.saved,
        }


class Turn(NamedTuple):
    """A session's work for one prompt; the group that one undo takes back."""

    session: str
    prompt: int


def turn_of(checkpoint: Checkpoint) -> Turn | None:
    """Returns the turn whose work a checkpoint holds, None for one that was not made during a turn."""
    cause = checkpoint.metadata.get(CAUSE)
    turn = cause.get("turn") if isinstance(cause, dict) else None
    return Turn(*turn) if isinstance(turn, list) and len(turn) == 2 else None


def turns_in(checkpoint: Checkpoint) -> set[Turn]:
    """Returns the turns whose work a checkpoint may hold."""
    cause = checkpoint.metadata.get(CAUSE)
    if not isinstance(cause, dict):
        return set()
    own = turn_of(checkpoint) if cause.get("by") else None
    found = {Turn(each["session"], each["prompt"]) for each in commands_beside(cause) if each["prompt"]}
    return found | {own} if own is not None else found


def maker_of(checkpoint: Checkpoint, path: str | None = None) -> str:
    """Returns the session that made the changes of a checkpoint, or of one path in it; empty where none is known."""
    cause = checkpoint.metadata.get(CAUSE)
    if not isinstance(cause, dict):
        return ""
    claimed = cause.get("claimed")  # as earlier releases wrote it
    if path is not None and isinstance(claimed, dict) and path in claimed:
        return str(claimed[path])
    said = commands_beside(cause) if path is not None else []
    namers = {str(each["session"]) for each in said if path is not None and names_path(each.get("names", ()), path)}
    return namers.pop() if len(namers) == 1 else str(cause.get("by") or "")


def commands_beside(cause: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the commands of other agents that ran when a checkpoint was made; none of what earlier releases wrote."""
    said = cause.get("beside")
    rows = [each for each in said if isinstance(each, dict)] if isinstance(said, list) else []
    return [each for each in rows if isinstance(each.get("session"), str) and isinstance(each.get("prompt"), int)]


def names_path(names: Iterable[str], path: str) -> bool:
    """Returns whether one of some words names a path: itself, a directory above it, its last parts, or a pattern."""
    return any(_names(word, path) for word in names)


def _names(word: str, path: str) -> bool:
    if any(letter in word for letter in "*?["):
        from fnmatch import fnmatchcase

        return fnmatchcase(path, word) or fnmatchcase(path, f"*/{word}") or fnmatchcase(path, f"{word}/*")
    return f"/{word}/" in f"/{path}/"
