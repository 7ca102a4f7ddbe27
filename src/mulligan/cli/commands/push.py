"""`mulligan push`: send this history to a remote."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.present.text import count
from mulligan.present.visible import visible

USAGE = "push [NAME] [--prune]"
DESCRIPTION = """\
Send new checkpoints to a remote, tell it which ones are gone, and what agents did. It costs what is new; an interrupted push goes on.

With --prune, the remote gets this machine's history anew, without deleted checkpoints and forgotten paths. A server may keep
the old data for a while, in backups and until its own cleanup.
"""
EXAMPLES = (
    ("mulligan push", "to the only remote"),
    ("mulligan push team --prune", "after mulligan forget: replace what is there"),
)
EXIT_CODES = (0, 1, 3, 10, 11)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the remote (default: the only one)")
    parser.add_argument("--prune", action="store_true", help="replace what is there by what is here")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Sends what is new."""
    done = context.saved.remotes.push(args.name, full=args.prune)
    return Result(done, done.to_dict, 3 if done.held_back else 0)


def render(context: Context, result: Result) -> None:
    """Prints what was sent."""
    done = result.value
    if done.renamed:
        context.note("Another store pushes as this machine; this one has a new name now: mulligan remote list")
    if done.events and not done.checkpoints and not done.gone:
        context.out.line(f"told {done.remote} what agents did; no new checkpoint")
    elif done.segments:
        gone = f", {done.gone} deleted there" if done.gone else ""
        context.out.line(f"pushed {count(done.checkpoints, 'checkpoint')} to {done.remote}{gone}")
    else:
        context.out.line(f"{done.remote} is up to date")
    if done.held_back:
        paths = ", ".join(sorted({visible(path) for _, path in done.held_back}))
        context.note(
            f"Not sent: {count(len(done.held_back), 'checkpoint')} with {paths}, which another machine removed from all history."
        )
        context.note("Remove it here too: mulligan forget PATH; then push again.")
