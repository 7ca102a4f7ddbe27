"""
The steps of a turn: which checkpoints hold its changes, the state before each, and whose each path is.

A checkpoint that is found while several agents run commands may hold the work of all of them. A path belongs to the one command
that names it, or to the only one that can have changed it. Everything else is not clear, and is never guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.model.cause import CAUSE
from mulligan.model.deed import (
    BEFORE,
    ENDED,
    GOING_ON,
    MEANWHILE,
    PROMPT,
    STOP,
    Recorded,
    Turn,
    commands_beside,
    names_path,
    turn_of,
)
from mulligan.timeline.commits import Entry
from mulligan.timeline.deeds import LONGEST_COMMAND_NS

if TYPE_CHECKING:
    from mulligan.timeline.sources import State
    from mulligan.timeline.vault import Vault


class Claim(NamedTuple):
    """A command that may have changed files: its turn, the paths that it names, and whether it changes nothing else."""

    turn: Turn | None
    names: tuple[str, ...] = ()
    exact: bool = False


class Part(NamedTuple):
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

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    @cached_property
    def _entries(self) -> list[Entry]:
        return self._vault.checkpoints.newest()

    @cached_property
    def _by_id(self) -> dict[str, Entry]:
        return {entry.id: entry for entry in self._entries}

    def turns_of(self, session: str) -> list[Turn]:
        """Returns the turns of a session that have steps, newest first."""
        found: dict[Turn, None] = {}
        for entry in self._entries:
            for turn in turns_in(entry):
                if turn.session == session:
                    found.setdefault(turn)
        return sorted(found, key=lambda turn: -turn.prompt)

    def newest_of(self, turn: Turn) -> Entry | None:
        """Returns the newest checkpoint that holds work of a turn."""
        return next((entry for entry in self._entries if turn in turns_in(entry)), None)

    def of(self, turn: Turn) -> list[Part]:
        """Returns the steps of a turn, newest first."""
        parts = []
        entries = [entry for entry in self._entries if turn in turns_in(entry)]
        for entry in entries:
            start = self._by_id.get(entry.checkpoint.parent or "")
            before = entry.before or (start.trees if start is not None else None)
            if before is not None:
                mine = self._mine(entry, turn)
                parts.append(Part(before, entry.trees, mine, entry, start))
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
        last = self._vault.deeds.last(said["session"])
        if last is not None and last.created_ns > entry.created_ns:
            return True
        return entry.created_ns - int(said.get("began", 0)) < LONGEST_COMMAND_NS

    # -- steps that are no longer kept ------------------------------------------------------------

    def _removed(self, turn: Turn, entries: list[Entry]) -> list[Part]:
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
        between: list[Recorded] = []
        for each in self._vault.deeds.newest():
            if each.created_ns <= start.created_ns:
                break
            between = [] if each.checkpoint == oldest.id else [*between, each]
        gone = [each for each in between if each.saved]
        if not any(_is_work(each, turn) for each in gone):
            return []
        is_pure = len(gone) == oldest.seq - start.seq - 1 and all(_is_of_turn(each, turn) for each in between)
        is_pure = is_pure and all(_is_work(each, turn) for each in gone)
        return [Part(start.trees, before, lambda _: True if is_pure else None, None, start)]

    # -- what is not saved yet --------------------------------------------------------------------

    def just_begun(self, now_ns: int) -> list[Turn]:
        """Returns the turns of which a command runs and no step is saved yet, newest first."""
        if self._vault.database.is_empty("deed"):
            return []
        running = [Turn(each.deed.session, each.prompt) for each in reversed(self._vault.deeds.running(now_ns))]
        return [turn for turn in dict.fromkeys(running) if not self.of(turn)]

    def unsaved(self, turn: Turn, now_ns: int) -> Callable[[str], bool | None] | None:
        """Returns whose the changes since the last checkpoint are, for a turn that goes on; None where they are not its work."""
        running = self._vault.deeds.running(now_ns)
        own = [each for each in running if (each.deed.session, each.prompt) == turn]
        if not own and not self._works_unheard(turn):
            return None
        claims = [Claim(turn, each.deed.paths + each.deed.named, each.deed.exact) for each in own] or [Claim(turn)]
        claims += [
            Claim(Turn(each.deed.session, each.prompt), each.deed.paths + each.deed.named, each.deed.exact)
            for each in running
            if (each.deed.session, each.prompt) != turn
        ]
        return lambda path: _is_of(turn, path, claims)

    def _works_unheard(self, turn: Turn) -> bool:
        """Whether a turn may change files without a command that is known to run: in the background, or with a client that tells only of the ends."""
        last = self._vault.deeds.last(turn.session)
        if last is None or last.prompt != turn.prompt:
            return False
        if last.deed.kind == STOP:
            return last.deed.pending > 0
        if last.deed.kind not in GOING_ON or last.deed.kind == PROMPT:
            return False
        return not any(each.deed.kind == BEFORE for each in self._vault.deeds.newest(None, turn.session))


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


def turns_in(entry: Entry) -> set[Turn]:
    """Returns the turns whose work a checkpoint may hold."""
    cause = entry.checkpoint.metadata.get(CAUSE)
    if not isinstance(cause, dict):
        return set()
    own = turn_of(entry.checkpoint) if cause.get("by") else None
    found = {Turn(each["session"], each["prompt"]) for each in commands_beside(cause) if each["prompt"]}
    return found | {own} if own is not None else found


def _is_of_turn(each: Recorded, turn: Turn) -> bool:
    return (each.deed.session, each.prompt) == turn


def _is_work(each: Recorded, turn: Turn) -> bool:
    """Whether what an event found changed is a turn's work."""
    return _is_of_turn(each, turn) and each.deed.kind in (*ENDED, *MEANWHILE, STOP)
