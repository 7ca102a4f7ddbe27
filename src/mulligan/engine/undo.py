"""
Undo and redo: one operation back or forward.

An operation is a restore, what an agent did for one prompt (a turn), what changed since the last checkpoint, or the step that led
to it. A turn is taken back by itself: its changes are undone three-way on what stands now, and everything else is kept. The other
operations go to a state of the stack in `timeline.undo`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mulligan.engine.asked import Asked, Hunks, Paths, Promise, parse_asked, with_contents
from mulligan.engine.restore import (
    bring_back,
    contents_of,
    differs,
    go,
    make_plan,
    patiently,
    plan_git_move,
    within_reach,
)
from mulligan.engine.revert import (
    TakeBack,
    about_turn,
    hold_for,
    land,
    land_undo,
    of_checkpoint,
    of_turn,
    plan_without,
    revert_steps,
    take_back,
    words,
)
from mulligan.engine.workbench import Workbench
from mulligan.errors import NothingToRedo, NothingToUndo, PlanStale, UnknownPath, UserError
from mulligan.model.checkpoint import MOVING
from mulligan.model.event import Turn
from mulligan.model.paths import parse_path, to_text
from mulligan.model.plan import PlanRequest, RestorePlan, RestoreReport, Undone
from mulligan.restore.procedure import stale
from mulligan.steps.choose import choose
from mulligan.timeline.commits import Entry
from mulligan.timeline.turns import Stack, TurnSteps
from mulligan.timeline.undo import Move, UndoMark

if TYPE_CHECKING:
    from mulligan.restore.reach import Attempts
    from mulligan.timeline.trees import WorkspaceView
    from mulligan.usergit.moving import PlannedMove

# As many paths are named in a sentence.
_NAMED = 3


def undo(
    bench: Workbench, session: str | None, paths: Paths | None, hunks: Hunks | None, *, git: bool, dry_run: bool
) -> RestorePlan | RestoreReport:
    """Takes back the last operation, or the newest turn of a session; raises NothingToUndo."""
    asked = parse_asked(paths, hunks, git=git)._replace(dry_run=dry_run)
    return hold_for("undo", bench, asked, lambda: _undo(bench, session, asked))


def redo(bench: Workbench, *, dry_run: bool) -> RestorePlan | RestoreReport:
    """Brings forward what the last undo took back; raises NothingToRedo."""
    asked = Asked(dry_run=dry_run)
    return hold_for("redo", bench, asked, lambda: _redo(bench, asked))


@with_contents
def apply(bench: Workbench, plan: RestorePlan, *, strict: bool) -> RestoreReport:
    """Does exactly what a plan says, as its verb does it; raises PlanStale where that would be something else now."""
    said = plan.request or PlanRequest("restore", plan.target, None, plan.paths, plan.what, plan.git is not None)
    paths = tuple(parse_path(path) for path in said.paths) if said.paths is not None else None
    asked = Asked(paths, said.git, False, said.hunks, said.conflicts, Promise(plan, strict))
    return cast("RestoreReport", hold_for(said.verb, bench, asked, lambda: _apply(bench, said, asked)))


def _apply(bench: Workbench, said: PlanRequest, asked: Asked) -> RestorePlan | RestoreReport:
    if said.verb == "restore":
        return bring_back(bench, bench.store.resolve(said.ref), asked, what=said.what)
    try:
        if said.verb == "revert":
            return revert_steps(bench, said.ref, asked)
        return _undo(bench, said.session, asked) if said.verb == "undo" else _redo(bench, asked)
    except (NothingToUndo, NothingToRedo) as error:
        raise PlanStale(error.message, hint=error.hint) from None


def _undo(bench: Workbench, session: str | None, asked: Asked) -> RestorePlan | RestoreReport:
    undoing = Undoing(bench)
    done = undoing.undo(asked) if session is None else undoing.undo_session(session, asked)
    if done is None:
        raise undoing.nothing_to_undo(asked)
    return done


def _redo(bench: Workbench, asked: Asked) -> RestorePlan | RestoreReport:
    done = Undoing(bench).redo(asked)
    if done is None:
        raise NothingToRedo("Nothing to redo.", hint="mulligan log")
    return done if isinstance(done, RestorePlan) else replace(done, again=_way_back(bench, done.undone))


def _way_back(bench: Workbench, redone: Undone | None) -> str:
    """Returns what takes a redone turn back, where a plain undo would take a later turn of another session first."""
    if redone is None or redone.kind != "turn":
        return ""
    turn, is_next = Stack(bench.store).waiting(set())
    if turn is None or not is_next or turn.session == redone.session:
        return ""
    return f"undo --session {bench.store.events.short_names().get(redone.session, redone.session)}"


class Undoing:
    """Undo and redo in a workspace; its store is held, unless only a plan is asked for."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._store = bench.store
        self._turns = TurnSteps(bench.store)

    # -- back -------------------------------------------------------------------------------------

    def undo(self, asked: Asked) -> RestorePlan | RestoreReport | None:
        """Takes back the last operation; None when there is none."""
        stack = Stack(self._store)
        if self._bench.root.is_lost():
            return self._walk(stack, stack.states(), asked)  # all files are gone: that is no turn's work
        for begun in self._turns.just_begun(self._bench.now_ns()):
            found = None if begun in stack.undone() else self._take_back_turn(begun, asked)
            if found is not None:
                return found
        passed: set[Turn] = set()
        while True:
            turn, is_next = stack.waiting(passed)
            if turn is None:
                return self._undo_own(stack, asked)
            found = self._walk_or_pass(stack, stack.states(turn), asked) if not is_next else None
            found = found or self._take_back_turn(turn, asked)
            if found is not None:
                return found
            passed.add(turn)

    def nothing_to_undo(self, asked: Asked) -> NothingToUndo:
        """Returns why there is nothing to undo: nothing differs, or only what cannot be read."""
        here = self._store.checkpoints.current()
        if here is None:
            return NothingToUndo("Nothing to undo: your files match the oldest checkpoint.", hint="mulligan log")
        look = self._bench.look()
        plan = make_plan(self._bench, here, look, asked.paths, "files")
        try:
            plan = within_reach(self._bench, plan, look) if plan.actions else plan
        except PlanStale:
            pass  # its directories keep changing too
        except UserError as refused:
            return NothingToUndo(refused.message, hint=refused.hint)
        left = {keep.path: keep.reason for keep in plan.keeps if keep.failed}
        # What could be read now, and not a moment ago, keeps changing too.
        left |= {to_text(action.path): MOVING for action in plan.actions}
        if not left and asked.paths is not None:
            return NothingToUndo("Nothing to undo in these paths. Nothing was changed.", hint="mulligan log")
        if not left:
            apart = f", apart from {plan.keeps[0].path}, which undo leaves alone" if plan.keeps else ""
            return NothingToUndo(
                f"Nothing to undo: your files match the oldest checkpoint{apart}.", hint="mulligan log"
            )
        more = f", +{len(left) - _NAMED:,} more" if len(left) > _NAMED else ""
        paths = ", ".join(sorted(left)[:_NAMED]) + more
        if {*left.values()} == {MOVING}:
            why, hint = "keeps changing", "Stop the program that writes to it, then: mulligan undo"
        else:
            why, hint = ", ".join(sorted({*left.values()})), "mulligan status"
        return NothingToUndo(
            f"Nothing was undone. All that differs from the last checkpoint had to be left alone: {paths} ({why}).",
            hint=hint,
        )

    def _undo_own(self, stack: Stack, asked: Asked) -> RestorePlan | RestoreReport | None:
        """Takes back what no turn did: what changed by itself, else the newest step; None when there is nothing."""
        passed: set[str] = set()
        while (step := stack.beside(passed)) is not None:
            found = self._walk_or_pass(stack, stack.states(step=step), asked) or self._take_back_step(step, asked)
            if found is not None:
                return found
            passed.add(step.id)
        return self._walk_or_pass(stack, stack.states(), asked)

    def _take_back_step(self, step: Entry, asked: Asked) -> RestorePlan | RestoreReport | None:
        """Takes back what one checkpoint changed, because the states below it hold undone work; None when nothing is left."""
        found = of_checkpoint(self._bench, step)
        return take_back(self._bench, found, asked) if found is not None else None

    def undo_session(self, session: str, asked: Asked) -> RestorePlan | RestoreReport:
        """Takes back the newest turn of a session that is not undone yet; raises NothingToUndo."""
        whole = self._store.events.session(session)
        undone = Stack(self._store).undone()
        turns = self._turns.turns_of(whole)
        for turn in turns:
            found = None if turn in undone else self._take_back_turn(turn, asked, whole)
            if found is not None:
                return found
        if not turns:
            raise NothingToUndo(f"Session {whole} changed no files. Nothing was changed.", hint="mulligan log --story")
        what = "Nothing is left of what session" if not undone.intersection(turns) else "All that session"
        how = "did" if not undone.intersection(turns) else "did is undone already, or was left alone"
        raise NothingToUndo(f"{what} {whole} {how}. Nothing was changed.", hint="Redo it: mulligan redo")

    def _take_back_turn(
        self, turn: Turn, asked: Asked, session: str | None = None
    ) -> RestorePlan | RestoreReport | None:
        """Takes back a turn; None when nothing of it is left."""
        found = of_turn(self._bench, self._turns, turn)
        return take_back(self._bench, found._replace(session=session), asked)

    # -- going to a state -------------------------------------------------------------------------

    def _walk_or_pass(self, stack: Stack, states: list[Move], asked: Asked) -> RestorePlan | RestoreReport | None:
        """Goes to a state, as `_walk` does; None where all that differs keeps changing, so that a turn comes next."""
        try:
            return self._walk(stack, states, asked)
        except PlanStale:
            if asked.hunks is not None or asked.promise is not None:
                raise
            return None

    def _walk(self, stack: Stack, states: list[Move], asked: Asked) -> RestorePlan | RestoreReport | None:
        """Goes to the newest of some states that differs."""
        return self._go_to_state(_UndoWay("undo", states, stack.mixed, stack.about), asked)

    def _go_to_state(self, way: _UndoWay, asked: Asked) -> RestorePlan | RestoreReport | None:
        """Goes to the first state on a way that differs from the workspace; None when none does."""
        if asked.dry_run:
            found = self._towards(way, asked, None, None)
            return found.plan if found is not None else None
        self._bench.root.prepare()

        def attempt(attempts: Attempts | None) -> RestoreReport | None:
            with self._store.objects.writer() as writer:
                found = self._towards(way, asked, writer, attempts)
                if found is None:
                    return None
                mark = UndoMark(to=found.entry.id).text if asked.is_partial else ""
                report = go(self._bench, found.entry, asked.agreed(found.plan), found.look, writer, verb=way.verb, depth=found.depth,
                    git=found.git, attempts=attempts, mark=mark,
                )  # fmt: skip
            if mark:
                land_undo(self._bench, f"after undo of some paths to {found.entry.checkpoint.short_id}")
            return report

        return patiently(attempt, asked.promise)

    def _towards(self, way: _UndoWay, asked: Asked, writer: Any, attempts: Attempts | None) -> _Found | None:
        """Returns the first state on a way that differs from the workspace, with the plan to go there."""
        look: WorkspaceView | None = None
        passed: tuple[bytes, ...] = ()
        unknown: UnknownPath | None = None
        for depth, move in enumerate(way.states):
            entry = self._store.checkpoints.by_id(move.id)
            if entry is None or depth in way.skip or (asked.is_partial and move.what == "state"):
                continue
            if look is None or look.by_name != self._bench.settings.capture.naming(entry.by_name).by_name:
                look = self._bench.look(writer, by_name=entry.by_name)
            git = self._git_towards(way, depth, entry, asked)
            what = move.what if not asked.is_partial else "files"
            if git is None and not asked.is_partial and not differs(self._bench, entry, move, look):
                continue
            try:
                plan = make_plan(self._bench, entry, look if what != "state" else None, asked.paths, what, git=git)
            except UnknownPath as error:
                unknown = error
                continue
            if plan.is_noop and what == "files":
                continue
            if git is None and what == "files" and attempts is not None and (gone := attempts.gave_up(plan.actions)):
                passed = gone  # all that differs there keeps changing: what came before it is meant
                continue
            plan = replace(choose(contents_of(self._bench), plan, asked.hunks), undone=way.about(depth))
            down = 0 if asked.is_partial else depth + (way.verb == "redo") + way.passed
            return _Found(entry, asked.planned(plan, way.verb), look, git, down)
        if passed:
            raise stale(passed)
        if unknown is not None:
            raise unknown
        return None

    def _git_towards(self, way: _UndoWay, depth: int, entry: Entry, asked: Asked) -> PlannedMove | None:
        """Returns how git moves on a way to a state: as asked for, or back over a step that moved it."""
        if asked.git:
            return plan_git_move(self._bench, entry, asked)
        # Where undo stands already, no step is taken back; redo begins with the first.
        crossed = any(state.git for state in way.states[int(way.verb == "undo") : depth + 1])
        return self._back_with_git(entry) if crossed and not asked.is_partial else None

    def _back_with_git(self, entry: Entry) -> PlannedMove | None:
        from mulligan.engine.git import plan_back

        return plan_back(self._store, entry)

    # -- forward ----------------------------------------------------------------------------------

    def redo(self, asked: Asked) -> RestorePlan | RestoreReport | None:
        """Brings forward what the last undo took back; None when there is nothing."""
        stack, moves, passed = Stack(self._store), self._store.moves.redoable(), 0
        while moves:
            if self._can_merge(moves[0], stack):
                found, count = self._bring_forward(moves[0], stack, asked, passed), 1
            else:
                # States that a merge starts from are not passed over.
                count = next((at for at, move in enumerate(moves) if self._can_merge(move, stack)), len(moves))
                found = self._redo_plain(moves[:count], stack, asked, passed)
            if found is not None:
                return found
            moves, passed = moves[count:], passed + count
        return None

    def _redo_plain(
        self, moves: list[Move], stack: Stack, asked: Asked, passed: int
    ) -> RestorePlan | RestoreReport | None:
        way = _UndoWay("redo", moves, frozenset(), lambda depth: self._about_redo(moves[depth], stack), passed)
        return self._go_to_state(way, asked)

    def _can_merge(self, move: Move, stack: Stack) -> bool:
        return bool(move.base) and stack.has(move.base) and self._store.checkpoints.by_id(move.base) is not None

    def _about_redo(self, move: Move, stack: Stack) -> Undone:
        """Names what a redo brings forward."""
        mark = move.mark or stack.mark(move.base)
        if mark is not None and mark.turn is not None:
            return replace(about_turn(self._bench, self._turns, mark.turn), running=False)
        if mark is not None and mark.step:
            return stack.redone(mark.step)
        return stack.redone(move.id, by_restore=move.restored)

    def _bring_forward(self, move: Move, stack: Stack, asked: Asked, passed: int) -> RestorePlan | RestoreReport | None:
        """Takes back what an undo did, three-way; None when the workspace has it already."""
        from mulligan.scan.trees import cover_of
        from mulligan.steps.three_way import RevertedStep, all_of_it

        left, base = self._store.checkpoints.by_id(move.id), self._store.checkpoints.by_id(move.base)
        if left is None or base is None:
            return None
        undone = self._about_redo(move, stack)
        # What a rule hid before the undo is there since longer ago than the undo that made it visible.
        covers = cover_of(left.checkpoint.not_captured), cover_of(base.checkpoint.not_captured)
        step = RevertedStep(left.trees, base.trees, all_of_it, *covers)
        what = TakeBack(lambda _: [step], undone, UndoMark(), None, left.seq - 1, verb="redo")
        if asked.dry_run:
            planned = self._planned_forward(what, move, left, asked, self._bench.look())
            return planned[0] if planned is not None else None
        self._bench.root.prepare()
        report = patiently(
            lambda attempts: self._brought_forward(what, move, left, asked, passed, attempts), asked.promise
        )
        if report is None or report.undo is None:
            return report
        landed = land(self._bench, f"after redo of {words(undone)}", left)
        with self._store.database.transaction():
            self._store.moves.replace_top(Move(landed))
            self._store.checkpoints.set_position(landed)
        return replace(report, target=landed)

    def _planned_forward(
        self, what: TakeBack, move: Move, left: Entry, asked: Asked, look: WorkspaceView
    ) -> tuple[RestorePlan, PlannedMove | None] | None:
        plan = plan_without(self._bench, what, asked, look)
        git = self._back_with_git(left) if move.git else None
        if plan is None:
            return None
        return replace(plan, target=left.id, git=git.move if git is not None else None), git

    def _brought_forward(
        self, what: TakeBack, move: Move, left: Entry, asked: Asked, passed: int, attempts: Attempts | None
    ) -> RestoreReport | None:
        with self._store.objects.writer() as writer:
            look = self._bench.look(writer)
            found = self._planned_forward(what, move, left, asked, look)
            if found is None or found[0].is_noop:
                with self._store.database.transaction():
                    self._store.moves.redone(skipped=passed + 1)
                    self._store.moves.unmark(move.base)
                return (
                    None if found is None else RestoreReport(move.base, kept=list(found[0].keeps), undone=what.undone)
                )
            plan, git = found
            return go(self._bench, left, asked.agreed(plan), look, writer, verb="redo", depth=passed + 1, git=git, attempts=attempts,
                mark=move.base,
            )  # fmt: skip


class _UndoWay(NamedTuple):
    """Some states to go to, in order: those to skip, what to call each, and how many were passed before them."""

    verb: str
    states: list[Move]
    skip: Collection[int]
    about: Callable[[int], Undone]
    passed: int = 0


class _Found(NamedTuple):
    """The state to go to, the plan for it, and how many states of the stack that drops."""

    entry: Entry
    plan: RestorePlan
    look: WorkspaceView
    git: PlannedMove | None
    depth: int
