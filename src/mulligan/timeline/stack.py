"""
The states that undo can go to, and which operation comes next.

Read from the stack of `timeline.moves`, newest first. A turn that was undone leaves its states on the stack, with a mark above
them; those states hold the turn's work, so no undo goes to them as a whole.
"""

from __future__ import annotations

from mulligan.model.cause import CAUSE
from mulligan.model.deed import Turn
from mulligan.model.plan import Undone
from mulligan.model.small import cached_property
from mulligan.model.typed import TYPE_CHECKING
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
        self._entries = [vault.checkpoints.by_id(move.id) for move in self._moves]
        self._turns = [
            turns_in(entry) if entry is not None and not move.gone and not move.restored else set()
            for move, entry in zip(self._moves, self._entries, strict=True)
        ]

    def undone(self) -> set[Turn]:
        """Returns the turns that are undone and have done nothing since."""
        worked: set[Turn] = set()
        found: set[Turn] = set()
        for move, turns in zip(self._moves, self._turns, strict=True):
            if move.mark is not None and move.mark.turn is not None and move.mark.turn not in worked:
                found.add(move.mark.turn)
            elif move.mark is None:
                worked |= turns
        return found

    def waiting(self, passed: set[Turn]) -> tuple[Turn | None, bool]:
        """Returns the newest turn that is not undone, but for some, and whether it is the next operation."""
        over, is_next = self.undone() | passed, True
        for at, (move, turns) in enumerate(zip(self._moves, self._turns, strict=True)):
            is_next = is_next and not (move.partly and at == 0)
            if move.mark is None and (left := turns - over):
                return max(left, key=lambda turn: turn.prompt), is_next
            is_next = is_next and not self._is_operation(at)
        return None, False

    def _is_operation(self, at: int) -> bool:
        """Whether something else than a turn led to a state: a restore, or a save that somebody asked for."""
        move, entry = self._moves[at], self._entries[at]
        if move.mark is not None or move.gone:
            return False
        if move.restored:
            return True
        if entry is None or entry.checkpoint.kind == "safety" or self._turns[at]:
            return False
        cause = entry.checkpoint.metadata.get(CAUSE)
        # What was found changed when a prompt or a tool began came by itself.
        return not isinstance(cause, dict) or bool(cause.get("by"))

    def states(self, turn: Turn | None) -> list[Move]:
        """Returns the states down to the newest of a turn, all of them without one."""
        end = next((at for at, turns in enumerate(self._turns) if turn in turns and self._moves[at].mark is None), None)
        return self._moves if end is None else self._moves[: end + 1]

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
            return max((below + 1 for below, turns in enumerate(self._turns) if mark.turn in turns), default=at)
        return next((below for below, move in enumerate(self._moves) if mark.to and move.id == mark.to), at)

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
        is_safety = kind == "restore" and there is not None and there.checkpoint.kind == "safety"
        told = there if is_safety else top
        at = told.checkpoint.created_at if told is not None else None
        return Undone(kind, top.id if top is not None else "", at)

    def redone(self, target: str) -> Undone:
        """Names what a redo brings forward: the state that an undo left."""
        entry = self._vault.checkpoints.by_id(target)
        kind = "unsaved" if entry is not None and entry.checkpoint.kind == "safety" else "step"
        return Undone(kind, target, entry.checkpoint.created_at if entry is not None else None)

    def _entry(self, at: int) -> Entry | None:
        return self._entries[at] if at < len(self._entries) else None
