"""`mulligan check`: verify the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.present.standing import problem_lines

if TYPE_CHECKING:
    import argparse

USAGE = "check"
DESCRIPTION = """\
Verify the store: every object of every checkpoint is read and its hash compared. Nothing is changed.
"""
EXAMPLES = (
    ("mulligan check", "all is well, or what is not, and which checkpoints it touches"),
    ("mulligan check && mulligan gc", "check before you throw anything away"),
)
EXIT_CODES = (0, 1, 90)
PATHS = ""


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments: none."""


def run(context: Context, _args: argparse.Namespace) -> Result:
    """Checks the store."""
    report = context.workspace.check()
    found = {"ok": report.ok, "problems": [problem.to_dict() for problem in report.problems]}
    return Result(report, lambda: found, 0 if report.ok else 90)


def render(context: Context, result: Result) -> None:
    """Prints the verdict."""
    style = context.out.style
    if result.value.ok:
        context.out.line(f"{style('green', 'ok')}  every object of every checkpoint is there and is what it should be")
        return
    context.out.lines(problem_lines(result.value.problems, style))
    context.note("hint: mulligan doctor repairs what can be repaired")
