"""`mulligan redo`: one operation forward."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.restoring import finished, in_same_project, render_undo

USAGE = "redo"
DESCRIPTION = """\
Redo what the last `mulligan undo` undid. Possible until the next save or restore.
"""
EXAMPLES = (
    ("mulligan redo", "the undo was a mistake"),
    ("mulligan undo; mulligan redo", "look at the earlier state, and come back"),
)
EXIT_CODES = (0, 1, 3, 10, 11, 90, 91)


def run(context: Context, _args: argparse.Namespace) -> Result:
    """Goes forward."""
    workspace = context.saved
    return finished(workspace, in_same_project(context, workspace.redo))


def render(context: Context, result: Result) -> None:
    """Prints what came back."""
    render_undo(context, result, again="undo")
