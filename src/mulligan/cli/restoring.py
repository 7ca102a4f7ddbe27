"""What restore, undo, redo and revert have in common: the exit code and the words for what was done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mulligan import engine
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.errors import UnknownCheckpoint, WorkspaceReplaced
from mulligan.model.checkpoint import INCOMPLETE, Checkpoint, NotCaptured
from mulligan.model.plan import RestorePlan, RestoreReport
from mulligan.present.outcome import (
    about,
    conflict_lines,
    left_lines,
    name_of,
    named,
    not_captured_lines,
    outcome_lines,
)
from mulligan.present.visible import visible

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace


class Done(NamedTuple):
    """A restore's report, its checkpoint, and the paths that were missing from that checkpoint."""

    report: RestoreReport
    target: Checkpoint | None
    missing: list[NotCaptured]


def in_same_project(context: Context, act: Callable[[], RestoreReport]) -> RestoreReport:
    """Restores something; where another directory stands in the old place, asks first whether it is the same project."""
    context.name_workspace()
    try:
        return act()
    except WorkspaceReplaced as error:
        question = f"{error.message}\nIs it the same project? Your files are saved before anything changes."
        if not context.interactive or not context.ask(question):
            raise
        engine.doctor.recognise(context.workspace.bench)
        return act()


def finished(workspace: Workspace, report: RestoreReport, paths: Sequence[str] | None = None) -> Result:
    """Returns the result of a restore: partial when a path was not restored, or was never saved."""
    try:
        target = workspace.get(report.target)
    except UnknownCheckpoint:
        target = None  # deleted by another process since: what was restored was restored
    missing = _missing(target, paths)
    partial = bool(missing) or not report.complete
    document = {"report": {**report.to_dict(), "missing": [entry.to_dict() for entry in missing]}}
    return Result(Done(report, target, missing), lambda: document, 3 if partial else 0)


def _missing(target: Checkpoint | None, paths: Sequence[str] | None) -> list[NotCaptured]:
    """Returns what the target should have held, among the paths asked for, and does not."""
    if target is None or target.complete:
        return []
    return [entry for entry in target.not_captured if entry.reason in INCOMPLETE and _asked(entry.path, paths)]


def _asked(path: str, paths: Sequence[str] | None) -> bool:
    path = path.rstrip("/")
    return paths is None or any(path == p or path.startswith(p + "/") or p.startswith(path + "/") for p in paths)


def render_undo(context: Context, result: Result, *, again: str) -> None:
    """Prints what an undo or, with `again` for the way back, a redo did."""
    report = result.value.report
    forward = again == "undo"
    if report.undone is not None:
        named_after = name_of(report.undone.checkpoint, context.workspace.get)
        head = f"{'Redid' if forward else 'Undid'} {about(report.undone, context.now(), named_after)}"
    else:
        head = "Redone" if forward else "Undone"
    again = report.again or again
    _render(context, result.value, head, changed="changed" if forward else "restored", again=again)


def render_revert(context: Context, result: Result) -> None:
    """Prints what a revert did, and both sides of the lines that could not be merged."""
    report, out = result.value.report, context.out
    named_after = name_of(report.undone.checkpoint, context.workspace.get) if report.undone is not None else ""
    what = about(report.undone, context.now(), named_after) if report.undone is not None else report.target[:8]
    _render(context, result.value, f"Reverted {what}", changed="restored", again="undo")
    out.lines(conflict_lines(report.conflicts, out.style))


def render_restore(context: Context, done: Done) -> None:
    """Prints what a restore did."""
    report, out = done.report, context.out
    if not (report.created or report.modified or report.deleted or report.git):
        out.line(f"Already at {report.target[:8]}; nothing to change.")
        out.lines(left_lines(report, out.style))
        _partial(context, done)
        return
    head = f"Restored {named(done.target, context.now()) if done.target is not None else report.target[:8]}"
    _render(context, done, head, changed="restored", again="undo")


def circumstances(done: RestorePlan | RestoreReport) -> list[str]:
    """Returns warnings for an undo or restore: its agent is at work, or the branch differs."""
    lines = []
    if done.undone is not None and done.undone.running:
        lines.append("The agent has not ended this turn. What it does next is not undone.")
    if done.branch:
        lines.append(f"This was saved on branch {visible(done.branch)}, and another one is checked out now.")
    return lines


def _render(context: Context, done: Done, head: str, *, changed: str, again: str) -> None:
    style = context.out.style
    context.out.lines(outcome_lines(done.report, style("green", head), changed=changed, again=again, style=style))
    context.out.lines([style("yellow", line) for line in circumstances(done.report)])
    _partial(context, done)


def _partial(context: Context, done: Done) -> None:
    if done.missing:
        context.out.line(context.out.style("yellow", "That checkpoint is partial. Not saved in it:"))
        context.out.lines(not_captured_lines(done.missing))
