"""`mulligan doctor`: repair the store."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.findings import problem_lines
from mulligan.present.visible import visible

USAGE = "doctor"
DESCRIPTION = """\
Repair the store and finish what was cut short.

A restore that was interrupted is finished or taken back, left-overs are removed, a lost database is rebuilt from the
checkpoints themselves. Nothing that can still be read is thrown away.
"""
EXAMPLES = (
    ("mulligan doctor", "after a crash, a full disk, or exit code 90"),
    ("mulligan --json doctor", "for a program: what was repaired, what remains"),
)
EXIT_CODES = (0, 1, 11, 90, 91)
PATHS = ""


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments: none."""


def run(context: Context, _args: argparse.Namespace) -> Result:
    """Repairs what can be repaired."""
    report = context.workspace.doctor()
    return Result(report, report.to_dict, 0 if report.ok else 90)


def render(context: Context, result: Result) -> None:
    """Prints what was repaired and what remains."""
    report, style = result.value, context.out.style
    context.out.lines([f"{style('yellow', 'repaired')}  {visible(done)}" for done in report.repaired])
    if report.ok:
        context.out.line(f"{style('green', 'ok')}  the store is sound")
    else:
        context.out.lines(problem_lines(report.problems, style))
