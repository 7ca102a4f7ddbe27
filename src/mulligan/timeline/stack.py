"""
The states that undo can go to, and which operation comes next.

Read from the stack of `timeline.moves`, newest first. A turn that was undone leaves its states on the stack, with a mark above
them; those states hold the turn's work, so no undo goes to them as a whole.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from mulligan.model.deed import Turn
from mulligan.model.plan import Undone
from mulligan.timeline.commits import Entry
from mulligan.timeline.moves import Mark, Move
from mulligan.timeline.turnsteps import turns_in

if TYPE_CHECKING:
    from mulligan.timeline.vault import Vault


class Stack:
    """The undo stack of a store as it is now."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._moves = vault.moves.down()
        self._known: dict[int, set[Turn]] = {}

    def _entry(self, at: int) -> Entry | None:
        return self._vault.checkpoints.by_id(self._moves[at].id) if at < len(self._moves) else None

    def _turns(self, at: int) -> set[Turn]:
        """Returns the turns whose steps led to a state."""
        if at not in self._known:
            move, entry = self._moves[at], self._entry(at)
            is_led = entry is not None and move.mark is None and not move.gone and not move.restored
            self._known[at] = turns_in(entry) if entry is not None and is_led else set()
        return self._known[at]

    def undone(self) -> set[Turn]:
        """Returns the turns that are undone and have done nothing since."""
        worked: set[Turn] = set()
        found: set[Turn] = set()
        for at in range(self._last_mark() + 1):
            mark = self._moves[at].mark
            if mark is not None and mark.turn is not None and mark.turn not in worked:
                found.add(mark.turn)
            worked |= self._turns(at)
        return found

    def _last_mark(self) -> int:
        return max((at for at, move in enumerate(self._moves) if move.mark is not None), default=-1)

    def waiting(self, passed: set[Turn]) -> tuple[Turn | None, bool]:
        """Returns the newest turn that is not undone, but for some, and whether it is the next operation."""
        if self._vault.database.is_empty("deed"):
            return None, False  # no agent was ever at work here
        over, is_next = self.undone() | passed, True
        for at, move in enumerate(self._moves):
            is_next = is_next and not (move.partly and at == 0)
            if left := self._turns(at) - over:
                return max(left, key=self._heard), is_next
            is_next = is_next and not (move.restored and move.mark is None and not move.gone)
        return None, False

    def _heard(self, turn: Turn) -> int:
        """Returns when an agent was last heard of in a turn: of two at work in one step, the later one is the newer."""
        newest = next((e for e in self._vault.deeds.newest(None, turn.session) if e.prompt == turn.prompt), None)
        return newest.created_ns if newest is not None else 0

    def beside(self, passed: set[str]) -> Entry | None:
        """
        Returns the newest change that no turn made among the states that no undo goes to, but for some.

        That is a save, or what an undo of a turn kept and saved first.
        """
        over = passed | {move.mark.step for move in self._moves if move.mark is not None}
        for at in sorted(self.mixed()):
            move, entry = self._moves[at], self._entry(at)
            is_led = move.mark is None and not move.gone and not move.restored
            if is_led and entry is not None and not self._turns(at) and entry.id not in over:
                return entry
        return None

    def states(self, turn: Turn | None = None, step: Entry | None = None) -> list[Move]:
        """Returns the states down to the newest of a turn, or to a step; all of them without one."""
        if turn is None and step is None:
            return self._moves
        for at, move in enumerate(self._moves):
            if (turn is not None and turn in self._turns(at)) or (step is not None and move.id == step.id):
                return self._moves[: at + 1]
        return self._moves

    @cached_property
    def _mixed(self) -> frozenset[int]:
        found: set[int] = set()
        for at, move in enumerate(self._moves):
            if move.gone:
                found.add(at)
            if move.mark is not None:
                found.update(range(at + 1, self._end(at, move.mark)))
        return frozenset(found)

    def _end(self, at: int, mark: Mark) -> int:
        """Returns the first state below a mark that holds nothing of what was taken back."""
        if mark.turn is not None:
            steps = [below for below in range(at + 1, len(self._moves)) if mark.turn in self._turns(below)]
            return steps[-1] + 1 if steps else at
        found = next((below for below, move in enumerate(self._moves) if move.id == (mark.step or mark.to)), at)
        return found + 1 if mark.step and found > at else found

    def mixed(self) -> frozenset[int]:
        """Returns the numbers of the states that no undo goes to: they hold what was undone."""
        return self._mixed

    def has(self, checkpoint_id: str) -> bool:
        """Whether an undo left this state, and its mark is still on the stack."""
        return self.mark(checkpoint_id) is not None

    def mark(self, checkpoint_id: str) -> Mark | None:
        """Returns what an undo took back that left this state."""
        return next((move.mark for move in self._moves if move.id == checkpoint_id and move.mark is not None), None)

    # -- words ------------------------------------------------------------------------------------

    def about(self, depth: int) -> Undone:
        """Names the operation that going to a state takes back."""
        over = self._moves[:depth]
        top, there = self._entry(0), self._entry(depth)
        if any(move.restored for move in over) or (not depth and self._moves[0].partly):
            kind = "restore"
        else:
            kind = "step" if depth else "unsaved"
        if kind == "restore" and not depth:
            # The state that a restore of some paths, or of state alone, went on from: it tells nothing of the restore.
            return Undone(kind, "", there.checkpoint.created_at if there is not None else None)
        is_safety = kind == "restore" and there is not None and there.checkpoint.kind == "safety"
        if depth and there is not None and not is_safety and top is not None and top.checkpoint.kind == "safety":
            # An undo left this state and what it kept, or a redo brought it back.
            return Undone("unsaved", there.id, there.checkpoint.created_at)
        # Checkpoints that changed nothing were passed over: the step is the one right above the target.
        above = next((at for at in range(depth - 1, 0, -1) if at not in self._mixed), 0) if kind == "step" else 0
        named = self._entry(above) or top
        told = there if is_safety else named
        at = told.checkpoint.created_at if told is not None else None
        return Undone(kind, named.id if named is not None else "", at)

    def redone(self, target: str, *, by_restore: bool = False) -> Undone:
        """Names what a redo brings forward: the state that an undo left, to which a restore may have led."""
        entry = self._vault.checkpoints.by_id(target)
        if by_restore and entry is not None:
            named = "" if entry.checkpoint.kind == "safety" else target
            return Undone("restore", named, entry.checkpoint.created_at)
        if entry is not None and entry.checkpoint.kind == "safety":
            return Undone("unsaved", entry.checkpoint.parent or "", entry.checkpoint.created_at)
        return Undone("step", target, entry.checkpoint.created_at if entry is not None else None)
