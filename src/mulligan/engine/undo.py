"""
Undo and redo: one operation back or forward.

An operation is a restore, what an agent did for one prompt (a turn), what changed since the last checkpoint, or the step that led
to it. A turn is taken back by itself: its changes are undone three-way on what stands now, and everything else is kept. The other
operations go to a state of the stack in `timeline.moves`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.engine.restore import Restorer
from mulligan.errors import NothingToUndo, PlanStale, UnknownPath, UserError
from mulligan.model.checkpoint import MOVING
from mulligan.model.event import Turn
from mulligan.model.objects import BLOB, object_id
from mulligan.model.paths import covers, parent_of, to_text
from mulligan.model.plan import RestorePlan, RestoreReport, Undone
from mulligan.safefs.directory import Directory
from mulligan.timeline.changes import lists_hidden, same_state
from mulligan.timeline.commits import Entry
from mulligan.timeline.drafts import made_on_other_branch
from mulligan.timeline.turns import Stack, TurnStep, TurnSteps
from mulligan.timeline.undo import Move, UndoMark

if TYPE_CHECKING:
    from mulligan.restore.patience import Patience
    from mulligan.restore.taking_back import Step, Wanted
    from mulligan.timeline.trees import State, WorkspaceView

Paths = tuple[bytes, ...] | None
# As many paths are named in a sentence.
_NAMED = 3


class Asked(NamedTuple):
    """What an undo is asked for: some paths only, git too, or only the plan."""

    paths: Paths = None
    git: bool = False
    dry_run: bool = False


class TakeBack(NamedTuple):
    """
    Some steps to take back, and what the timeline shall know of it.

    `steps` gets the workspace as it is and returns them, newest first. `target` is the checkpoint that git would go back to, and
    where the files stand afterwards if nothing else changed. `since` is the number of the last checkpoint before the steps,
    `newest` the checkpoint that holds the newest of them. With `skips`, steps of which nothing can be undone are passed over.
    """

    steps: Callable[[State], Sequence[Step]]
    undone: Undone
    mark: UndoMark
    target: Entry | None = None
    since: int = 0
    newest: Entry | None = None
    skips: bool = False


class Undoing:
    """Undo and redo in a workspace; its store is held, unless only a plan is asked for."""

    def __init__(self, bench: Restorer) -> None:
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
        plan = self._bench.plan(here, look, asked.paths, "files")
        try:
            plan = self._bench.within_reach(plan, look) if plan.actions else plan
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
        start = self._store.checkpoints.by_id(step.checkpoint.parent or "")
        before = step.before or (start.trees if start is not None else None)
        if before is None:
            return None
        part = TurnStep(before, step.trees, lambda _: True, step, start)
        undone = Undone("step", step.id, step.checkpoint.created_at)
        if step.checkpoint.kind == "safety":
            undone = Undone("unsaved", start.id if start is not None else "", step.checkpoint.created_at)
        mark = UndoMark(step=step.id) if asked.paths is None else UndoMark()
        what = TakeBack(lambda _: [_step(part)], undone, mark, start, step.seq - 1, step, skips=True)
        return self.take_back(what, asked)

    def undo_session(self, session: str, asked: Asked) -> RestorePlan | RestoreReport:
        """Takes back the newest turn of a session that is not undone yet; raises NothingToUndo."""
        whole = self._store.events.session(session)
        undone = Stack(self._store).undone()
        turns = self._turns.turns_of(whole)
        for turn in turns:
            found = None if turn in undone else self._take_back_turn(turn, asked)
            if found is not None:
                return found
        if not turns:
            raise NothingToUndo(f"Session {whole} changed no files. Nothing was changed.", hint="mulligan log --story")
        what = "Nothing is left of what session" if not undone.intersection(turns) else "All that session"
        how = "did" if not undone.intersection(turns) else "did is undone already, or was left alone"
        raise NothingToUndo(f"{what} {whole} {how}. Nothing was changed.", hint="Redo it: mulligan redo")

    def _take_back_turn(self, turn: Turn, asked: Asked) -> RestorePlan | RestoreReport | None:
        """Takes back a turn; None when nothing of it is left."""
        parts = self._turns.of(turn)
        unsaved = self._turns.unsaved(turn, self._bench.now_ns())
        top = self._store.checkpoints.current()
        newest = self._turns.newest_of(turn)

        def steps(now: State) -> list[Step]:
            from mulligan.restore.taking_back import Step

            found = [_step(part) for part in parts]
            return [Step(top.trees, now, unsaved), *found] if unsaved is not None and top is not None else found

        start = next((part.start for part in reversed(parts)), None)
        first = min((part.entry.seq for part in parts if part.entry is not None), default=1)
        mark = UndoMark(turn) if asked.paths is None else UndoMark()
        since = start.seq - 1 if start is not None else first - 1
        return self.take_back(TakeBack(steps, self._about(turn), mark, start, since, newest), asked)

    def _about(self, turn: Turn) -> Undone:
        """Names a turn: its prompt, its agent and when it was last at work."""
        newest, begun = self._turns.newest_of(turn), self._store.events.begun(turn)
        last = self._store.events.last(turn.session)
        agent = begun.event.agent if begun is not None else last.event.agent if last is not None else ""
        return Undone(
            "turn", newest.id if newest is not None else "",
            newest.checkpoint.created_at if newest is not None else last.created_at if last is not None else None,
            turn.prompt, begun.event.text if begun is not None else "", turn.session, agent,
            running=self._store.events.is_open(turn),
        )  # fmt: skip

    # -- taking back steps ------------------------------------------------------------------------

    def take_back(self, what: TakeBack, asked: Asked) -> RestorePlan | RestoreReport | None:
        """
        Takes back some steps and keeps everything else; None when nothing of them is left.

        What cannot be merged stays and is listed. The next `redo` brings the steps forward again.
        """
        if asked.dry_run:
            found = self._planned(what, asked, self._bench.look())
            return found[0] if found is not None else None
        self._bench.root.prepare()
        report = self._bench.patiently(lambda patience: self._taken_back(what, asked, patience))
        if report is None or report.undo is None:
            return report
        landed = self._land(f"after undo of {_words(what.undone)}", what.target)
        with self._store.database.transaction():
            self._store.moves.landed(landed)
            self._store.checkpoints.set_position(landed)
        return replace(report, target=landed)

    def _taken_back(self, what: TakeBack, asked: Asked, patience: Patience) -> RestoreReport | None:
        with self._store.objects.writer() as writer:
            look = self._bench.look(writer)
            found = self._planned(what, asked, look)
            if found is None:
                return None
            plan, wanted = found
            git = self._bench.git.plan(what.target) if asked.git and what.target is not None else None
            if restless := patience.gave_up(plan.actions) if git is None else ():
                from mulligan.restore.leaving import busy, remaining

                plan = remaining(plan, busy(restless))
            if plan.is_noop:
                return self._leave_all(plan, what.mark)
            _keep_contents(self._store, wanted)
            here = self._store.checkpoints.resolve("@")
            mark = what.mark.text
            since = (what.target or here, asked.paths)
            return self._bench.go(
                here, plan, look, writer, verb="undo", git=git, patience=patience, mark=mark, since=since
            )

    def _planned(self, what: TakeBack, asked: Asked, look: WorkspaceView) -> tuple[RestorePlan, Wanted] | None:
        """Returns the plan, and what is wanted; None when nothing would change and nothing is listed."""
        from mulligan.restore.taking_back import draw_wanted, without
        from mulligan.timeline.secrets import closed_secrets
        from mulligan.timeline.trees import state_of

        now = state_of(look.scan)
        steps = what.steps(now)
        wanted = without(look.source, now, steps, self._content, _chosen(asked.paths))
        git = self._bench.git.plan(what.target) if asked.git and what.target is not None else None
        if not wanted.nodes and git is None and (what.skips or not wanted.kept):
            return None
        drawn = draw_wanted(
            look.source,
            look.scan,
            wanted,
            lambda: self._store.checkpoints.hidden_since(what.since),
            self._bench.already,
            closed_secrets(self._store, steps),
        )
        drawn = self._bench.settled(drawn, look, self._bench.names_here(look))
        paths = tuple(map(to_text, asked.paths)) if asked.paths is not None else tuple(
            to_text(action.path) for action in drawn.actions
        )  # fmt: skip
        branch = made_on_other_branch(what.newest, look.git) if what.newest is not None and git is None else ""
        plan = RestorePlan(
            self._store.checkpoints.position(), "files", paths, drawn.actions, drawn.keeps, git.move if git else None,
            drawn.absent, what.undone, branch,
        )  # fmt: skip
        return plan, wanted

    def _content(self, path: bytes, oid: bytes) -> bytes | None:
        """Returns the bytes of a file as the scan saw it; None where it changed since."""
        if self._store.objects.has(oid):
            return self._store.objects.read(oid, BLOB)
        try:
            with Directory.open(self._bench.settings.workspace) as root, root.descend(parent_of(path)) as directory:
                data = directory.read(path.rpartition(b"/")[2])
        except OSError:
            return None
        return data if object_id(BLOB, data) == oid else None

    def _leave_all(self, plan: RestorePlan, mark: UndoMark) -> RestoreReport:
        """Remembers that an undo could take back nothing, so that the next one goes further; no checkpoint is needed."""
        with self._store.database.transaction():
            if mark != UndoMark():
                self._store.moves.push(Move(plan.target, gone=True, mark=mark), keep_redo=True)
        return RestoreReport(plan.target, kept=list(plan.keeps), undone=plan.undone, branch=plan.branch)

    def _land(self, about: str, *known: Entry | None) -> str:
        """Returns a checkpoint that holds what is there now: one of those that are known, else a new one."""
        with self._store.objects.writer() as writer:
            look = self._bench.look(writer)
            for entry in known:
                if entry is not None and same_state(entry, look.scan) and lists_hidden(entry, look.scan):
                    return entry.id
            draft = self._bench.draft("", about, "safety")
            return self._bench.keep(draft, look, writer, as_position=False)[0].id

    # -- going to a state -------------------------------------------------------------------------

    def _walk_or_pass(self, stack: Stack, states: list[Move], asked: Asked) -> RestorePlan | RestoreReport | None:
        """Goes to a state, as `_walk` does; None where all that differs keeps changing, so that a turn comes next."""
        try:
            return self._walk(stack, states, asked)
        except PlanStale:
            return None

    def _walk(self, stack: Stack, states: list[Move], asked: Asked) -> RestorePlan | RestoreReport | None:
        """Goes to the newest of some states that differs."""
        if asked == Asked():
            report = self._bench.step("undo", states, skip=stack.mixed())
            if report is None:
                return None
            depth = next(at for at, move in enumerate(states) if move.id == report.target and at not in stack.mixed())
            return replace(report, undone=stack.about(depth))
        if asked.dry_run:
            return self._towards(stack, states, asked, self._bench.look(), None)
        self._bench.root.prepare()

        def attempt(patience: Patience) -> RestorePlan | RestoreReport | None:
            with self._store.objects.writer() as writer:
                return self._towards(stack, states, asked, self._bench.look(writer), writer, patience)

        return self._bench.patiently(attempt)

    def _towards(
        self,
        stack: Stack,
        states: list[Move],
        asked: Asked,
        look: WorkspaceView,
        writer: Any,
        patience: Patience | None = None,
    ) -> RestorePlan | RestoreReport | None:
        unknown: UnknownPath | None = None
        for depth, move in enumerate(states):
            entry = self._store.checkpoints.by_id(move.id)
            if entry is None or depth in stack.mixed() or move.what == "state":
                continue
            git = self._bench.git.plan(entry) if asked.git else None
            try:
                plan = self._bench.plan(entry, look, asked.paths, "files", git=git)
            except UnknownPath as error:
                unknown = error
                continue
            if plan.is_noop or (patience is not None and git is None and patience.gave_up(plan.actions)):
                continue
            plan = replace(plan, undone=stack.about(depth))
            if asked.dry_run:
                return plan
            mark = UndoMark(to=entry.id).text if asked.paths is not None else ""
            down = depth if asked.paths is None else 0
            report = self._bench.go(
                entry, plan, look, writer, verb="undo", depth=down, git=git, patience=patience, mark=mark
            )
            return self._landed_partly(report, entry) if mark else report
        if unknown is not None:
            raise unknown
        return None

    def _landed_partly(self, report: RestoreReport, entry: Entry) -> RestoreReport:
        landed = self._land(f"after undo of some paths to {entry.checkpoint.short_id}")
        with self._store.database.transaction():
            self._store.moves.landed(landed)
            self._store.checkpoints.set_position(landed)
        return report

    # -- forward ----------------------------------------------------------------------------------

    def redo(self) -> RestoreReport | None:
        """Brings forward what the last undo took back; None when there is nothing."""
        while True:
            moves = self._store.moves.redoable()
            if not moves:
                return None
            stack = Stack(self._store)
            if not self._can_merge(moves[0], stack):
                # States that a merge starts from are not passed over.
                plain = [at for at, move in enumerate(moves) if at and self._can_merge(move, stack)]
                report = self._bench.step("redo", moves[: plain[0]] if plain else moves)
                if report is not None:
                    done = next(move for move in moves if move.id == report.target)
                    return replace(report, undone=self._about_redo(done, stack))
                if not plain:
                    return None
                with self._store.database.transaction():
                    self._store.moves.redone(skipped=plain[0])
                continue
            report = self._bring_forward(moves[0], stack)
            if report is not None:
                return report

    def _can_merge(self, move: Move, stack: Stack) -> bool:
        return bool(move.base) and stack.has(move.base) and self._store.checkpoints.by_id(move.base) is not None

    def _about_redo(self, move: Move, stack: Stack) -> Undone:
        """Names what a redo brings forward."""
        mark = move.mark or stack.mark(move.base)
        if mark is not None and mark.turn is not None:
            return replace(self._about(mark.turn), running=False)
        if mark is not None and mark.step:
            return stack.redone(mark.step)
        return stack.redone(move.id, by_restore=move.restored)

    def _bring_forward(self, move: Move, stack: Stack) -> RestoreReport | None:
        """Takes back what an undo did, three-way; None when the workspace has it already."""
        from mulligan.restore.taking_back import Step, all_of_it
        from mulligan.scan.trees import cover_of

        left, base = self._store.checkpoints.by_id(move.id), self._store.checkpoints.by_id(move.base)
        if left is None or base is None:
            return None
        undone = self._about_redo(move, stack)
        # What a rule hid before the undo is there since longer ago than the undo that made it visible.
        covers = cover_of(left.checkpoint.not_captured), cover_of(base.checkpoint.not_captured)
        step = Step(left.trees, base.trees, all_of_it, *covers)
        what = TakeBack(lambda _: [step], undone, UndoMark(), None, left.seq - 1)
        self._bench.root.prepare()
        report = self._bench.patiently(lambda patience: self._brought_forward(what, move, left, patience))
        if report is None or report.undo is None:
            return report
        landed = self._land(f"after redo of {_words(undone)}", left)
        with self._store.database.transaction():
            self._store.moves.replace_top(Move(landed))
            self._store.checkpoints.set_position(landed)
        return replace(report, target=landed)

    def _brought_forward(self, what: TakeBack, move: Move, left: Entry, patience: Patience) -> RestoreReport | None:
        with self._store.objects.writer() as writer:
            look = self._bench.look(writer)
            found = self._planned(what, Asked(), look)
            git = self._bench.git.plan_back(left) if move.git else None
            if found is None or (found[0].is_noop and git is None):
                with self._store.database.transaction():
                    self._store.moves.redone()
                    self._store.moves.unmark(move.base)
                return (
                    None if found is None else RestoreReport(move.base, kept=list(found[0].keeps), undone=what.undone)
                )
            _keep_contents(self._store, found[1])
            plan = replace(found[0], target=left.id, git=git.move if git is not None else None)
            return self._bench.go(
                left, plan, look, writer, verb="redo", depth=1, git=git, patience=patience, mark=move.base
            )


def _step(part: TurnStep) -> Step:
    from mulligan.restore.taking_back import Step
    from mulligan.scan.trees import cover_of

    unseen = list(part.entry.unseen_before) if part.entry is not None else []
    if part.start is not None and (part.entry is None or part.entry.before is None):
        unseen += part.start.checkpoint.not_captured
    hidden = part.entry.checkpoint.not_captured if part.entry is not None else ()
    return Step(part.before, part.after, part.mine, cover_of(unseen), cover_of(hidden))


def _chosen(paths: Paths) -> Callable[[bytes], bool]:
    if paths is None:
        return lambda _: True
    return lambda path: any(covers(choice, path) for choice in paths)


def _words(undone: Undone) -> str:
    return f"prompt {undone.prompt} of {undone.session[:8]}" if undone.kind == "turn" else undone.kind


def _keep_contents(store: Any, wanted: Wanted) -> None:
    """Writes what a merge made: a restore that is interrupted is finished from the store."""
    if not wanted.contents:
        return
    with store.objects.writer() as writer:
        for data in wanted.contents.values():
            writer.add(BLOB, data)
        writer.finish()
