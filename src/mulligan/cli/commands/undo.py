"""`mulligan undo`: one operation back."""

from __future__ import annotations

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.restoring import finished, in_same_project, render_undo
from mulligan.model.typed import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

USAGE = "undo [--session ID]"
DESCRIPTION = """\
Undo the last prompt, restore or unsaved change. Run it again to undo one more.

All that an agent did for one prompt is undone together. What you or another agent changed since then is kept, merged line by
line; a file that cannot be merged is left alone and listed (exit code 3). The present state is saved first, so `mulligan redo`
brings it back.
"""
EXAMPLES = (
    ("mulligan undo", "undo what just happened"),
    ("mulligan undo --session 1bd24cd5", "undo the last turn of that agent only"),
)
EXIT_CODES = (0, 1, 3, 10, 11, 90, 91)
PATHS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument(
        "--session",
        metavar="ID",
        help="only the newest turn of this agent's session; the beginning of its id is enough",
    )


def run(context: Context, args: argparse.Namespace) -> Result:
    """Goes back."""
    workspace = context.saved
    return finished(workspace, in_same_project(context, lambda: workspace.undo(session=args.session)))


def render(context: Context, result: Result) -> None:
    """Prints what was undone."""
    render_undo(context, result, again="redo")
