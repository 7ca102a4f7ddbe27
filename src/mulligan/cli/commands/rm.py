"""`mulligan rm`: delete checkpoints."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.present.log import log_lines
from mulligan.present.text import count

USAGE = "rm REF… [-y]"
DESCRIPTION = """\
Delete checkpoints.

Their children are attached to the nearest survivor. This cannot be undone; the disk space comes back with `mulligan gc`.
On a terminal you are asked first; without one, -y is needed.
"""
EXAMPLES = (
    ("mulligan rm 1f2e3d4c", "one checkpoint"),
    ("mulligan rm try-1 try-2 -y", "two, without a question"),
)
EXIT_CODES = (0, 1, 10, 11, 90)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument(
        "refs", nargs="+", metavar="REF", help="@, latest, latest~2, a name, an id or the beginning of one"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Finds all of them first, so that a wrong name deletes nothing, then deletes."""
    workspace = context.saved
    chosen = list({found.id: found for found in map(workspace.get, args.refs)}.values())
    if context.interactive and not args.yes:
        context.err.lines(log_lines(chosen, position=workspace.position(), now=context.now(), style=context.err.style))
    context.confirm(
        f"Delete {count(len(chosen), 'checkpoint')} for good?",
        yes=args.yes,
        again="mulligan rm REF -y",
    )
    for checkpoint in chosen:
        workspace.delete(checkpoint)
    return Result(chosen, lambda: {"deleted": [checkpoint.id for checkpoint in chosen]})


def render(context: Context, result: Result) -> None:
    """Prints what was deleted."""
    names = ", ".join(checkpoint.short_id for checkpoint in result.value)
    context.out.line(f"deleted {names}")
    context.note("The disk space comes back with: mulligan gc")
