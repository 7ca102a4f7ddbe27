"""
Prompts and tools of sessions that went on in another place, where they were counted anew.

A session is one session wherever its project stands. Its numbers in the new place go on behind those of the old one, so that
each of its turns has one number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.model.cause import CAUSE
from mulligan.model.deed import Turn, commands_beside
from mulligan.timeline.commits import Entry, Writer, write_commit
from mulligan.timeline.gitrecord import record_tree
from mulligan.timeline.moves import Move
from mulligan.timeline.seals import from_column

if TYPE_CHECKING:
    import sqlite3

    from mulligan.store.objects import ObjectStore
    from mulligan.timeline.database import Database


class Last(NamedTuple):
    """The last prompt and the last tool of a session."""

    prompt: int = 0
    number: int = 0


class Renumbering:
    """Gives what was recorded in a new place the numbers that follow those of the old one."""

    def __init__(self, old: Database) -> None:
        rows = old.rows("SELECT session, max(prompt), max(number) FROM deed GROUP BY session")
        self._last = {from_column(row[0]): Last(int(row[1] or 0), int(row[2] or 0)) for row in rows}

    def _of(self, session: object) -> Last:
        return self._last.get(str(session), Last())

    def deed(self, row: sqlite3.Row) -> list[Any]:
        """Returns the columns of an event, without its place in the table."""
        last, values = self._of(from_column(row["session"])), dict(zip(row.keys(), tuple(row), strict=True))
        values["prompt"] += last.prompt if values["prompt"] else 0
        values["number"] += last.number if values["number"] else 0
        return list(values.values())[1:-1]

    def move(self, row: sqlite3.Row) -> str:
        """Returns what a step of undo says: the turn that it took back has its new number."""
        move = Move.read(row)
        if move.mark is None or move.mark.turn is None:
            return str(row["what"])
        session, prompt = move.mark.turn
        turn = Turn(session, prompt + self._of(session).prompt)
        return move._replace(mark=move.mark._replace(turn=turn)).column

    def entry(self, entry: Entry, objects: ObjectStore, writer: Writer) -> Entry:
        """Returns a checkpoint that names its turns by their new numbers; its commit is another one if they differ."""
        cause = entry.checkpoint.metadata.get(CAUSE)
        said = self._cause(cause) if isinstance(cause, dict) else cause
        if said == cause:
            return entry
        state = entry.checkpoint.state
        metadata = {**entry.checkpoint.metadata, CAUSE: said}
        checkpoint = entry.checkpoint.replace(metadata=metadata, state_source=lambda: state)
        return write_commit(entry._replace(checkpoint=checkpoint), writer, record_tree(objects, entry.commit_id))

    def _cause(self, cause: dict[str, Any]) -> dict[str, Any]:
        last, said = self._of(cause.get("session")), dict(cause)
        for name, add in (("prompt", last.prompt), ("tool", last.number)):
            if isinstance(said.get(name), int) and said[name]:
                said[name] += add
        turn = said.get("turn")
        if isinstance(turn, list) and len(turn) == 2:
            said["turn"] = [turn[0], turn[1] + self._of(turn[0]).prompt]
        if beside := commands_beside(cause):
            said["beside"] = [
                {**each, "prompt": each["prompt"] + self._of(each["session"]).prompt} if each["prompt"] else each
                for each in beside
            ]
        return said
