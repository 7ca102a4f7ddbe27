"""
Takes back some steps of the timeline and keeps everything else, three-way.

A step is what led to a checkpoint. Steps are found by reference: a prompt (a turn), a tool call, a session, a checkpoint. `revert`
takes back any of them; an undo of a turn takes back the newest turn, and a redo takes back what an undo did. All three use
`take_back`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mulligan.engine.asked import Asked, Hunks, Paths, parse_asked, with_contents
from mulligan.engine.restore import (
    contents_of,
    go,
    patiently,
    plan_git_move,
    settled,
    stands_already,
    tell_restored,
)
from mulligan.engine.restore import plan as plan_restore
from mulligan.engine.save import keep, make_draft
from mulligan.engine.workbench import Workbench
from mulligan.errors import NothingToUndo, UnknownCheckpoint, UserError
from mulligan.model.bounded import read_json
from mulligan.model.cause import CAUSE
from mulligan.model.checkpoint import Checkpoint
from mulligan.model.event import ENDED, Turn
from mulligan.model.paths import covers, to_text
from mulligan.model.plan import RestorePlan, RestoreReport, Undone
from mulligan.restore.procedure import LANDING
from mulligan.restore.reach import busy, remaining
from mulligan.steps.choose import choose, list_hunks
from mulligan.timeline.commits import Entry, made_on_other_branch
from mulligan.timeline.trees import lists_hidden, same_state, state_of
from mulligan.timeline.turns import REVERTED, REVERTED_TURN, TurnStep, TurnSteps
from mulligan.timeline.undo import Move, UndoMark

if TYPE_CHECKING:
    from typing import TypeVar

    from mulligan.model.event import RecordedEvent
    from mulligan.restore.reach import Attempts
    from mulligan.steps.hunk import FileHunks
    from mulligan.steps.three_way import RevertedStep
    from mulligan.timeline.trees import State, WorkspaceView

    Done = TypeVar("Done")


# As much of a prompt is quoted in a description.
_TEXT = 40
#: What becomes of a conflict in a revert.
CONFLICTS = ("keep", "markers", "ours", "theirs")


class TakeBack(NamedTuple):
    """
    Some steps to take back, and what the timeline shall know of it.

    `steps` gets the workspace as it is and returns them, newest first. `target` is the checkpoint that git would go back to, and
    where the files stand afterwards if nothing else changed. `since` is the number of the last checkpoint before the steps,
    `newest` the checkpoint that holds the newest of them. With `skips`, steps of which nothing can be undone are passed over.
    `verb` and `ref` are for the plan: what is asked for, by its full name.
    """

    steps: Callable[[State], Sequence[RevertedStep]]
    undone: Undone
    mark: UndoMark = UndoMark()
    target: Entry | None = None
    since: int = 0
    newest: Entry | None = None
    skips: bool = False
    verb: str = "undo"
    ref: str = ""
    session: str | None = None


# -- which steps -------------------------------------------------------------------------------------


@with_contents
def revert(
    bench: Workbench,
    ref: str | Checkpoint,
    paths: Paths | None,
    hunks: Hunks | None,
    *,
    dry_run: bool,
    conflicts: str,
) -> RestorePlan | RestoreReport:
    """Takes back one step and keeps everything later."""
    if conflicts not in CONFLICTS:
        raise UserError(f"conflicts is one of {', '.join(CONFLICTS)}, not {conflicts!r}. Nothing was changed.")
    asked = parse_asked(paths, hunks)._replace(dry_run=dry_run, conflicts=conflicts)
    return hold_for("revert", bench, asked, lambda: revert_steps(bench, ref, asked))


@with_contents
def hunks(
    bench: Workbench, ref: str | Checkpoint | RestorePlan, paths: Paths | None, *, reverted: bool
) -> list[FileHunks]:
    """Returns the changes that a restore to `ref`, a revert of it, or a plan would make, in hunks that can be chosen."""
    if isinstance(ref, RestorePlan):
        found = ref
    elif reverted:
        found = cast("RestorePlan", revert(bench, ref, paths, None, dry_run=True, conflicts="keep"))
    else:
        found = plan_restore(bench, ref, paths, None, what="files", git=False)
    with bench.needing():
        return list_hunks(contents_of(bench), found)


def hold_for(verb: str, bench: Workbench, asked: Asked, act: Callable[[], Done]) -> Done:
    """Does what a verb does, with the store held unless only a plan is asked for; notifies of what was done."""
    with bench.needing() if asked.dry_run else bench.writing(verb, needed=True):
        done = act()
    if isinstance(done, RestoreReport):
        tell_restored(bench, verb, done)
    return done


def revert_steps(bench: Workbench, ref: str | Checkpoint, asked: Asked) -> RestorePlan | RestoreReport:
    """Takes back what a reference means and keeps everything later; raises NothingToUndo."""
    what = find_steps(bench, ref)
    done = take_back(bench, what._replace(verb="revert", mark=UndoMark()), asked)
    if done is None:
        raise NothingToUndo(
            f"Nothing is left of {words(what.undone)}, so there is nothing to revert. Nothing was changed.",
            hint="mulligan log",
        )
    return done


def find_steps(bench: Workbench, ref: str | Checkpoint) -> TakeBack:
    """Returns the steps that a reference means: a prompt, a tool call, a checkpoint or a session, tried in this order."""
    store = bench.store
    if isinstance(ref, Checkpoint):
        return _of_checkpoint_alone(bench, store.resolve(ref))
    event = store.events.find(ref) if ref.startswith("@") else None
    if event is not None:
        return _of_tool(bench, event) if event.number else _of_prompt(bench, Turn(event.event.session, event.prompt))
    try:
        return _of_checkpoint_alone(bench, store.resolve(ref))
    except UnknownCheckpoint as unknown:
        try:
            session = store.events.session(ref.removeprefix("@"))
        except UnknownCheckpoint:
            raise unknown from None
        return _of_session(bench, session)


def _of_prompt(bench: Workbench, turn: Turn) -> TakeBack:
    what = of_turn(bench, TurnSteps(bench.store), turn)
    return what._replace(ref=f"@{turn.session}/prompt-{turn.prompt}")


def of_turn(bench: Workbench, turns: TurnSteps, turn: Turn) -> TakeBack:
    """Returns the steps of a turn, with what it has not saved yet."""
    parts = turns.of(turn)
    unsaved = turns.unsaved(turn, bench.now_ns())
    top = bench.store.checkpoints.current()

    def steps(now: State) -> list[RevertedStep]:
        from mulligan.steps.three_way import RevertedStep

        found = [step_of(part) for part in parts]
        return [RevertedStep(top.trees, now, unsaved), *found] if unsaved is not None and top is not None else found

    return _of_parts(parts, about_turn(bench, turns, turn))._replace(
        steps=steps, mark=UndoMark(turn), newest=turns.newest_of(turn)
    )


def _of_parts(parts: Sequence[TurnStep], undone: Undone) -> TakeBack:
    start = next((part.start for part in reversed(parts)), None)
    entries = [part.entry for part in parts if part.entry is not None]
    first = min((entry.seq for entry in entries), default=1)
    since = start.seq - 1 if start is not None else first - 1
    newest = entries[0] if entries else None
    return TakeBack(lambda _: [step_of(part) for part in parts], undone, UndoMark(), start, since, newest)


def about_turn(bench: Workbench, turns: TurnSteps, turn: Turn) -> Undone:
    """Names a turn: its prompt, its agent and when it was last at work."""
    events = bench.store.events
    newest, begun, last = turns.newest_of(turn), events.begun(turn), events.last(turn.session)
    agent = begun.event.agent if begun is not None else last.event.agent if last is not None else ""
    return Undone(
        "turn", newest.id if newest is not None else "",
        newest.checkpoint.created_at if newest is not None else last.created_at if last is not None else None,
        turn.prompt, begun.event.text if begun is not None else "", turn.session, agent,
        running=events.is_open(turn),
    )  # fmt: skip


def _of_tool(bench: Workbench, event: RecordedEvent) -> TakeBack:
    """Returns what one tool call changed."""
    session, number, turns = event.event.session, event.number, TurnSteps(bench.store)
    if event.prompt:
        parts = [part for part in turns.of(Turn(session, event.prompt)) if _is_of_tool(part.entry, session, number)]
    else:
        entries = [entry for entry in bench.store.checkpoints.newest() if _is_of_tool(entry, session, number)]
        parts = [part for entry in entries if (part := _part(bench, entry)) is not None]
    newest = parts[0].entry if parts else None
    undone = Undone(
        "tool", newest.id if newest is not None else "", event.created_at, event.prompt, event.event.text, session,
        event.event.agent, tool=number,
    )  # fmt: skip
    return _of_parts(parts, undone)._replace(ref=f"@{session}/tool-{number}")


def _is_of_tool(entry: Entry | None, session: str, number: int) -> bool:
    cause = entry.checkpoint.metadata.get(CAUSE) if entry is not None else None
    if not isinstance(cause, dict):
        return False
    return (cause.get("session"), cause.get("tool")) == (session, number) and cause.get("when") in ENDED


def _of_session(bench: Workbench, session: str) -> TakeBack:
    """Returns all that a session did."""
    turns = TurnSteps(bench.store)
    found = [of_turn(bench, turns, turn) for turn in turns.turns_of(session)]
    if not found:
        raise NothingToUndo(f"Session {session} changed no files. Nothing was changed.", hint="mulligan log --story")
    last = bench.store.events.last(session)
    undone = Undone(
        "session", found[0].undone.checkpoint, found[0].undone.at, session=session,
        agent=last.event.agent if last is not None else "", running=found[0].undone.running,
    )  # fmt: skip

    def steps(now: State) -> list[RevertedStep]:
        return [step for what in found for step in what.steps(now)]

    since, target = min(what.since for what in found), found[-1].target
    return TakeBack(steps, undone, UndoMark(), target, since, found[0].newest, ref=f"@{session}")


def _of_checkpoint_alone(bench: Workbench, entry: Entry) -> TakeBack:
    found = of_checkpoint(bench, entry)
    if found is None:
        raise UserError(
            f"{entry.checkpoint.short_id} is the first checkpoint: there is no step before it to revert to. Nothing was changed.",
            hint="mulligan log",
        )
    return found._replace(skips=False, ref=entry.id)


def of_checkpoint(bench: Workbench, entry: Entry) -> TakeBack | None:
    """Returns what led to a checkpoint; None for the first one."""
    part = _part(bench, entry)
    if part is None:
        return None
    undone = Undone("step", entry.id, entry.checkpoint.created_at)
    if entry.checkpoint.kind == "safety":
        undone = Undone("unsaved", part.start.id if part.start is not None else "", entry.checkpoint.created_at)
    return TakeBack(
        lambda _: [step_of(part)], undone, UndoMark(step=entry.id), part.start, entry.seq - 1, entry, skips=True
    )


def _part(bench: Workbench, entry: Entry) -> TurnStep | None:
    start = bench.store.checkpoints.by_id(entry.checkpoint.parent or "")
    before = entry.before or (start.trees if start is not None else None)
    return TurnStep(before, entry.trees, lambda _: True, entry, start) if before is not None else None


def step_of(part: TurnStep) -> RevertedStep:
    """Returns a part of the timeline as a step to take back."""
    from mulligan.scan.trees import cover_of
    from mulligan.steps.three_way import RevertedStep

    unseen = list(part.entry.unseen_before) if part.entry is not None else []
    if part.start is not None and (part.entry is None or part.entry.before is None):
        unseen += part.start.checkpoint.not_captured
    hidden = part.entry.checkpoint.not_captured if part.entry is not None else ()
    return RevertedStep(part.before, part.after, part.mine, cover_of(unseen), cover_of(hidden))


def words(undone: Undone) -> str:
    """Names an operation in a sentence or a checkpoint's description."""
    if undone.kind in {"turn", "tool"}:
        what = f"prompt {undone.prompt}" if undone.kind == "turn" else f"tool call {undone.tool}"
        text = " ".join(undone.text.split())
        return f'{what} "{text[:_TEXT]}{"…" * (len(text) > _TEXT)}"' if text else f"{what} of {undone.session[:8]}"
    if undone.kind == "session":
        return f"session {undone.session[:8]}"
    return f"checkpoint {undone.checkpoint[:8]}" if undone.kind == "step" and undone.checkpoint else undone.kind


# -- taking them back --------------------------------------------------------------------------------


def take_back(bench: Workbench, what: TakeBack, asked: Asked) -> RestorePlan | RestoreReport | None:
    """
    Takes back some steps and keeps everything else; None when nothing of them is left.

    What cannot be merged stays and is listed. After an undo, the next `redo` brings the steps forward again; after a revert, the
    next `undo` does.
    """
    if asked.dry_run:
        return plan_without(bench, what, asked, bench.look())
    bench.root.prepare()
    report = patiently(lambda attempts: _taken_back(bench, what, asked, attempts), asked.promise)
    if report is None or report.undo is None:
        return report
    if what.verb == "revert":
        return replace(report, target=land_revert(bench, _landing(what, asked)))
    return replace(report, target=land_undo(bench, f"after undo of {words(what.undone)}", what.target))


def land_undo(bench: Workbench, about: str, *known: Entry | None) -> str:
    """Saves what an undo of a part left, as the state that the next undo starts from; returns that checkpoint."""
    landed = land(bench, about, *known)
    with bench.store.database.transaction():
        bench.store.moves.landed(landed)
        bench.store.checkpoints.set_position(landed)
    return landed


def _landing(what: TakeBack, asked: Asked) -> str:
    """Returns what the checkpoint after a revert says of it, as the journal keeps it."""
    is_whole = what.undone.kind == "turn" and not asked.is_partial
    turn = {REVERTED_TURN: [what.undone.session, what.undone.prompt]} if is_whole else {}
    return json.dumps({REVERTED: words(what.undone), **turn})


def land_revert(bench: Workbench, said: str) -> str:
    """Saves what a revert left, as the state that the next undo starts from; returns that checkpoint."""
    metadata = read_json(said)
    landed = land(bench, f"after revert of {metadata[REVERTED]}", metadata=metadata)
    with bench.store.database.transaction():
        bench.store.moves.push(Move(landed, restored=True), keep_redo=True)
        bench.store.checkpoints.set_position(landed)
        bench.store.database.set_meta(LANDING, "")
    return landed


def _taken_back(bench: Workbench, what: TakeBack, asked: Asked, attempts: Attempts | None) -> RestoreReport | None:
    with bench.store.objects.writer() as writer:
        look = bench.look(writer)
        plan = plan_without(bench, what, asked, look)
        if plan is None:
            return None
        git = plan_git_move(bench, what.target, asked)
        if restless := attempts.gave_up(plan.actions) if git is None and attempts is not None else ():
            plan = remaining(plan, busy(restless))
        plan = asked.agreed(plan)
        mark = what.mark if not asked.is_partial else UndoMark()
        if plan.is_noop:
            return _leave_all(bench, plan, mark)
        here = bench.store.checkpoints.resolve("@")
        since = (what.target or here, asked.paths)
        return go(bench, here, plan, look, writer, verb=what.verb, git=git, attempts=attempts,
            mark=mark.text if what.verb == "undo" else _landing(what, asked), since=since,
        )  # fmt: skip


def plan_without(bench: Workbench, what: TakeBack, asked: Asked, look: WorkspaceView) -> RestorePlan | None:
    """Returns the plan to take back some steps; None when nothing would change and nothing is listed."""
    from mulligan.steps.three_way import StepRules, draw_wanted, without
    from mulligan.timeline.secrets import closed_secrets

    store = bench.store
    now = state_of(look.scan)
    steps = what.steps(now)
    rules = StepRules(_chosen(asked.paths), asked.conflicts, f"before {words(what.undone)}")
    wanted = without(look.source, now, steps, contents_of(bench).now, rules)
    git = plan_git_move(bench, what.target, asked)
    if not wanted.nodes and git is None and (what.skips or not wanted.kept):
        return None
    drawn = draw_wanted(
        look.source,
        look.scan,
        wanted,
        lambda: store.checkpoints.hidden_since(what.since),
        partial(stands_already, bench),
        closed_secrets(store, steps),
    )
    drawn = settled(bench, drawn, look)
    paths = tuple(map(to_text, asked.paths)) if asked.paths is not None else tuple(
        to_text(action.path) for action in drawn.actions
    )  # fmt: skip
    branch = made_on_other_branch(what.newest, look.git) if what.newest is not None and git is None else ""
    conflicts = tuple(wanted.conflicts[path] for path in sorted(wanted.conflicts))
    plan = RestorePlan(
        store.checkpoints.position(), "files", paths, drawn.actions, drawn.keeps, git.move if git else None,
        drawn.absent, what.undone, branch, conflicts, contents=wanted.contents,
    )  # fmt: skip
    return asked.planned(choose(contents_of(bench), plan, asked.hunks), what.verb, what.ref, what.session)


def _chosen(paths: tuple[bytes, ...] | None) -> Callable[[bytes], bool]:
    if paths is None:
        return lambda _: True
    return lambda path: any(covers(choice, path) for choice in paths)


def _leave_all(bench: Workbench, plan: RestorePlan, mark: UndoMark) -> RestoreReport:
    """Remembers that an undo could take back nothing, so that the next one goes further; no checkpoint is needed."""
    if mark != UndoMark():
        with bench.store.database.transaction():
            bench.store.moves.push(Move(plan.target, gone=True, mark=mark), keep_redo=True)
    return RestoreReport(
        plan.target, kept=list(plan.keeps), undone=plan.undone, branch=plan.branch, conflicts=list(plan.conflicts)
    )


def land(bench: Workbench, about: str, *known: Entry | None, metadata: Mapping[str, Any] | None = None) -> str:
    """Returns a checkpoint that holds what is there now: one of those that are known, else a new one."""
    with bench.store.objects.writer() as writer:
        look = bench.look(writer)
        for entry in known:
            if entry is not None and same_state(entry, look.scan) and lists_hidden(entry, look.scan):
                return entry.id
        draft = make_draft(bench, "", about, "safety", metadata=metadata or {})
        return keep(bench, draft, look, writer, as_position=False)[0].id
