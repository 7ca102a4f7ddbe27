"""
How undo walks.

The timeline remembers the states the workspace went through, as a stack of checkpoints: a save pushes its own, a restore
pushes what was there before (its safety checkpoint) and then its target. An undo of plain saves and restores goes to the newest
state below the top that differs from the workspace. An undo of a turn takes back that turn alone, so it removes no state: it
pushes what it left, marked with the turn. Either puts what was there before onto the redo stack, which the next save or restore
empties.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from mulligan.model.bounded import read_json
from mulligan.timeline.database import Database, broken_row

if TYPE_CHECKING:
    import sqlite3

    from mulligan.model.event import Turn


class UndoMark(NamedTuple):
    """
    What an undo took back without removing states from the stack.

    Either a whole `turn`; or what the checkpoint `step` changed; or some paths, which now stand as in an earlier state: the
    checkpoint `to`, empty for a part of a turn.
    """

    turn: Turn | None = None
    to: str = ""
    step: str = ""

    @classmethod
    def read(cls, text: str) -> UndoMark:
        """Returns the mark that a row or a journal holds."""
        from mulligan.model.event import Turn

        try:
            turn, to, *step = read_json(text)
            return cls(Turn(str(turn[0]), int(turn[1])) if turn else None, str(to), *map(str, step))
        except (ValueError, TypeError, LookupError):
            raise broken_row("move") from None  # sealed, and still no mark

    @property
    def text(self) -> str:
        """The form that is kept."""
        return json.dumps([list(self.turn) if self.turn else None, self.to, *filter(None, [self.step])])


class Move(NamedTuple):
    """
    A state the workspace was in, and which part of it the step was about: files, state or all.

    `git` says that the step from here on moved the user's repository too: an undo that comes back here moves it back. `restored`
    says that a restore or a redo led here, `partly` that a restore of some paths or of state went on from here, `mark` what an
    undo took back that led here, and `gone` that the state itself is no longer kept. On the redo stack, `restored` says that the
    undo took back a restore, `base` is the state that it left, and `mark` what it took back.
    """

    id: str
    what: str = "files"
    git: bool = False
    restored: bool = False
    partly: bool = False
    gone: bool = False
    mark: UndoMark | None = None
    base: str = ""

    @classmethod
    def read(cls, row: sqlite3.Row) -> Move:
        """Returns the state that a row of the timeline names."""
        what, _, rest = str(row["what"]).partition("+")
        rest, _, mark = rest.partition(_MARK)
        words = rest.split("+")
        base = next((word.removeprefix(_BASE) for word in words if word.startswith(_BASE)), "")
        git, restored, partly, gone = (word in words for word in _FLAGS)
        made = UndoMark.read(mark) if mark else None
        return cls(str(row["id"]), what, git, restored, partly, gone, made, base)

    @property
    def column(self) -> str:
        """What the timeline keeps of it."""
        flags = (self.git, self.restored, self.partly, self.gone)
        words = [self.what, *(word for word, is_so in zip(_FLAGS, flags, strict=True) if is_so)]
        words += [_BASE + self.base] if self.base else []
        words += [_MARK + self.mark.text] if self.mark is not None else []
        return "+".join(words)

    def is_same(self, other: Move | None) -> bool:
        """Whether another is the same state, however it was reached."""
        return other is not None and (self.id, self.what, self.git) == (other.id, other.what, other.git)


_FLAGS, _BASE, _MARK = ("git", "restored", "partly", "gone"), "base=", "mark="


class Moves:
    """The undo and redo stacks; every change happens inside the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def push(self, *moves: Move, keep_redo: bool = False, fresh: bool = False) -> None:
        """Puts states on the undo stack, `fresh` ones of which none can be there; without `keep_redo`, nothing can be redone any more."""
        top = None if fresh else self.top()
        for move in moves:
            if move.mark is not None or top is None or not move.is_same(top):
                self._db.insert("move", None, move.id, move.column)
            elif top.gone:
                self._set_top(top._replace(gone=False))  # what an undo left there is kept after all
            top = move
        if not keep_redo:
            self._db.empty("redo")

    def replace_top(self, move: Move) -> None:
        """Puts another state in place of the newest: what a restore left, where that is not quite its target."""
        was = self.top()
        if was is not None:
            move = move._replace(restored=was.restored, mark=was.mark)
        self._db.run("DELETE FROM move WHERE seq=(SELECT max(seq) FROM move)")
        self.push(move, keep_redo=True)

    def went_on_partly(self) -> None:
        """Says that a restore of some paths, or of state alone, went on from the newest state."""
        top = self.top()
        if top is not None:
            self._set_top(top._replace(partly=True))

    def mark_top(self, first: UndoMark, *more: UndoMark) -> None:
        """Says what was taken back on the way to the newest state, without an undo of ours."""
        top = self.top()
        if top is not None:
            self._set_top(top._replace(mark=first))
            self.push(*(top._replace(mark=mark) for mark in more))

    def _set_top(self, move: Move) -> None:
        self._db.update("move", "seq=(SELECT max(seq) FROM move)", what=move.column)

    def landed(self, checkpoint_id: str) -> None:
        """Says which checkpoint holds what the undo left whose mark is on top: a redo starts from there."""
        self.replace_top(Move(checkpoint_id))
        top = self.top()
        for move in self.redoable()[:1]:
            left = move._replace(base=checkpoint_id, mark=top.mark if top is not None else None)
            self._db.update("redo", "seq=(SELECT max(seq) FROM redo)", what=left.column)

    def unmark(self, base: str) -> None:
        """Drops the mark of an undo that is redone, and the states above it."""
        self._db.run("DELETE FROM move WHERE seq >= (SELECT max(seq) FROM move WHERE id=?)", base)

    def top(self) -> Move | None:
        """Returns the newest state."""
        return next(iter(self.down(1)), None)

    def down(self, limit: int = 1000) -> list[Move]:
        """Returns the states, newest first."""
        return [Move.read(row) for row in self._db.select("move", "ORDER BY seq DESC LIMIT ?", limit)]

    def redoable(self) -> list[Move]:
        """Returns what was undone, the next to redo first."""
        return [Move.read(row) for row in self._db.select("redo", "ORDER BY seq DESC")]

    def undone(self, depth: int, left: Move) -> None:
        """Drops the `depth` newest states and remembers the one that was left, to be redone."""
        passed = self._db.select("move", "ORDER BY seq DESC LIMIT ?", depth)
        for row in passed:
            self._db.run("DELETE FROM move WHERE seq=?", row["seq"])
        top = self.top()
        by_restore = any(Move.read(row).restored for row in passed) or (not passed and top is not None and top.partly)
        if top is not None and ((passed and top.git) or top.partly):
            # The step that went on from here is taken back: the next one is another.
            self._set_top(top._replace(git=top.git and not passed, partly=False))
        left = left._replace(restored=by_restore)
        self._db.insert("redo", None, left.id, left.column)

    def redone(self, *, skipped: int = 1) -> None:
        """Takes the states that were redone (or found equal) off the redo stack."""
        for (seq,) in self._db.rows("SELECT seq FROM redo ORDER BY seq DESC LIMIT ?", skipped):
            self._db.run("DELETE FROM redo WHERE seq=?", seq)

    def needed(self, depth: int = 2) -> set[str]:
        """Returns the checkpoints that the next undos and redos need."""
        forward = self.redoable()[:depth]
        return {move.id for move in (*self.down(depth), *forward)} | {move.base for move in forward if move.base}

    def forget(self, checkpoint_id: str, parent: str | None) -> None:
        """Drops the states of a checkpoint that is removed; what an undo took back stays known."""
        for row in self._db.select("move", "WHERE id=?", checkpoint_id):
            move = Move.read(row)
            if move.mark is not None and parent is not None:
                self._db.update("move", "seq=?", row["seq"], id=parent, what=move._replace(gone=True).column)
        self._db.run("DELETE FROM move WHERE id=?", checkpoint_id)
        self._db.run("DELETE FROM redo WHERE id=?", checkpoint_id)
