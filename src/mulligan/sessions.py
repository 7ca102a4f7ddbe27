"""
What agents do in a workspace: recording it, telling it as a story. Taking back one session's part of it is in `turns`.

One call records one event of an agent: it saves the workspace if anything changed, with its cause, and remembers the event in
the same transaction.
"""

from __future__ import annotations

import os

from mulligan.model.checkpoint import Checkpoint, as_json_object
from mulligan.model.typed import TYPE_CHECKING, Any
from mulligan.opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mulligan.model.deed import Deed, Recorded
    from mulligan.model.holding import Holding
    from mulligan.timeline.saving import Draft
    from mulligan.timeline.story import Chapter


class WithSessions(Opened):
    """The verbs about agents' sessions; the others are in `engine`."""

    def record(self, deed: Deed, *, state: Callable[[int], Mapping[str, Any]] | None = None) -> Checkpoint | None:
        """
        Remembers one event of an agent; returns the checkpoint if one was needed, None when nothing changed since the position.

        `state` makes what goes into the checkpoint beside the files, if there is one, from where the transcript of this session
        stood at the last; it alone makes none necessary.
        """
        with self._writing("hook", create=True):
            vault = self._bench.vault
            deeds, place = vault.deeds, vault.deeds.place(deed)
            about = ": ".join(filter(None, (deed.tool, deed.text)))
            draft = self._bench.draft("", about, "step", metadata=place.cause(deed))

            def finish(begun: Draft) -> Draft:
                if state is None:
                    return begun
                return begun._replace(state=as_json_object(state(deeds.saved_at(deed)), "state"))

            def remember() -> None:
                deeds.add(deed, place, draft.id, saved=True, now_ns=draft.created_ns)

            if self._bench.root.is_gone():
                with vault.database.transaction():
                    deeds.add(deed, place, vault.checkpoints.position(), saved=False, now_ns=draft.created_ns)
                raise self._bench.root.gone()
            entry, gone = self._bench.save(draft, if_changed=True, with_state=False, also=remember, finish=finish)
            if entry is None:
                with vault.database.transaction():
                    here = vault.checkpoints.position()
                    deeds.add(deed, place, here, saved=False, now_ns=draft.created_ns)
        if entry is None:
            return None
        self._tell_saved(entry, gone)
        return entry.checkpoint

    def holding(self, paths: Sequence[str]) -> list[Holding]:
        """Returns, for each of these paths (relative, `.` for all), what an undo would bring back and what is not saved."""
        from mulligan.timeline.holding import holdings

        wanted = [os.fsencode(path) if path not in {"", "."} else b"" for path in paths]
        with self._reading() as vault:
            entry = vault.checkpoints.current() if vault is not None else None
            return holdings(self.root, entry, self._bench.look(with_git=False), wanted)

    def deeds(self, *, limit: int | None = None, session: str | None = None) -> list[Recorded]:
        """Returns what agents did here, newest first; of one session, by the beginning of its id."""
        with self._reading() as vault:
            if vault is None:
                return []
            return vault.deeds.newest(limit, vault.deeds.session(session) if session is not None else None)

    def deed_at(self, ref: str) -> Deed | None:
        """Returns the event that a reference like `@prompt-2` means, None for any other reference."""
        with self._reading() as vault:
            found = vault.deeds.find(ref) if vault is not None and ref.startswith("@") else None
        return found.deed if found is not None else None

    def story(self, *, limit: int | None = None, session: str | None = None) -> list[Chapter]:
        """Returns what agents did, prompt by prompt, newest first: what was asked, which tools ran, what each changed."""
        from mulligan.timeline.story import tell

        with self._reading() as vault:
            if vault is None:
                return []
            found = vault.deeds.newest(None, vault.deeds.session(session) if session is not None else None)

            def changed(checkpoint: str) -> tuple[str, ...]:
                entry = vault.checkpoints.by_id(checkpoint)
                return entry.checkpoint.files_changed if entry is not None else ()

            return tell(found, changed)[:limit]

    def protection(self) -> dict[str, Any]:
        """Returns when each agent was last heard of, and what hooks could not do since the last `doctor`."""
        from mulligan.timeline.failures import failures

        with self._reading() as vault:
            heard = vault.deeds.heard() if vault is not None else []
        failed = failures(self.settings)
        return {
            "agents": [each.to_dict() for each in heard],
            "failures": {"count": len(failed), "last": failed[-1] if failed else None},
        }
