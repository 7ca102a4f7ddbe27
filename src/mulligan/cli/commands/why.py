"""`mulligan why`: where one line comes from."""

from __future__ import annotations

import argparse

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.errors import UserError
from mulligan.present.blame import why_lines

USAGE = "why FILE:LINE"
DESCRIPTION = """\
Explain one line of a file as it is now: who wrote it, for which prompt, with which command, and when.
"""
EXAMPLES = (
    ("mulligan why src/app.py:12", "the prompt and the command behind line 12"),
    ("mulligan --json why src/app.py:12", "for a program"),
)
EXIT_CODES = (0, 1, 10, 83, 90)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("place", metavar="FILE:LINE", help="a file of the workspace and the number of a line")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Asks whose the line is."""
    file, _, number = args.place.rpartition(":")
    if not file or not (number.isascii() and number.isdigit()):
        raise UsageError(f"{args.place!r} is not FILE:LINE.", hint="mulligan why src/app.py:12")
    blamed = context.saved.blame(context.path(file))
    if not 1 <= int(number) <= len(blamed.lines):
        raise UserError(f"{file!r} has {len(blamed.lines)} lines, and no line {number}.", hint=f"mulligan blame {file}")
    line = blamed.lines[int(number) - 1]
    shown = why_lines(blamed.path, line, now=context.now(), style=context.out.style, width=context.out.width)
    return Result(shown, lambda: {"path": blamed.path, "lines": [line.to_dict()]})
