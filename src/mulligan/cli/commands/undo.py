"""`mulligan undo`: one operation back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.restoring import circumstances, finished, in_same_project, render_undo
from mulligan.errors import UserError
from mulligan.model.plan import RestorePlan
from mulligan.present.outcome import about
from mulligan.present.timeline import plan_lines

if TYPE_CHECKING:
    import argparse

    from mulligan.engine import Workspace

USAGE = "undo [--dry-run] [--session ID] [--git] [-- PATH…]"
DESCRIPTION = """\
Undo the last prompt, restore or unsaved change. Run it again to undo one more.

All that an agent did for one prompt is undone together. What you or another agent changed since then is kept, merged line by
line; a file that cannot be merged is left alone and listed (exit code 3). The present state is saved first, so `mulligan redo`
brings it back.
"""
EXAMPLES = (
    ("mulligan undo", "undo what just happened"),
    ("mulligan undo --dry-run", "show what it would do"),
    ("mulligan undo --session 1bd24cd5", "undo the last turn of that agent only"),
    ("mulligan undo -- src/login.py", "undo it in this file only"),
)
EXIT_CODES = (0, 1, 3, 10, 11, 90, 91)
PATHS = "many"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("--dry-run", action="store_true", help="print the plan and change nothing")
    parser.add_argument("--git", action="store_true", help="move HEAD, its branch and the index back too")
    parser.add_argument(
        "--session",
        metavar="ID",
        help="only the newest turn of this agent's session; the beginning of its id is enough",
    )


def run(context: Context, args: argparse.Namespace) -> Result:
    """Goes back."""
    workspace = context.saved
    paths = context.paths(args.paths)
    options: dict[str, Any] = {"session": args.session, "paths": paths, "git": args.git}
    if args.dry_run:
        plan = workspace.undo(dry_run=True, **options)
        return Result(plan, lambda: {"plan": plan.to_dict()})
    if context.interactive:
        _ask_first(context, workspace, options)
    report = in_same_project(context, lambda: workspace.undo(**options))
    return finished(workspace, report, paths)


def _ask_first(context: Context, workspace: Workspace, options: dict[str, Any]) -> None:
    """Asks where the undo may surprise: its agent is still at work, or another branch is checked out."""
    plan = workspace.undo(dry_run=True, **options)
    if warnings := circumstances(plan):
        context.err.lines(warnings)
        what = about(plan.undone, context.now()) if plan.undone is not None else "it"
        if not context.ask(f"Undo {what}?"):
            raise UserError("Cancelled; nothing changed.")


def render(context: Context, result: Result) -> None:
    """Prints the plan, or what was undone."""
    if not isinstance(result.value, RestorePlan):
        render_undo(context, result, again="redo")
        return
    plan, out = result.value, context.out
    if plan.undone is not None:
        out.line(f"Would undo {about(plan.undone, context.now())}:")
    out.lines([*plan_lines(plan, out.style), *circumstances(plan)])
