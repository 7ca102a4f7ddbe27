"""`mulligan undo`: one operation back."""

from __future__ import annotations

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.restoring import finished, render_report
from mulligan.model.typed import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

USAGE = "undo [--session ID]"
DESCRIPTION = """\
Take one operation back: a restore; else what changed since the position; else the step that led to it.

All that an agent did for one prompt is one operation; what you or another agent changed meanwhile is kept, merged line by line.
What cannot be told apart is left as it is and listed, and the exit code is 3. With --session, the newest turn of that session is
taken back wherever it stands.

Again takes back one more. What is taken back is saved first, so `mulligan redo` brings it forward again.
"""
EXAMPLES = (
    ("mulligan undo", "take back what just happened"),
    ("mulligan undo && mulligan undo", "two operations"),
    ("mulligan undo --session 1bd24cd5", "only what that agent did last; what others did stays"),
)
EXIT_CODES = (0, 1, 3, 10, 11, 90, 91)
PATHS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument(
        "--session", metavar="ID", help="only what this agent's session did; the beginning of its id will do"
    )


def run(context: Context, args: argparse.Namespace) -> Result:
    """Goes back."""
    workspace = context.saved
    return finished(workspace, workspace.undo(session=args.session))


def render(context: Context, result: Result) -> None:
    """Prints what was taken back."""
    render_report(context, result, "back at", again="redo")
