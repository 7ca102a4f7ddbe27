"""
Whose work a checkpoint holds: of a prompt and a tool call of an agent, of you, or of a restore.

Where several agents may have changed a path, and no command names it, nothing is guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.history.filters import cause_of, context_of
from mulligan.model.event import BEFORE, ENDED, RecordedEvent, Turn, commands_beside, maker_of, turn_of
from mulligan.timeline.outside_changes import rewind_of

if TYPE_CHECKING:
    from mulligan.timeline.commits import Entry

#: Who made a change: an agent, a person, a restore or undo; or it was there at first, is not saved yet, or is not known.
AGENT, YOU, RESTORE, FIRST, UNSAVED, UNKNOWN = "agent", "you", "restore", "first", "unsaved", "unknown"


class Origin(NamedTuple):
    """
    Who made a change and why: `prompt` and `tool` are the numbers of the session, `asked` and `command` their words.

    `checkpoint` is the first that holds the change; empty where none does yet.
    """

    by: str
    checkpoint: str = ""
    at: str = ""
    agent: str = ""
    session: str = ""
    prompt: int = 0
    asked: str = ""
    tool: int = 0
    name: str = ""
    command: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form; what is not known is null."""
        return {name: value if name == "by" else value or None for name, value in self._asdict().items()}


class Origins:
    """The origins of what checkpoints changed, from their causes and from the events that the timeline remembers."""

    def __init__(self, events: list[RecordedEvent]) -> None:
        self._known = context_of(events)
        self._calls: dict[Turn, list[RecordedEvent]] = {}
        for each in events:
            if each.event.kind == BEFORE:
                self._calls.setdefault(Turn(each.event.session, each.prompt), []).append(each)

    def of(self, entry: Entry, path: str) -> Origin:
        """Returns who changed a path in a checkpoint."""
        checkpoint, cause = entry.checkpoint, cause_of(entry.checkpoint)
        made = Origin(YOU, checkpoint.id, checkpoint.created_at.isoformat())
        if not cause:
            if checkpoint.kind == "safety" and checkpoint.description.startswith("after "):
                return made._replace(by=RESTORE, command=checkpoint.description.removeprefix("after "))
            made = made._replace(name=checkpoint.name, command=checkpoint.description)
            return made._replace(by=FIRST) if checkpoint.parent is None else made
        if prompt := rewind_of(checkpoint):
            return made._replace(
                by=RESTORE, agent=str(cause.get("agent", "")), command=f"rewind to before prompt {prompt}"
            )
        session = maker_of(checkpoint, path)
        if not session:
            return made._replace(by=self._nameless(entry, cause))
        return self._agents(entry, cause, session, made)

    def _nameless(self, entry: Entry, cause: dict[str, Any]) -> str:
        """Returns who made a change that no agent is known to have made."""
        if entry.checkpoint.parent is None and entry.before is None:
            return FIRST
        return UNKNOWN if commands_beside(cause) else YOU

    def _agents(self, entry: Entry, cause: dict[str, Any], session: str, made: Origin) -> Origin:
        turn = turn_of(entry.checkpoint)
        if turn is None or turn.session != session:
            beside = [Turn(each["session"], each["prompt"]) for each in commands_beside(cause)]
            prompts = [each for each in beside if each.session == session] or [
                Turn(session, int(cause.get("prompt") or 0))
            ]
            turn = prompts[0]
        agent = self._known.agents.get(session) or str(cause.get("agent", ""))
        made = made._replace(by=AGENT, agent=agent, session=session, prompt=turn.prompt)
        made = made._replace(asked=self._known.prompts.get(turn, ""))
        if cause.get("session") == session and cause.get("when") in ENDED:
            told = int(cause.get("tool") or 0), str(cause.get("name", "")), str(cause.get("input", ""))
            return made._replace(tool=told[0], name=told[1], command=told[2])
        running = [each for each in self._calls.get(turn, ()) if each.created_ns <= entry.created_ns]
        if not running:
            return made
        last = running[0]  # newest first
        return made._replace(tool=last.number, name=last.event.tool, command=last.event.text)
