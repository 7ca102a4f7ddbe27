"""
What undo can take back: the states that it can go to, and the steps of a turn.

A turn that was undone leaves its states on the undo stack, with a mark above them; those states hold the turn's work, so no undo
goes to them as a whole.
A checkpoint that is found while several agents run commands may hold the work of all of them. A path belongs to the one command
that names it, or to the only one that can have changed it. Everything else is not clear, and is never guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.model.cause import CAUSE
from mulligan.model.event import (
    BEFORE,
    ENDED,
    GOING_ON,
    IN_BETWEEN,
    PROMPT,
    STOP,
    RecordedEvent,
    Turn,
    commands_beside,
    names_path,
    turn_of,
    turns_in,
)
from mulligan.model.plan import Undone
from mulligan.timeline.commits import Entry
from mulligan.timeline.events import LONGEST_COMMAND_NS
from mulligan.timeline.undo import Move, UndoMark

if TYPE_CHECKING:
    from mulligan.timeline.store import Store
    from mulligan.timeline.trees import State


#: In the metadata of the checkpoint that a revert left: what was reverted, in words, and the turn if it was a whole one.
REVERTED, REVERTED_TURN = "reverted", "reverted_turn"


class Stack:
    """The undo stack of a store as it is now."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._moves = store.moves.down()
        self._known: dict[int, set[Turn]] = {}

    def _entry(self, at: int) -> Entry | None:
        return self._store.checkpoints.by_id(self._moves[at].id) if at < len(self._moves) else None

    def _turns(self, at: int) -> set[Turn]:
        """Returns the turns whose steps led to a state."""
        if at not in self._known:
            move, entry = self._moves[at], self._entry(at)
            is_led = entry is not None and move.mark is None and not move.gone and not move.restored
            self._known[at] = turns_in(entry.checkpoint) if entry is not None and is_led else set()
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

    def reverted(self) -> set[Turn]:
        """Returns the turns that are reverted: no undo goes on from there, so this is for the story alone."""
        landed = [
            entry for at, move in enumerate(self._moves) if move.restored and (entry := self._entry(at)) is not None
        ]
        turns = [entry.checkpoint.metadata.get(REVERTED_TURN) for entry in landed]
        return {Turn(str(turn[0]), int(turn[1])) for turn in turns if isinstance(turn, list) and len(turn) == 2}

    def _last_mark(self) -> int:
        return max((at for at, move in enumerate(self._moves) if move.mark is not None), default=-1)

    def waiting(self, passed: set[Turn]) -> tuple[Turn | None, bool]:
        """Returns the newest turn that is not undone, but for some, and whether it is the next operation."""
        if not self._store.has_events():
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
        newest = next((e for e in self._store.events.newest(None, turn.session) if e.prompt == turn.prompt), None)
        return newest.created_ns if newest is not None else 0

    def beside(self, passed: set[str]) -> Entry | None:
        """
        Returns the newest change that no turn made among the states that no undo goes to, but for some.

        That is a save, or what an undo of a turn kept and saved first.
        """
        over = passed | {move.mark.step for move in self._moves if move.mark is not None}
        for at in sorted(self.mixed):
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
    def mixed(self) -> frozenset[int]:
        """The numbers of the states that no undo goes to: they hold what was undone."""
        found: set[int] = set()
        for at, move in enumerate(self._moves):
            if move.gone:
                found.add(at)
            if move.mark is not None:
                found.update(range(at + 1, self._end(at, move.mark)))
        return frozenset(found)

    def _end(self, at: int, mark: UndoMark) -> int:
        """Returns the first state below a mark that holds nothing of what was taken back."""
        if mark.turn is not None:
            steps = [below for below in range(at + 1, len(self._moves)) if mark.turn in self._turns(below)]
            return steps[-1] + 1 if steps else at
        found = next((below for below, move in enumerate(self._moves) if move.id == (mark.step or mark.to)), at)
        return found + 1 if mark.step and found > at else found

    def has(self, checkpoint_id: str) -> bool:
        """Whether an undo left this state, and its mark is still on the stack."""
        return self.mark(checkpoint_id) is not None

    def mark(self, checkpoint_id: str) -> UndoMark | None:
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
        if kind == "restore" and top is not None and REVERTED in top.checkpoint.metadata:
            return _reverted(top)
        is_safety = kind == "restore" and there is not None and there.checkpoint.kind == "safety"
        if depth and there is not None and not is_safety and top is not None and top.checkpoint.kind == "safety":
            # An undo left this state and what it kept, or a redo brought it back.
            return Undone("unsaved", there.id, there.checkpoint.created_at)
        # Checkpoints that changed nothing were passed over: the step is the one right above the target.
        above = next((at for at in range(depth - 1, 0, -1) if at not in self.mixed), 0) if kind == "step" else 0
        named = self._entry(above) or top
        told = there if is_safety else named
        at = told.checkpoint.created_at if told is not None else None
        return Undone(kind, named.id if named is not None else "", at)

    def redone(self, target: str, *, by_restore: bool = False) -> Undone:
        """Names what a redo brings forward: the state that an undo left, to which a restore may have led."""
        entry = self._store.checkpoints.by_id(target)
        if entry is not None and REVERTED in entry.checkpoint.metadata:
            return _reverted(entry)
        if by_restore and entry is not None:
            named = "" if entry.checkpoint.kind == "safety" else target
            return Undone("restore", named, entry.checkpoint.created_at)
        if entry is not None and entry.checkpoint.kind == "safety":
            return Undone("unsaved", entry.checkpoint.parent or "", entry.checkpoint.created_at)
        return Undone("step", target, entry.checkpoint.created_at if entry is not None else None)


def _reverted(entry: Entry) -> Undone:
    """Names the revert that left a checkpoint."""
    return Undone("revert", entry.id, entry.checkpoint.created_at, text=str(entry.checkpoint.metadata[REVERTED]))


class Claim(NamedTuple):
    """A command that may have changed files: its turn, the paths that it names, and whether it changes nothing else."""

    turn: Turn | None
    names: tuple[str, ...] = ()
    exact: bool = False


class TurnStep(NamedTuple):
    """
    One step of a turn: the states around it, which paths are the turn's, and the checkpoint that holds it.

    The checkpoint is None for steps that are no longer kept and are known by the states around them.
    """

    before: State
    after: State
    mine: Callable[[str], bool | None]
    entry: Entry | None = None
    start: Entry | None = None


class TurnSteps:
    """Finds the steps of turns in the timeline of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @cached_property
    def _entries(self) -> list[Entry]:
        return self._store.checkpoints.newest()

    @cached_property
    def _by_id(self) -> dict[str, Entry]:
        return {entry.id: entry for entry in self._entries}

    def turns_of(self, session: str) -> list[Turn]:
        """Returns the turns of a session that have steps, newest first."""
        found: dict[Turn, None] = {}
        for entry in self._entries:
            for turn in turns_in(entry.checkpoint):
                if turn.session == session:
                    found.setdefault(turn)
        return sorted(found, key=lambda turn: -turn.prompt)

    def newest_of(self, turn: Turn) -> Entry | None:
        """Returns the newest checkpoint that holds work of a turn."""
        return next((entry for entry in self._entries if turn in turns_in(entry.checkpoint)), None)

    def of(self, turn: Turn) -> list[TurnStep]:
        """Returns the steps of a turn, newest first."""
        parts = []
        entries = [entry for entry in self._entries if turn in turns_in(entry.checkpoint)]
        for entry in entries:
            start = self._by_id.get(entry.checkpoint.parent or "")
            before = entry.before or (start.trees if start is not None else None)
            if before is not None:
                mine = self._mine(entry, turn)
                parts.append(TurnStep(before, entry.trees, mine, entry, start))
        return [*parts, *self._removed(turn, entries)]

    # -- whose a path is --------------------------------------------------------------------------

    def _mine(self, entry: Entry, turn: Turn) -> Callable[[str], bool | None]:
        claims = self._claims(entry)
        claimed = entry.checkpoint.metadata[CAUSE].get("claimed") or {}

        def mine(path: str) -> bool | None:
            return False if claimed.get(path) == "" else _is_of(turn, path, claims)

        return mine

    def _claims(self, entry: Entry) -> list[Claim]:
        """Returns the commands that may have changed what a checkpoint found changed."""
        cause = entry.checkpoint.metadata[CAUSE]
        own = turn_of(entry.checkpoint) if cause.get("by") else None
        claims = [Claim(own, tuple(cause.get("names", ())), bool(cause.get("exact")))] if cause.get("by") else []
        for said in commands_beside(cause):
            if self._was_running(said, entry):
                beside = Turn(said["session"], said["prompt"])
                claims.append(Claim(beside, tuple(said.get("names", ())), bool(said.get("exact"))))
        # As earlier releases wrote it: the paths that other sessions' tools named.
        claimed = cause.get("claimed") or {}
        claims += [Claim(Turn(str(session), 0), (path,), exact=True) for path, session in claimed.items() if session]
        return claims

    def _was_running(self, said: dict[str, Any], entry: Entry) -> bool:
        """Whether a command that had begun and not ended was at work: its agent was heard of later, or had just begun it."""
        last = self._store.events.last(said["session"])
        if last is not None and last.created_ns > entry.created_ns:
            return True
        return entry.created_ns - int(said.get("began", 0)) < LONGEST_COMMAND_NS

    # -- steps that are no longer kept ------------------------------------------------------------

    def _removed(self, turn: Turn, entries: list[Entry]) -> list[TurnStep]:
        """
        Returns the first steps of a turn as one, where retention let them go.

        All that changed from the newest state that is left before them is the turn's work if only the turn's own events saved
        anything in that time. If not, none of it is clear.
        """
        oldest = entries[-1] if entries else None
        before = oldest.before if oldest is not None else None
        start = next((entry for entry in self._entries if oldest is not None and entry.seq < oldest.seq), None)
        if oldest is None or before is None or start is None or start.seq == oldest.seq - 1:
            return []
        between: list[RecordedEvent] = []
        for each in self._store.events.newest():
            if each.created_ns <= start.created_ns:
                break
            between = [] if each.checkpoint == oldest.id else [*between, each]
        gone = [each for each in between if each.saved]
        if not any(_is_work(each, turn) for each in gone):
            return []
        is_pure = len(gone) == oldest.seq - start.seq - 1 and all(_is_of_turn(each, turn) for each in between)
        is_pure = is_pure and all(_is_work(each, turn) for each in gone)
        return [TurnStep(start.trees, before, lambda _: True if is_pure else None, None, start)]

    # -- what is not saved yet --------------------------------------------------------------------

    def just_begun(self, now_ns: int) -> list[Turn]:
        """Returns the turns of which a command runs and no step is saved yet, newest first."""
        if not self._store.has_events():
            return []
        running = [Turn(each.event.session, each.prompt) for each in reversed(self._store.events.running(now_ns))]
        return [turn for turn in dict.fromkeys(running) if not self.of(turn)]

    def unsaved(self, turn: Turn, now_ns: int) -> Callable[[str], bool | None] | None:
        """Returns whose the changes since the last checkpoint are, for a turn that goes on; None where they are not its work."""
        running = self._store.events.running(now_ns)
        own = [each for each in running if (each.event.session, each.prompt) == turn]
        if not own and not self._works_unheard(turn):
            return None
        claims = [Claim(turn, each.event.paths + each.event.named, each.event.exact) for each in own] or [Claim(turn)]
        claims += [
            Claim(Turn(each.event.session, each.prompt), each.event.paths + each.event.named, each.event.exact)
            for each in running
            if (each.event.session, each.prompt) != turn
        ]
        return lambda path: _is_of(turn, path, claims)

    def _works_unheard(self, turn: Turn) -> bool:
        """Whether a turn may change files without a command that is known to run: in the background, or with a client that tells only of the ends."""
        last = self._store.events.last(turn.session)
        if last is None or last.prompt != turn.prompt:
            return False
        if last.event.kind == STOP:
            return last.event.pending > 0
        if last.event.kind not in GOING_ON or last.event.kind == PROMPT:
            return False
        return not any(each.event.kind == BEFORE for each in self._store.events.newest(None, turn.session))


def _is_of(turn: Turn, path: str, claims: list[Claim]) -> bool | None:
    """Whether a path is a turn's work; None where several commands may have changed it."""
    namers = {claim.turn for claim in claims if names_path(claim.names, path)}
    if namers:
        return _only(turn, namers)
    able = {claim.turn for claim in claims if not claim.exact} or {claim.turn for claim in claims}
    return _only(turn, able)


def _only(turn: Turn, turns: set[Turn | None]) -> bool | None:
    known = {
        each
        for each in turns
        if each is not None and (each == turn or (each.session, 0) == (turn.session, each.prompt))
    }
    if not known:
        return False
    return True if len(turns) == len(known) else None


def _is_of_turn(each: RecordedEvent, turn: Turn) -> bool:
    return (each.event.session, each.prompt) == turn


def _is_work(each: RecordedEvent, turn: Turn) -> bool:
    """Whether what an event found changed is a turn's work."""
    return _is_of_turn(each, turn) and each.event.kind in (*ENDED, *IN_BETWEEN, STOP)
