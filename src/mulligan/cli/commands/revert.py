"""`mulligan revert`: take back one step and keep everything later."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.pathspec import expanded, is_pattern
from mulligan.cli.restoring import circumstances, finished, in_same_project, render_revert
from mulligan.model.plan import RestorePlan, RestoreReport
from mulligan.present.outcome import about, conflict_lines, name_of, plan_lines

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace

USAGE = "revert REF [--dry-run] [--markers | --ours | --theirs] [-p] [[--] PATH…]"
DESCRIPTION = """\
Undo one step and keep everything later: a prompt, a tool call, a session, or what led to a checkpoint.

Files that were changed again since are merged line by line. A file that cannot be merged is left alone, and both sides are
shown (exit code 3). The present state is saved first, so `mulligan undo` undoes the revert.
"""
EXAMPLES = (
    ("mulligan revert @prompt-3", "undo what prompt 3 did, keep prompts 4 and 5"),
    ("mulligan revert @tool-17 --dry-run", "the plan for one tool call, and nothing else"),
    ("mulligan revert @prompt-3 --markers", "write conflict markers where lines were changed again since"),
)
EXIT_CODES = (0, 1, 3, 10, 11, 83, 90, 91)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument(
        "ref", metavar="REF", nargs="?", help="@prompt-3, @tool-17, a session's id, a checkpoint's name or id"
    )
    parser.add_argument("words", nargs="*", metavar="PATH", help="only these files, directories or patterns")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and change nothing")
    how = parser.add_mutually_exclusive_group()
    for name, text in (
        ("markers", "write conflict markers into files that cannot be merged"),
        ("ours", "where lines conflict, keep the present ones"),
        ("theirs", "where lines conflict, take those of before the step"),
    ):
        how.add_argument(f"--{name}", dest="conflicts", action="store_const", const=name, default="keep", help=text)
    parser.add_argument("-p", "--patch", action="store_true", help="choose hunks on the terminal")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Plans, lets choose, reverts."""
    if args.ref is None:
        raise UsageError("REF is needed: which step?", hint="See the steps: mulligan log --story")
    if args.patch:
        from mulligan.cli import hunk_chooser

        hunk_chooser.refuse_without_terminal(context, "revert REF")
    workspace = context.saved
    options: dict[str, Any] = {"paths": _paths(context, workspace, args), "conflicts": args.conflicts}
    if args.patch:
        plan = workspace.revert(args.ref, dry_run=True, **options)
        from mulligan.cli import hunk_chooser

        options["hunks"] = hunk_chooser.choose_hunks(context, plan, "Revert")
    if args.dry_run:
        plan = workspace.revert(args.ref, dry_run=True, **options)
        return Result(plan, lambda: {"plan": plan.to_dict()})

    def revert() -> RestoreReport:
        return workspace.revert(args.ref, dry_run=False, **options)

    return finished(workspace, in_same_project(context, revert), options["paths"])


def _paths(context: Context, workspace: Workspace, args: argparse.Namespace) -> list[str] | None:
    paths = context.paths([*args.words, *args.paths])
    if paths is None or not any(map(is_pattern, paths)):
        return paths
    plan = workspace.revert(args.ref, dry_run=True)
    touched = [*plan.creates, *plan.modifies, *plan.deletes, *(conflict.path for conflict in plan.conflicts)]
    return expanded(paths, touched)


def render(context: Context, result: Result) -> None:
    """Prints the plan, or what was reverted."""
    if not isinstance(result.value, RestorePlan):
        render_revert(context, result)
        return
    plan, out = result.value, context.out
    if plan.undone is not None:
        named = name_of(plan.undone.checkpoint, context.workspace.get)
        out.line(f"Would revert {about(plan.undone, context.now(), named)}:")
    out.lines([*plan_lines(plan, out.style), *conflict_lines(plan.conflicts, out.style), *circumstances(plan)])
