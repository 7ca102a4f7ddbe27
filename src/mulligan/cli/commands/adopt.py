"""`mulligan adopt`: take over the history of a moved project."""

from __future__ import annotations

import argparse
import os

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.present.text import count
from mulligan.present.visible import visible

USAGE = "adopt DIR"
DESCRIPTION = """\
Take over the history of a project that was moved or renamed: DIR is where it used to be.

Run it in the new place. Checkpoints are found by the path of their workspace, so a moved project starts without history
until it adopts its own. What was saved in the new place since is joined with it: every id stays valid, and the position is
the new place's. An interrupted adoption is finished by the same command.
"""
EXAMPLES = (
    ("mulligan adopt ../old-name", "after `mv old-name new-name && cd new-name`"),
    ("mulligan -C /srv/app adopt /home/me/app", "for another directory than the current one"),
)
EXIT_CODES = (0, 1, 10, 11, 90, 91)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("old", metavar="DIR", help="where the project used to be")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Takes over the history."""
    old = os.path.normpath(os.path.join(context.base, args.old))
    adopted = context.workspace.adopt(old)
    number = adopted.get("checkpoints")
    held = f"  {count(number, 'checkpoint')}" if isinstance(number, int) else ""
    return Result([f"adopted {visible(context.settings.workspace)}{held}"], lambda: adopted)
