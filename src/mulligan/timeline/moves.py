"""
How undo walks.

The timeline remembers the states the workspace went through, as a stack of checkpoints: a save pushes its own, a restore
pushes what was there before (its safety checkpoint) and then its target. Undo goes to the newest state below the top that
differs from the workspace; what it leaves behind goes onto the redo stack, which the next save or restore empties.
"""

from __future__ import annotations

from mulligan.model.typed import TYPE_CHECKING, NamedTuple
from mulligan.timeline.database import TOP, Database

if TYPE_CHECKING:
    import sqlite3


class Move(NamedTuple):
    """
    A state the workspace was in, and which part of it the step was about: files, state or all.

    `git` says that the step from here on moved the user's repository too: who comes back here by undo moves it back.
    """

    id: str
    what: str = "files"
    git: bool = False

    @classmethod
    def read(cls, row: sqlite3.Row) -> Move:
        """Returns the state that a row of the timeline names."""
        what, _, rest = str(row["what"]).partition("+")
        return cls(str(row["id"]), what, rest == _GIT)

    @property
    def column(self) -> str:
        """What the timeline keeps of it."""
        return f"{self.what}+{_GIT}" if self.git else self.what


_GIT = "git"


class Moves:
    """The undo and redo stacks; every change happens inside the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def push(self, *moves: Move, keep_redo: bool = False, fresh: bool = False) -> None:
        """Puts states on the undo stack, `fresh` ones of which none can be there; without `keep_redo`, nothing can be redone any more."""
        top = None if fresh else self.top()
        for move in moves:
            if top != move:
                self._db.insert("move", None, move.id, move.column)
            top = move
        self._db.known()[TOP] = top
        if not keep_redo:
            self._db.empty("redo")

    def replace_top(self, move: Move) -> None:
        """Puts another state in place of the newest: what a restore left, where that is not quite its target."""
        self._db.run("DELETE FROM move WHERE seq=(SELECT max(seq) FROM move)")
        self.push(move, keep_redo=True)

    def top(self) -> Move | None:
        """Returns the newest state."""
        known = self._db.known()
        if TOP not in known:
            found = self.down(1)
            known[TOP] = found[0] if found else None
        top: Move | None = known[TOP]
        return top

    def down(self, limit: int = 1000) -> list[Move]:
        """Returns the states, newest first."""
        return [Move.read(row) for row in self._db.sealed("move", "ORDER BY seq DESC LIMIT ?", limit)]

    def redoable(self) -> list[Move]:
        """Returns what was undone, the next to redo first."""
        return [Move.read(row) for row in self._db.sealed("redo", "ORDER BY seq DESC")]

    def undone(self, depth: int, left: Move) -> None:
        """Drops the `depth` newest states and remembers the one that was left, to be redone."""
        passed = self._db.rows("SELECT seq FROM move ORDER BY seq DESC LIMIT ?", depth)
        for (seq,) in passed:
            self._db.run("DELETE FROM move WHERE seq=?", seq)
        top = self.top()
        if passed and top is not None and top.git:
            # The step that moved git is taken back: the next one from here on is another.
            self._db.run("UPDATE move SET what=? WHERE seq=(SELECT max(seq) FROM move)", top.what)
            self._db.reseal("move", "seq=(SELECT max(seq) FROM move)")
        self._db.insert("redo", None, left.id, left.column)

    def redone(self, *, skipped: int = 1) -> None:
        """Takes the states that were redone (or found equal) off the redo stack."""
        for (seq,) in self._db.rows("SELECT seq FROM redo ORDER BY seq DESC LIMIT ?", skipped):
            self._db.run("DELETE FROM redo WHERE seq=?", seq)

    def needed(self, depth: int = 2) -> set[str]:
        """Returns the checkpoints that the next undos and redos need."""
        return {move.id for move in self.down(depth)} | {move.id for move in self.redoable()[:depth]}
