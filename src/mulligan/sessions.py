"""
What agents do in a workspace: recording it, telling it as a story, taking back one session's part of it.

One call records one event of an agent: it saves the workspace if anything changed, with its cause, and remembers the event in
the same transaction. An undo treats all that a session did for one prompt as one operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mulligan.model.checkpoint import Checkpoint, as_json_object
from mulligan.model.deed import Deed, Recorded, Turn, turn_of
from mulligan.opened import Opened
from mulligan.timeline.moves import Move

#: How many states of others may stand between two of a turn.
_APART = 100


class WithSessions(Opened):
    """The verbs about agents' sessions; the others are in `engine`."""

    def record(self, deed: Deed, *, state: Mapping[str, Any] | None = None) -> Checkpoint | None:
        """
        Remembers one event of an agent; returns the checkpoint if one was needed, None when nothing changed since the position.

        `state` goes into the checkpoint, if there is one; it alone makes none necessary.
        """
        given = as_json_object(state, "state")
        with self._writing("hook", create=True):
            vault = self._bench.vault
            deeds, place = vault.deeds, vault.deeds.place(deed)
            about = f"{deed.tool}: {deed.text}" if deed.tool else deed.text
            draft = self._bench.draft("", about, "step", metadata=place.cause(deed), state=given)

            def remember() -> None:
                deeds.add(deed, place, draft.id, saved=True, now_ns=draft.created_ns)

            entry, gone = self._bench.save(draft, if_changed=True, with_state=False, also=remember)
            if entry is None:
                with vault.database.transaction():
                    here = vault.checkpoints.position()
                    deeds.add(deed, place, here, saved=False, now_ns=draft.created_ns)
        if entry is None:
            return None
        self._tell_saved(entry, gone)
        return entry.checkpoint

    def deeds(self, *, limit: int | None = None, session: str | None = None) -> list[Recorded]:
        """Returns what agents did here, newest first; of one session, by the beginning of its id."""
        with self._reading() as vault:
            if vault is None:
                return []
            return vault.deeds.newest(limit, vault.deeds.session(session) if session is not None else None)

    def _steps_of_turn(self, moves: list[Move]) -> range:
        """
        Returns which of the newest states are steps of one turn, to be passed over by an undo; none where the newest is no step.

        The newest itself is among them while the turn has not ended: what changed since then is its work too. Of a turn that
        ended, what changed since is somebody else's, and is taken back first.
        """
        newest = self._turn_at(moves[0]) if moves else None
        if newest is None:
            return range(0)
        end = at = 1
        while at < len(moves) and at - end < _APART:
            at += 1
            if self._turn_at(moves[at - 1]) == newest:
                end = at
        return range(0 if self._bench.vault.deeds.is_open(newest) else 1, end)

    def _turn_at(self, move: Move) -> Turn | None:
        entry = self._bench.vault.checkpoints.by_id(move.id)
        return turn_of(entry.checkpoint) if entry is not None else None
