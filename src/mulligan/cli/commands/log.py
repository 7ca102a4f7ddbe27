"""`mulligan log`: the timeline."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.model.checkpoint import KINDS
from mulligan.present.timeline import log_lines

USAGE = "log [-n N] [--kind K] [-- PATH]"
DESCRIPTION = """\
Show the timeline, newest first.

The position, marked `@`, is the checkpoint last saved or restored to. A restore hides nothing: what came after it is
still here, and can be restored too.
"""
EXAMPLES = (
    ("mulligan log", "all of it"),
    ("mulligan log -n 10 --kind manual", "the last ten that you saved yourself"),
    ("mulligan log -- src/app.py", "those that changed one file, or one directory"),
)
EXIT_CODES = (0, 1, 90)
PATHS = "one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("-n", dest="limit", type=_positive, metavar="N", help="only the newest N")
    parser.add_argument("--kind", choices=KINDS, help="only this kind")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


_positive.__name__ = "number above 0"


def run(context: Context, args: argparse.Namespace) -> Result:
    """Reads the timeline."""
    paths = context.paths(args.paths)
    found = context.workspace.log(limit=args.limit, kind=args.kind, path=paths[0] if paths else None)
    return Result(found, lambda: {"checkpoints": [checkpoint.to_dict() for checkpoint in found]})


def render(context: Context, result: Result) -> None:
    """Prints one line per checkpoint."""
    if not result.value:
        context.note("No checkpoint to show.")
        return
    context.out.lines(
        log_lines(
            result.value,
            position=context.workspace.position(),
            now=context.now(),
            style=context.out.style,
            width=context.out.width,
        )
    )
