"""`mulligan architect`: architect's commands, over the same checkpoints."""

from __future__ import annotations

import argparse

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context

USAGE = "architect (history | rollback [OPTIONS] | pipeline PIPELINE.yaml [OPTIONS])"
DESCRIPTION = """\
Checkpoints that are commits on your branch, in architect's words.

They are ordinary checkpoints too: `mulligan log` shows them and `mulligan undo` takes a rollback back.

    history      list them, newest first
    rollback     go back to one: --to-step N, --to-name NAME or --to-commit REV
    pipeline     run a pipeline of agents; the same as `mulligan run`

`mulligan architect rollback -h` shows the options of one.
"""
EXAMPLES = (
    ("mulligan architect history", "what there is"),
    ("mulligan architect rollback --to-name implement", "back to a step of a pipeline"),
)
EXIT_CODES = (0, 1, 2, 3, 11, 90, 91)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("action", nargs="?", metavar="ACTION", help="history, rollback or pipeline")


def run(_context: Context, args: argparse.Namespace) -> Result:
    """Refuses: a known action never gets here."""
    said = f"{args.action!r} is no command of architect's." if args.action else "A command is missing."
    raise UsageError(said, hint="mulligan architect history, rollback or pipeline")
