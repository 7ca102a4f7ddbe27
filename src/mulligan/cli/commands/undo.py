"""`mulligan undo`: one operation back."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.restoring import finished, render_report

USAGE = "undo"
DESCRIPTION = """\
Take one operation back: a restore; else what changed since the position; else the step that led to it.

Again takes back one more. What is taken back is saved first, so `mulligan redo` brings it forward again.
"""
EXAMPLES = (
    ("mulligan undo", "take back what just happened"),
    ("mulligan undo && mulligan undo", "two operations"),
)
EXIT_CODES = (0, 1, 3, 10, 11, 90, 91)
PATHS = ""


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments: none."""


def run(context: Context, _args: argparse.Namespace) -> Result:
    """Goes back."""
    workspace = context.saved
    return finished(workspace, workspace.undo())


def render(context: Context, result: Result) -> None:
    """Prints what was taken back."""
    render_report(context, result, "back at", again="redo")
