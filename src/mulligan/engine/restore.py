"""
Brings a state back: plans it, saves what is there, applies the plan, and ends what was interrupted.

`plan` and `restore` are the verbs. Everything else here is called with the store's lock held, by them, by undo and by revert.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mulligan.engine.asked import Asked, Hunks, Paths, Promise, parse_asked, with_contents
from mulligan.engine.save import keep, make_draft
from mulligan.engine.workbench import Workbench
from mulligan.errors import MulliganError, PlanStale, UserError
from mulligan.model.objects import BLOB
from mulligan.model.paths import parent_of, to_text
from mulligan.model.plan import RestorePlan, RestoreReport, crosses_over, is_agent_settings
from mulligan.restore.place import stands
from mulligan.restore.plan import DrawnPlan, RestoreTarget, draw
from mulligan.restore.procedure import carry_out
from mulligan.restore.reach import (
    BUSY,
    Attempts,
    WritablePart,
    forget_named,
    lost_since,
    to_reinstall,
    written_in_hiding,
)
from mulligan.safefs.directory import Directory, random_name
from mulligan.scan.scope import IGNORE_FILE
from mulligan.scan.trees import cover_of
from mulligan.timeline.commits import ABSENT, BUSY_THEN, Entry, made_on_other_branch
from mulligan.timeline.journal import Journal, state_given
from mulligan.timeline.trees import WorkspaceView, lists_hidden, same_state
from mulligan.timeline.undo import Move

if TYPE_CHECKING:
    from typing import TypeVar

    from mulligan.model.checkpoint import Checkpoint, Sealed
    from mulligan.model.gitposition import GitRecord
    from mulligan.model.plan import Node
    from mulligan.steps.choose import Contents
    from mulligan.usergit.moving import PlannedMove

    Done = TypeVar("Done")


def _moves_scope(plan: RestorePlan) -> bool:
    """Returns whether a plan changes rules of what is captured."""
    return any(os.path.basename(action.path) == IGNORE_FILE for action in plan.actions)


def contents_of(bench: Workbench) -> Contents:
    """Where the bytes of the workspace and of the store are read."""
    from mulligan.steps.choose import Contents

    return Contents(bench.settings.workspace, bench.store.objects)


def make_plan(
    bench: Workbench,
    entry: Entry,
    look: WorkspaceView | None,
    paths: tuple[bytes, ...] | None,
    what: str,
    *,
    git: PlannedMove | None = None,
) -> RestorePlan:
    """Returns what would bring the workspace to a checkpoint; without a look at it, nothing (state only)."""
    shown = tuple(to_text(path) for path in paths) if paths is not None else None
    if look is None:
        return RestorePlan(entry.id, what, shown)
    since = partial(bench.store.checkpoints.hidden_after, entry)
    target = RestoreTarget(*entry.trees[:3], entry.checkpoint.not_captured, since, *_secrets_of(bench, entry))
    certain = (*bench.settings.capture.certain, *entry.by_name, *entry.absent)
    rules = bench.settings.capture._replace(certain=certain) if certain else bench.settings.capture
    if paths is not None:
        from mulligan.restore.spelling import NamesHere

        paths = NamesHere(look, bench.settings.workspace).with_spellings(paths)
    drawn = draw(look.source, look.scan, target, paths, already=partial(stands_already, bench), rules=rules)
    if paths is None and any(is_agent_settings(action.path) for action in drawn.actions):
        from mulligan.restore.agent_settings import spare_settings

        drawn = spare_settings(drawn, look, entry, bench.store)
    drawn = settled(bench, drawn, look)
    move = git.move if git is not None else None
    branch = made_on_other_branch(entry, look.git) if git is None else ""
    return RestorePlan(entry.id, what, shown, drawn.actions, drawn.keeps, move, drawn.absent, branch=branch)


def _secrets_of(bench: Workbench, entry: Entry) -> tuple[Sealed, bool, dict[bytes, str]]:
    """Returns what `secrets_of` does; loads the code for it only where a checkpoint has secrets."""
    plain = entry.checkpoint.plain_secrets
    if plain is None or not (plain.get("key") or plain.get("files")):
        return {}, plain is not None, {}
    from mulligan.timeline.secrets import secrets_of

    return secrets_of(bench.store, entry)


def settled(bench: Workbench, drawn: DrawnPlan, look: WorkspaceView) -> DrawnPlan:
    """Returns a plan for the names of this file system, without files that only git's list of tracked files changed."""
    if any(action.before is None for action in drawn.actions):
        from mulligan.restore.spelling import NamesHere, settle_spelling

        here = NamesHere(look, bench.settings.workspace)
        drawn = settle_spelling(drawn, here.names_in, here.folds)
    if any(map(crosses_over, drawn.actions)):
        from mulligan.restore.secrets import without_same_bytes

        return drawn._replace(actions=without_same_bytes(bench.store, drawn.actions, look.scan.sealed))
    return drawn


def within_reach(bench: Workbench, plan: RestorePlan, look: WorkspaceView) -> RestorePlan:
    """Returns a plan without what cannot be written, which it lists; raises UserError where nothing else is left."""
    with Directory.open(bench.settings.workspace) as root:
        reach = WritablePart(bench.store, root, random_name(6), plan, "undo", Attempts(0), look.scan.sealed)
        reach.close()
    return reach.plan


def stands_already(bench: Workbench, path: bytes, node: Node) -> bool:
    """Returns whether a path that is not captured is, all the same, what a checkpoint holds."""
    try:
        with Directory.open(bench.settings.workspace) as root, root.descend(parent_of(path)) as directory:
            return stands(directory, os.path.basename(path), node)
    except OSError:
        return False  # not reachable, so not the same


@with_contents
def plan(
    bench: Workbench, ref: str | Checkpoint, paths: Paths | None, hunks: Hunks | None, *, what: str, git: bool
) -> RestorePlan:
    """Returns what a restore would do, or with `hunks` (their ids) a part of it. Changes nothing."""
    asked = parse_asked(paths, hunks, what, git=git)
    with bench.needing() as store:
        entry = store.resolve(ref)
        look = bench.look(by_name=entry.by_name) if what != "state" else None
        return plan_asked(bench, entry, look, asked, what, git=plan_git_move(bench, entry, asked))


@with_contents
def restore(
    bench: Workbench,
    ref: str | Checkpoint,
    paths: Paths | None,
    hunks: Hunks | None,
    *,
    what: str,
    git: bool,
    stage: str,
) -> RestoreReport:
    """Takes the workspace, or a part of it, back to a checkpoint."""
    if git and stage:
        raise UserError("Either git goes back, or a commit is staged, not both. Nothing was changed.")
    asked = parse_asked(paths, hunks, what, git=git or bool(stage))._replace(git=git)
    with bench.writing("restore", needed=True) as store:
        report = bring_back(bench, store.resolve(ref), asked, what=what, stage=stage)
    tell_restored(bench, "restore", report)
    return report


def tell_restored(bench: Workbench, verb: str, report: RestoreReport) -> None:
    """Notifies handlers of a restore, and remembers it for the agents that were at work here."""
    bench.emit("restored", report)
    if not bench.store.has_events() or not (report.created or report.modified or report.deleted):
        return
    from mulligan.timeline.notices import add_notice, notice_of

    # The restore is done: that an agent does not hear of it is no reason to call it failed.
    with suppress(MulliganError), bench.writing("notice") as store:
        undone, target = report.undone, store.checkpoints.by_id(report.target)
        since = target.created_ns if target is not None and target.checkpoint.kind != "safety" else 0
        if undone is not None and undone.at is not None:
            since = min(since, int(undone.at.timestamp() * 1_000_000_000))
        with store.database.transaction():
            add_notice(store.database, notice_of(verb, report), since_ns=since, now_ns=bench.now_ns())


def plan_git_move(bench: Workbench, entry: Entry | None, asked: Asked, stage: str = "") -> PlannedMove | None:
    """Returns how git would move, None where it does not: then nothing of it is loaded."""
    if entry is None or not (asked.git or stage):
        return None
    from mulligan.restore.git import plan_git, plan_staging_of

    return plan_git(bench.store, entry) if asked.git else plan_staging_of(bench.store, stage)


def bring_back(bench: Workbench, entry: Entry, asked: Asked, *, what: str = "files", stage: str = "") -> RestoreReport:
    """Brings a checkpoint back, with git or with a commit to `stage`; paths that keep changing are left alone."""
    if entry.checkpoint.machine:
        from mulligan.remotes.pulled import keep_own

        entry = keep_own(bench.store, entry, bench.now_ns())
    bench.root.prepare()

    def attempt(attempts: Attempts | None) -> RestoreReport:
        with bench.store.objects.writer() as writer:
            look = bench.look(writer, by_name=entry.by_name)
            git = plan_git_move(bench, entry, asked, stage)
            plan = plan_asked(bench, entry, look if what != "state" else None, asked, what, git=git)
            plan = asked.agreed(plan)
            return go(bench, entry, plan, look, writer, verb="restore", git=git, attempts=attempts)

    return patiently(attempt, asked.promise)


def plan_asked(
    bench: Workbench,
    entry: Entry,
    look: WorkspaceView | None,
    asked: Asked,
    what: str,
    *,
    git: PlannedMove | None = None,
) -> RestorePlan:
    """Returns the plan of a restore, with the hunks that were chosen and what it was asked for."""
    plan = make_plan(bench, entry, look, asked.paths, what, git=git)
    if asked.hunks is not None:
        from mulligan.steps.choose import choose

        plan = choose(contents_of(bench), plan, asked.hunks)
    return asked.planned(plan, "restore", entry.id)


def patiently(attempt: Callable[[Attempts | None], Done], promise: Promise | None = None) -> Done:
    """Returns what an attempt at a restore returns; makes a new attempt a few times where paths moved under it."""
    if promise is not None:
        return attempt(promise.attempts())
    attempts = Attempts()
    while True:
        try:
            return attempt(attempts)
        except PlanStale as stale:
            if not attempts.plans_again(stale.moved):
                raise


def go(
    bench: Workbench,
    entry: Entry,
    plan: RestorePlan,
    look: WorkspaceView,
    writer: Any,
    *,
    verb: str,
    depth: int = 0,
    git: PlannedMove | None = None,
    attempts: Attempts | None = None,
    mark: str = "",
    since: tuple[Entry, tuple[bytes, ...] | None] | None = None,
) -> RestoreReport:
    """
    Applies a plan: state staged, safety checkpoint, journalled changes, state made current.

    `mark` says what an undo takes back without going to a state, or for a redo the state that such an undo left. Paths
    that cannot be written are left alone and listed; those that moved too, as far as there is `attempts` for them.
    Without any, raises PlanStale with nothing changed. `since` is the checkpoint before what is undone, if it is another
    than the one to go to, and the paths that were asked for.
    """
    bench.root.refuse_elsewhere(entry)
    _keep_contents(bench, plan)
    token = random_name(6)
    with Directory.open(bench.settings.workspace) as root:
        reach = WritablePart(bench.store, root, token, plan, verb, attempts, look.scan.sealed)
        try:
            report = _go(bench, entry, reach.plan, look, writer, reach, verb=verb, depth=depth, git=git, mark=mark)
        finally:
            reach.close()
    chosen = tuple(map(os.fsencode, plan.paths)) if plan.paths is not None else None
    start, paths = since or (entry, chosen)
    return _naming_lost(bench, report, verb, start, paths, look) if plan.what != "state" else report


def _keep_contents(bench: Workbench, plan: RestorePlan) -> None:
    """Writes the texts that a plan makes: a restore that is interrupted is finished from the store."""
    needed = {action.after.oid for action in plan.actions if action.after is not None}
    made = [plan.contents[oid] for oid in needed.intersection(plan.contents)]
    if made:
        with bench.store.objects.writer() as writer:
            for data in made:
                writer.add(BLOB, data)
            writer.finish()


def _naming_lost(
    bench: Workbench,
    report: RestoreReport,
    verb: str,
    start: Entry,
    paths: tuple[bytes, ...] | None,
    look: WorkspaceView,
) -> RestoreReport:
    """Adds to a report what was there at a checkpoint, is gone and was never saved."""
    workspace, database = bench.settings.workspace, bench.store.database
    reinstall = to_reinstall(workspace, start, [*report.created, *report.modified])
    if verb == "redo":
        forget_named(database)
        return replace(report, reinstall=reinstall)
    if verb == "revert":
        return replace(report, reinstall=reinstall)  # what later steps lost is not this one's
    lost = lost_since(database, workspace, start, paths, has_git=look.git is not None)
    return replace(report, lost=lost, reinstall=reinstall)


def _go(
    bench: Workbench,
    entry: Entry,
    plan: RestorePlan,
    look: WorkspaceView,
    writer: Any,
    reach: WritablePart,
    *,
    verb: str,
    depth: int,
    git: PlannedMove | None,
    mark: str,
) -> RestoreReport:

    what = plan.what
    state = entry.checkpoint.state if what != "files" else {}
    staged = bench.stage_state(state)
    with_state = what != "files" and bool(bench.providers)
    hidden = written_in_hiding(plan, bench.scanner, bench.store.objects)
    look.by_name = (*look.by_name, *map(to_text, hidden))
    safety = _save_safety(bench, entry, look, writer, plan, verb, with_state=with_state, git=git and git.seen)
    about = f"mulligan: {verb} to {entry.checkpoint.short_id}"
    move = None
    if git is not None:
        from mulligan.engine.git import journalled

        move = journalled(bench.store, git, about, safety, bench.now_ns() // 1_000_000_000)
    position = entry.id if what != "state" and plan.paths is None else ""
    journal = Journal(
        reach.token, entry.id, safety, what, position, verb, depth,
        actions=plan.actions, locked=reach.locked, git=move, mark=mark,
    )  # fmt: skip
    done = carry_out(
        bench.store, reach, journal,
        seen=look.scan, progress=bench.counted("restoring"),
    )  # fmt: skip
    for make_current in staged:
        make_current()
    if staged or not state:  # else no provider took it: it is owed to the next program that registers one
        state_given(bench.store.database)
    kept = [*plan.keeps, *done.kept]
    if position and (kept or git is not None or _moves_scope(plan)):
        # The restore is done. A failure here may cost the next undo a step; this restore has succeeded.
        with suppress(OSError, UserError):
            busy = [keep.path for keep in kept if keep.reason == BUSY]
            _remember_landing(bench, entry, verb, look.by_name, busy)
    return RestoreReport(
        entry.id, done.created, done.modified, done.deleted, kept, safety, state,
        git=move, undone=plan.undone, branch=plan.branch, conflicts=list(plan.conflicts), merged=plan.merged,
    )  # fmt: skip


def _remember_landing(bench: Workbench, entry: Entry, verb: str, by_name: tuple[str, ...], busy: list[str]) -> None:
    """
    Saves what a restore left, if that is not quite its target: it is the state that the next undo starts from.

    Without it, a file that was kept because an ignore rule hid it, or one that a rule hid until this restore took the
    rule away, would look like an edit made since, and the undo would only take that back. So would a `busy` file, which
    goes on changing: it is no reason to stop here.
    """
    with bench.store.objects.writer() as writer:
        look = bench.look(writer, by_name=by_name)
        if same_state(entry, look.scan) or make_plan(bench, entry, look, None, "files").is_noop:
            return
        about = f"after {verb} to {entry.checkpoint.name or entry.checkpoint.short_id}, with what was kept"
        draft = make_draft(bench, "", about, "safety", metadata={BUSY_THEN: busy} if busy else {})
        landed, _ = keep(bench, draft, look, writer, as_position=False)
    with bench.store.database.transaction():
        bench.store.moves.replace_top(Move(landed.id))


def differs(bench: Workbench, entry: Entry, move: Move, look: WorkspaceView) -> bool:
    """Returns whether the workspace, or the state of its providers, is not what a state of the undo stack says."""
    same = move.what == "state" or same_state(entry, look.scan)
    if not same and _has_more(bench, entry, look):
        return True
    return move.what != "files" and bool(bench.providers) and bench.capture_state() != entry.checkpoint.state


def _has_more(bench: Workbench, entry: Entry, look: WorkspaceView) -> bool:
    """Returns whether more differs from a checkpoint than what kept changing when it was made."""
    actions = make_plan(bench, entry, look, None, "files").actions
    return any(to_text(action.path) not in entry.busy for action in actions)


def _save_safety(
    bench: Workbench,
    entry: Entry,
    look: WorkspaceView,
    writer: Any,
    plan: RestorePlan,
    verb: str,
    *,
    with_state: bool,
    git: GitRecord | None = None,
) -> str:
    """Returns the id of a checkpoint that holds the workspace as it is: the position, else one that is saved now."""
    here = bench.store.checkpoints.current()
    same = here is not None and same_state(here, look.scan)
    if same and here is not None and git is not None:
        from mulligan.engine.git import is_recorded

        same = is_recorded(bench.store, here, git)
    # What that one did not look at may be about to change: its undo must concern it.
    same = same and here is not None and {*look.by_name} <= {*here.by_name} and {*plan.absent} <= {*here.absent}
    if same and here is not None:
        same = not _could_not_see(bench, here, plan)
    if git is not None or _moves_scope(plan):
        # What is hidden now may be seen by the undo, which must not take it for something made since.
        same = same and here is not None and lists_hidden(here, look.scan)
    if here is not None and not with_state and (plan.is_noop or same):
        return here.id
    about = f"before {verb} to {entry.checkpoint.name or entry.checkpoint.short_id}"
    known = {ABSENT: list(plan.absent)} if plan.absent else {}
    draft = make_draft(bench, "", about, "safety", state=bench.capture_state(), metadata=known, git=git)
    # Retention must not remove the target.
    keep(bench, draft, look, writer, as_position=False, sparing=entry.id)
    return draft.id


def _could_not_see(bench: Workbench, here: Entry, plan: RestorePlan) -> bool:
    """
    Whether something is to be made where a checkpoint, or one after it, could not see what stood.

    An undo to that checkpoint would not know that nothing was there, and would keep what was made.
    """
    absent = {*here.absent}
    made = [action.path for action in plan.actions if action.before is None and to_text(action.path) not in absent]
    if not made:
        return False
    lists = (here.checkpoint.not_captured, *(rows for rows, _ in bench.store.checkpoints.hidden_after(here)))
    return any(cover.over(path) is not None for cover in map(cover_of, lists) for path in made)


def recover(bench: Workbench) -> str:
    """Ends a restore that was interrupted; returns a sentence about it, empty when there was none."""
    from mulligan.restore.recover import FINISHED, drop_interrupted, end_interrupted

    if bench.root.is_gone():
        drop_interrupted(bench.store)
        return "A restore had been interrupted; it was dropped, because the directory is gone."
    with Directory.open(bench.settings.workspace) as root:
        ended = end_interrupted(bench.store, root)
    if ended is None:
        return ""
    journal, recovered = ended
    kept = "".join(f" Kept: {keep.path} ({keep.reason})." for keep in recovered.outcome.kept)
    how = "was finished" if recovered.how == FINISHED else "was rolled back"
    moved = recovered.how == FINISHED and journal.git is not None and not recovered.outcome.kept
    git = f" Git stands on {journal.git.after.words()}." if moved and journal.git is not None else ""
    return f"An interrupted restore of {journal.target[:8]} {how}.{git}{kept}"
