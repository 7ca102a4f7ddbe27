"""
What agents do in a workspace: recording it, telling it as a story, undoing it. How an undo is done is in `turns`.

One call records one event of an agent: it saves the workspace if anything changed, with its cause, and remembers the event in
the same transaction.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast, overload

from mulligan.engine.access import Opened
from mulligan.errors import MulliganError, UserError
from mulligan.model.bounded import read_json
from mulligan.model.checkpoint import Checkpoint, as_json_object
from mulligan.model.paths import parse_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal

    from mulligan.history.news import News, TimelineRows
    from mulligan.model.event import AgentEvent, RecordedEvent
    from mulligan.model.holding import Holding
    from mulligan.model.plan import RestorePlan, RestoreReport
    from mulligan.timeline.drafts import CheckpointDraft
    from mulligan.timeline.notices import RestoreNotice
    from mulligan.timeline.outside_changes import Rewind
    from mulligan.timeline.store import Store
    from mulligan.timeline.story import Chapter
    from mulligan.timeline.trees import WorkspaceView


_HOOKS = "hooks"
#: The only client that writes a permission into the project while a tool call waits for it.
_CLAUDE = b".claude"
_LARGEST = 4 << 20


Paths = Iterable[str | os.PathLike[str]]
#: Ids of hunks.
Hunks = Collection[str]
#: What becomes of a conflict in a revert.
CONFLICTS = ("keep", "markers", "ours", "theirs")
WHAT = ("files", "state", "all")


class WithSessions(Opened):
    """The verbs about agents' sessions; the others are in `engine`."""

    def record(
        self, event: AgentEvent, *, state: Callable[[int], Mapping[str, Any]] | None = None
    ) -> Checkpoint | None:
        """
        Remembers one event of an agent; returns the checkpoint if one was needed, None when nothing changed since the position.

        `state` makes what goes into the checkpoint beside the files, if there is one, from where the transcript of this session
        stood at the last; it alone makes none necessary.
        """
        with self._writing("hook", create=True):
            store = self._bench.store
            events, place = store.events, store.events.place(event, self._bench.now_ns())
            about = ": ".join(filter(None, (event.tool, event.text)))
            # What is staged goes back with `restore @prompt-2 --git`.
            staged = self._bench.git.staged() if event.begins_turn else None
            draft = self._bench.draft("", about, "step", metadata=place.cause(event), git=staged)

            rewinds: list[Rewind] = []

            def finish(begun: CheckpointDraft, look: WorkspaceView) -> CheckpointDraft:
                if event.begins_turn:
                    from mulligan.timeline.outside_changes import find_rewind

                    if (rewind := find_rewind(store, event, look)) is not None:
                        rewinds.append(rewind)
                        text = f"rewound to before prompt {rewind.prompt}"
                        begun = begun._replace(description=text, metadata=rewind.noted(begun.metadata))
                if event.is_over and look.scan.tree_of(_CLAUDE) is not None:
                    from mulligan.timeline.outside_changes import find_grants

                    yours = tuple(find_grants(self.root, event, store.checkpoints.current(), look))
                    begun = begun._replace(metadata=place.without(yours).cause(event)) if yours else begun
                if state is None:
                    return begun
                return begun._replace(state=as_json_object(state(events.saved_at(event)), "state"))

            def remember() -> None:
                events.add(event, place, draft.id, saved=True, now_ns=draft.created_ns)
                for rewind in rewinds:
                    # The states in between hold what was rewound: an undo must not bring it back.
                    store.moves.mark_top(*rewind.marks())

            if self._bench.root.is_gone():
                with store.database.transaction():
                    events.add(event, place, store.checkpoints.position(), saved=False, now_ns=draft.created_ns)
                raise self._bench.root.gone()
            entry, gone = self._bench.save(draft, if_changed=True, with_state=False, also=remember, finish=finish)
            if entry is None:
                with store.database.transaction():
                    here = store.checkpoints.position()
                    events.add(event, place, here, saved=False, now_ns=draft.created_ns)
        if entry is None:
            return None
        self._tell_saved(entry, gone)
        return entry.checkpoint

    def holding(self, paths: Sequence[str]) -> list[Holding]:
        """Returns, for each of these paths (relative, `.` for all), what an undo would bring back and what is not saved."""
        from mulligan.timeline.differences import holdings

        wanted = [os.fsencode(path) if path not in {"", "."} else b"" for path in paths]
        with self._reading() as store:
            entry = store.checkpoints.current() if store is not None else None
            return holdings(self.root, entry, self._bench.look(with_git=False), wanted)

    @overload
    def undo(
        self,
        *,
        dry_run: Literal[False] = ...,
        session: str | None = ...,
        paths: Paths | None = ...,
        git: bool = ...,
        hunks: Hunks | None = ...,
    ) -> RestoreReport: ...

    @overload
    def undo(
        self,
        *,
        dry_run: Literal[True],
        session: str | None = ...,
        paths: Paths | None = ...,
        git: bool = ...,
        hunks: Hunks | None = ...,
    ) -> RestorePlan: ...

    def undo(
        self,
        *,
        dry_run: bool = False,
        session: str | None = None,
        paths: Paths | None = None,
        git: bool = False,
        hunks: Hunks | None = None,
    ) -> RestoreReport | RestorePlan:
        """
        Takes back the last operation: a restore; else the newest turn that is not undone; else what changed since the position.

        A turn is all that an agent did for one prompt. Changes since then are kept, merged by lines; what cannot be merged stays and
        is listed. With `session`, the newest turn of that session (the beginning of its id is enough). With `paths` or `hunks` (ids
        of `Workspace.hunks`), only those. With `git`, HEAD, its branch and the index go back too. With `dry_run`, returns the plan
        and changes nothing.
        """
        from mulligan.engine.asked import Asked, parse_hunks
        from mulligan.engine.undo import undo

        asked = Asked(parse_paths(paths, "files", git=git), git, dry_run, parse_hunks(hunks, git=git))
        with self._needing() if dry_run else self._writing("undo", needed=True):
            done = undo(self._bench, session, asked)
        if not dry_run:
            self._tell_restored("undo", cast("RestoreReport", done))
        return done

    @overload
    def redo(self, *, dry_run: Literal[False] = ...) -> RestoreReport: ...

    @overload
    def redo(self, *, dry_run: Literal[True]) -> RestorePlan: ...

    def redo(self, *, dry_run: bool = False) -> RestoreReport | RestorePlan:
        """Brings forward what the last undo took back; with `dry_run`, returns the plan and changes nothing."""
        from mulligan.engine.asked import Asked
        from mulligan.engine.undo import redo

        with self._needing() if dry_run else self._writing("redo", needed=True):
            done = redo(self._bench, Asked(dry_run=dry_run))
        if not dry_run:
            self._tell_restored("redo", cast("RestoreReport", done))
        return done

    @overload
    def revert(
        self,
        ref: str | Checkpoint,
        *,
        paths: Paths | None = ...,
        hunks: Hunks | None = ...,
        dry_run: Literal[False] = ...,
        conflicts: str = ...,
    ) -> RestoreReport: ...

    @overload
    def revert(
        self,
        ref: str | Checkpoint,
        *,
        paths: Paths | None = ...,
        hunks: Hunks | None = ...,
        dry_run: Literal[True],
        conflicts: str = ...,
    ) -> RestorePlan: ...

    def revert(
        self,
        ref: str | Checkpoint,
        *,
        paths: Paths | None = None,
        hunks: Hunks | None = None,
        dry_run: bool = False,
        conflicts: str = "keep",
    ) -> RestoreReport | RestorePlan:
        """
        Takes back one step and keeps everything later: a prompt, a tool call, a session, or what led to a checkpoint.

        Files that changed since are merged by lines. What cannot be merged is in `conflicts` of the answer: those files are left
        alone, or get conflict markers ("markers"), or the lines in question are those of now ("ours") or of before the step
        ("theirs"). One `undo` takes the revert back. With `dry_run`, returns the plan and changes nothing.
        """
        from mulligan.engine.asked import Asked, parse_hunks
        from mulligan.engine.revert import revert

        if conflicts not in CONFLICTS:
            raise UserError(f"conflicts is one of {', '.join(CONFLICTS)}, not {conflicts!r}. Nothing was changed.")
        asked = Asked(parse_paths(paths, "files"), False, dry_run, parse_hunks(hunks), conflicts)
        with self._needing() if dry_run else self._writing("revert", needed=True):
            done = revert(self._bench, ref, asked)
        if not dry_run:
            self._tell_restored("revert", cast("RestoreReport", done))
        return done

    def agent_events(self, *, limit: int | None = None, session: str | None = None) -> list[RecordedEvent]:
        """Returns what agents did here, newest first; of one session, by the beginning of its id."""
        with self._reading() as store:
            if store is None:
                return []
            return store.events.newest(limit, store.events.session(session) if session is not None else None)

    def agent_event_at(self, ref: str) -> AgentEvent | None:
        """Returns the event that a reference like `@prompt-2` means, None for any other reference."""
        with self._reading() as store:
            found = store.events.find(ref) if store is not None and ref.startswith("@") else None
        return found.event if found is not None else None

    def story(self, *, limit: int | None = None, session: str | None = None, **bounds: Any) -> list[Chapter]:
        """
        Returns what agents did, prompt by prompt, newest first: what was asked, which tools ran, what each changed.

        `bounds` are `since`, `until`, `grep` and `agent`, as `log` takes them.
        """
        from mulligan.history.news import told_by
        from mulligan.timeline.turns import Stack

        with self._reading() as store:
            if store is None:
                return []
            found = store.events.newest(None, store.events.session(session) if session is not None else None)
            stack = Stack(store)
            told = told_by(store, found, stack.undone() | stack.reverted(), None if bounds else limit)
        if bounds:
            from mulligan.history.filters import keeps_chapter, parse_filters

            filters = parse_filters(**bounds)
            told = [each for each in told if filters is None or keeps_chapter(filters, each)]
        return told[:limit]

    def newest_rows(self) -> tuple[object, ...]:
        """Returns numbers that differ whenever the timeline changed, at little cost; `news` says what changed."""
        from mulligan.history.news import newest_rows

        with self._reading() as store:
            return newest_rows(store) if store is not None else ()

    def news(self, since: TimelineRows | None = None, known: Mapping[str, str | None] | None = None) -> News:
        """
        Returns what was added to the timeline after some rows of it; without them, all of it.

        `known` is the parent of each checkpoint that the caller read before: the news say which of them were removed or moved.
        """
        from mulligan.history.news import News, TimelineRows, read_news

        with self._reading() as store:
            return read_news(store, since, known or {}) if store is not None else News(TimelineRows())

    def news_for(self, session: str) -> list[RestoreNotice]:
        """Returns what was undone, restored or redone under a session since its last prompt; ask before recording the next."""
        from mulligan.timeline.notices import notices_for

        with self._reading() as store:
            return notices_for(store.database, session) if store is not None else []

    def _tell_restored(self, verb: str, report: RestoreReport) -> None:
        """Tells handlers about a restore, and remembers it for the agents that were at work here."""
        self._events.emit("restored", report)
        if not self._bench.store.has_events() or not (report.created or report.modified or report.deleted):
            return
        from mulligan.timeline.notices import add_notice, notice_of

        # The restore is done: that an agent does not hear of it is no reason to call it failed.
        with suppress(MulliganError), self._writing("notice"):
            store = self._bench.store
            undone, target = report.undone, store.checkpoints.by_id(report.target)
            since = target.created_ns if target is not None and target.checkpoint.kind != "safety" else 0
            if undone is not None and undone.at is not None:
                since = min(since, int(undone.at.timestamp() * 1_000_000_000))
            with store.database.transaction():
                add_notice(store.database, notice_of(verb, report), since_ns=since, now_ns=self._bench.now_ns())

    def expect_hooks(self, agent: str, files: Sequence[str]) -> None:
        """Remembers the files of the workspace that hold an agent's hooks, so that it is noticed when they vanish."""
        with self._reading() as store:
            known = _known_hooks(store) if store is not None else {}
        if known.get(agent, []) == list(files) or store is None:
            return
        with self._writing("hook"), self._bench.store.database.transaction():
            kept = {name: named for name, named in known.items() if name != agent}
            text = json.dumps({**kept, agent: list(files)} if files else kept)
            self._bench.store.database.set_meta(_HOOKS, text)

    def missing_hooks(self) -> list[tuple[str, str]]:
        """Returns the agents whose hooks stood in a file of this workspace and do not any more, with that file."""
        with self._reading() as store:
            known = _known_hooks(store) if store is not None else {}
        gone = [(agent, [file for file in files if not self._holds_hooks(file)]) for agent, files in known.items()]
        return [(agent, missing[0]) for agent, missing in gone if missing]

    def _holds_hooks(self, file: str) -> bool:
        from mulligan.safefs.userfile import read_user_file

        try:
            return b"mulligan" in (read_user_file(os.path.join(self.root, file), limit=_LARGEST) or b"")
        except OSError:
            return False

    def protection(self) -> dict[str, Any]:
        """Returns when each agent was last heard of, and what hooks could not do since the last `doctor`."""
        from mulligan.timeline.notices import failures

        with self._reading() as store:
            heard = store.events.heard() if store is not None else []
            names = store.events.short_names() if heard and store is not None else {}
        failed = failures(self.settings)
        return {
            "agents": [{**each.to_dict(), "short": names[each.event.session]} for each in heard],
            "failures": {"count": len(failed), "last": failed[-1] if failed else None},
            "missing_hooks": [{"agent": agent, "file": file} for agent, file in self.missing_hooks()],
        }


def _known_hooks(store: Store) -> dict[str, list[str]]:
    text = store.database.meta(_HOOKS)
    found = read_json(text) if text else {}
    return found if isinstance(found, dict) else {}


def parse_paths(paths: Paths | None, what: str, *, git: bool = False) -> tuple[bytes, ...] | None:
    """Returns paths that a caller gave, safe; raises UserError where they cannot be combined with the rest."""
    if what not in WHAT:
        raise UserError(f"what is one of {', '.join(WHAT)}, not {what!r}. Nothing was changed.")
    if git and (paths is not None or what == "state"):
        raise UserError("Git goes back with all files, not with some paths or with state alone. Nothing was changed.")
    if isinstance(paths, str | bytes | os.PathLike):
        raise TypeError("paths is a list of paths, not one path")
    return None if paths is None else tuple(parse_path(path) for path in paths)
