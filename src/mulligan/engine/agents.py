"""
What agents do in a workspace: recording it, telling it as a story, noticing where it is not recorded.

One call records one event of an agent: it saves the workspace if anything changed, with its cause, and remembers the event in
the same transaction.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mulligan.engine.remarks import missing_hooks
from mulligan.engine.save import make_draft, save_draft, tell_saved
from mulligan.engine.workbench import Workbench
from mulligan.errors import UnknownCheckpoint
from mulligan.model.checkpoint import Checkpoint, as_json_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mulligan.history.news import News, TimelineRows
    from mulligan.model.checkpoint import Holding
    from mulligan.model.event import AgentEvent, RecordedEvent
    from mulligan.timeline.commits import CheckpointDraft
    from mulligan.timeline.notices import RestoreNotice
    from mulligan.timeline.outside_changes import Rewind
    from mulligan.timeline.store import Store
    from mulligan.timeline.story import Chapter
    from mulligan.timeline.trees import WorkspaceView

#: The only client that writes a permission into the project while a tool call waits for it.
_CLAUDE = b".claude"


def record(bench: Workbench, event: AgentEvent, state: Callable[[int], Mapping[str, Any]] | None) -> Checkpoint | None:
    """
    Remembers one event of an agent; returns the checkpoint if one was needed, None when nothing changed since the position.

    `state` makes what goes into the checkpoint beside the files, if there is one, from where the transcript of this session
    stood at the last; it alone makes none necessary.
    """
    with bench.writing("hook", create=True) as store:
        events, place = store.events, store.events.place(event, bench.now_ns())
        about = ": ".join(filter(None, (event.tool, event.text)))
        staged = None
        if event.begins_turn:
            from mulligan.restore.git import staged_record

            staged = staged_record(bench.settings)  # it goes back with `restore @prompt-2 --git`
        draft = make_draft(bench, "", about, "step", metadata=place.cause(event), git=staged)
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

                yours = tuple(find_grants(bench.settings.workspace, event, store.checkpoints.current(), look))
                begun = begun._replace(metadata=place.without(yours).cause(event)) if yours else begun
            if state is None:
                return begun
            return begun._replace(state=as_json_object(state(events.saved_at(event)), "state"))

        def remember() -> None:
            events.add(event, place, draft.id, saved=True, now_ns=draft.created_ns)
            for rewind in rewinds:
                # The states in between hold what was rewound: an undo must not bring it back.
                store.moves.mark_top(*rewind.marks())

        def remember_alone() -> None:
            with store.database.transaction():
                events.add(event, place, store.checkpoints.position(), saved=False, now_ns=draft.created_ns)

        if bench.root.is_gone():
            remember_alone()
            raise bench.root.gone()
        saved = save_draft(bench, draft, if_changed=True, with_state=False, also=remember, finish=finish)
        if saved[0] is None:
            remember_alone()
    return tell_saved(bench, *saved)


def holding(bench: Workbench, paths: Sequence[str]) -> list[Holding]:
    """Returns, for each of these paths (relative, `.` for all), what an undo would bring back and what is not saved."""
    from mulligan.timeline.differences import holdings

    wanted = [os.fsencode(path) if path not in {"", "."} else b"" for path in paths]
    with bench.reading() as store:
        entry = store.checkpoints.current() if store is not None else None
        return holdings(bench.settings.workspace, entry, bench.look(with_git=False), wanted)


def agent_events(bench: Workbench, limit: int | None, session: str | None) -> list[RecordedEvent]:
    """Returns what agents did here, newest first; of one session, by the beginning of its id."""
    with bench.reading() as store:
        if store is None:
            return []
        return store.events.newest(limit, store.events.session(session) if session is not None else None)


def agent_event_at(bench: Workbench, ref: str) -> AgentEvent | None:
    """Returns the event that a reference like `@prompt-2` means, None for any other reference."""
    with bench.reading() as store:
        found = store.events.find(ref) if store is not None and ref.startswith("@") else None
    return found.event if found is not None else None


def story(bench: Workbench, limit: int | None, session: str | None, bounds: dict[str, Any]) -> list[Chapter]:
    """Returns what agents did, prompt by prompt, newest first: here, and on the machines that were pulled from."""
    with bench.reading() as store:
        if store is None:
            return []
        most = None if bounds else limit
        told = _story_of_session(store, session) if session is not None else _whole_story(store, most)
    return bounded_story(told, bounds)[:limit]


def own_story(store: Store, session: str | None = None, limit: int | None = None) -> list[Chapter]:
    """Returns what agents did on this machine, newest first."""
    from mulligan.history.news import told_by
    from mulligan.timeline.turns import Stack

    found = store.events.newest(None, store.events.session(session) if session is not None else None)
    stack = Stack(store)
    return told_by(store, found, stack.undone() | stack.reverted(), limit)


def _whole_story(store: Store, limit: int | None) -> list[Chapter]:
    own = own_story(store, None, limit)
    if not store.database.knows_remotes():
        return own
    from mulligan.remotes.stories import newest_first, pulled_story

    others = pulled_story(store, limit)
    return newest_first([*own, *others]) if others else own


def _story_of_session(store: Store, session: str) -> list[Chapter]:
    """Returns the story of a session by the beginning of its id: of this machine, else of another."""
    try:
        return own_story(store, session)
    except UnknownCheckpoint:
        others = _whole_story(store, None) if store.database.knows_remotes() else []
        found = [each for each in others if each.machine and each.session.startswith(session)]
        if not found:
            raise
        return found


def bounded_story(told: list[Chapter], bounds: dict[str, Any]) -> list[Chapter]:
    """Returns the prompts within some bounds, which are as for `log`."""
    if not bounds:
        return told
    from mulligan.history.filters import keeps_chapter, parse_filters

    filters = parse_filters(**bounds)
    return [each for each in told if filters is None or keeps_chapter(filters, each)]


def newest_rows(bench: Workbench) -> tuple[object, ...]:
    """Returns numbers that differ whenever the timeline changed, at little cost."""
    from mulligan.history.news import newest_rows

    with bench.reading() as store:
        return newest_rows(store) if store is not None else ()


def news(bench: Workbench, since: TimelineRows | None = None, known: Mapping[str, str | None] | None = None) -> News:
    """Returns what was added to the timeline after some rows of it; without them, all of it."""
    from mulligan.history.news import News, TimelineRows, read_news

    with bench.reading() as store:
        return read_news(store, since, known or {}) if store is not None else News(TimelineRows())


def news_for(bench: Workbench, session: str) -> list[RestoreNotice]:
    """Returns what was undone, restored or redone under a session since its last prompt."""
    from mulligan.timeline.notices import notices_for

    with bench.reading() as store:
        return notices_for(store.database, session) if store is not None else []


def protection(bench: Workbench) -> dict[str, Any]:
    """Returns when each agent was last heard of, and what hooks could not do since the last `doctor`."""
    from mulligan.timeline.notices import failures

    with bench.reading() as store:
        heard = store.events.heard() if store is not None else []
        names = store.events.short_names() if heard and store is not None else {}
    failed = failures(bench.settings)
    return {
        "agents": [{**each.to_dict(), "short": names[each.event.session]} for each in heard],
        "failures": {"count": len(failed), "last": failed[-1] if failed else None},
        "missing_hooks": [{"agent": agent, "file": file} for agent, file in missing_hooks(bench)],
    }
