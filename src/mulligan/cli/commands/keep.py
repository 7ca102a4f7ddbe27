"""`mulligan keep`: bring the state of a fork into this project."""

from __future__ import annotations

import argparse
import os

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.restoring import Done, circumstances, finished, in_same_project, render_restore
from mulligan.errors import UserError
from mulligan.forks.fork import stands
from mulligan.forks.state import bring_fork
from mulligan.forks.verbs import find_fork
from mulligan.model.plan import RestorePlan
from mulligan.present.outcome import plan_lines
from mulligan.present.visible import visible

USAGE = "keep DIR [-y] [--dry-run]"
DESCRIPTION = """\
Bring the state of a fork into this project: the fork is saved first, then this directory becomes what the fork is.

The plan is shown first, and on a terminal you are asked. The present state is saved too, so `mulligan undo` takes it back.
The fork stays; remove it with `mulligan forks rm DIR`.
"""
EXAMPLES = (
    ("mulligan keep ../try-2", "show the plan, ask, take it over"),
    ("mulligan keep ../try-2 --dry-run", "only the plan"),
)
EXIT_CODES = (0, 1, 3, 10, 11, 83, 90, 91)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("place", metavar="DIR", help="the fork's directory, or its name")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and change nothing")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Saves the fork, plans, asks, applies."""
    workspace = context.saved
    fork = find_fork(workspace, os.path.join(context.base, args.place))
    if not stands(workspace.settings, fork):
        raise UserError(
            f"{fork.directory} is gone. Nothing was changed.",
            hint=f"Bring it back first: mulligan -C {fork.directory} undo",
        )
    brought = bring_fork(workspace, fork)
    plan = workspace.plan(brought)
    if args.dry_run:
        return Result(plan, lambda: {"plan": plan.to_dict()})
    if not plan.is_noop and context.interactive and not args.yes:
        context.err.lines([*plan_lines(plan, context.err.style), *circumstances(plan)])
        context.insist(f"Keep the fork {visible(fork.name)}?")
    return finished(workspace, in_same_project(context, lambda: workspace.apply(plan, strict=False)))


def render(context: Context, result: Result) -> None:
    """Prints the plan, or what was done."""
    if isinstance(result.value, RestorePlan):
        context.out.lines([*plan_lines(result.value, context.out.style), *circumstances(result.value)])
        return
    render_restore(context, Done(*result.value[:3]))
