"""What restore, undo and redo have in common: the exit code and the words for what was done."""

from __future__ import annotations

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.errors import UnknownCheckpoint
from mulligan.model.checkpoint import INCOMPLETE, NotCaptured
from mulligan.model.plan import RestoreReport
from mulligan.model.small import Sequence
from mulligan.model.typed import TYPE_CHECKING
from mulligan.present.timeline import not_captured_lines, report_lines

if TYPE_CHECKING:
    from mulligan.engine import Workspace


def finished(workspace: Workspace, report: RestoreReport, paths: Sequence[str] | None = None) -> Result:
    """Returns the result of a restore: partial when a path was not restored, or was never captured."""
    missing = _missing(workspace, report.target, paths)
    partial = bool(missing) or not report.complete
    document = {"report": {**report.to_dict(), "missing": [entry.to_dict() for entry in missing]}}
    return Result((report, missing), lambda: document, 3 if partial else 0)


def _missing(workspace: Workspace, target: str, paths: Sequence[str] | None) -> list[NotCaptured]:
    """Returns what the target should have held, among the paths asked for, and does not."""
    try:
        checkpoint = workspace.get(target)
    except UnknownCheckpoint:
        return []  # deleted by another process since: what was restored was restored
    if checkpoint.complete:
        return []
    return [entry for entry in checkpoint.not_captured if entry.reason in INCOMPLETE and _asked(entry.path, paths)]


def _asked(path: str, paths: Sequence[str] | None) -> bool:
    path = path.rstrip("/")
    return paths is None or any(path == p or path.startswith(p + "/") or p.startswith(path + "/") for p in paths)


def render_report(context: Context, result: Result, done: str, *, again: str = "undo") -> None:
    """Prints what a restore did."""
    report, missing = result.value
    out = context.out
    out.lines(report_lines(report, done=done, again=again, style=out.style))
    if missing:
        out.line(out.style("yellow", "partial: these were not captured in that checkpoint"))
        out.lines(not_captured_lines(missing))
