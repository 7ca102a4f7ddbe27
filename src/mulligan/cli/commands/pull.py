"""`mulligan pull`: other machines' checkpoints."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.present.text import count
from mulligan.present.visible import visible

USAGE = "pull [NAME] [--all]"
DESCRIPTION = """\
Bring other machines' checkpoints here. Every byte is verified; your files are not touched.

In a lazy clone only their rows come; with --all, the contents of all checkpoints come, and the clone is lazy no more.
They are listed by `mulligan log` with the name of their machine, and restored by `mulligan restore MACHINE:REF`.
"""
EXAMPLES = (
    ("mulligan pull", "from the only remote"),
    ("mulligan restore laptop:latest", "then: the newest checkpoint of another machine"),
)
EXIT_CODES = (0, 1, 3, 10, 11)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the remote (default: the only one)")
    parser.add_argument("--all", action="store_true", help="bring the contents of every checkpoint")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Fetches and takes in."""
    done = context.workspace.remotes.pull(args.name, everything=args.all)
    return Result(done, done.to_dict, 3 if done.refused else 0)


def render(context: Context, result: Result) -> None:
    """Prints what came."""
    done = result.value
    if done.checkpoints or done.gone:
        machines = ", ".join(sorted(map(visible, done.machines)))
        gone = f"; {done.gone} deleted there are gone here too" if done.gone else ""
        context.out.line(f"pulled {count(done.checkpoints, 'checkpoint')} of {machines} from {done.remote}{gone}")
    else:
        context.out.line(f"nothing new on {done.remote}")
    for name, why in done.refused:
        context.note(f"refused {visible(name)}: {visible(why)}")
    if done.refused:
        context.note(
            f"Nothing of {'it' if len(done.refused) == 1 else 'them'} was taken. To have it sent again, on the machine that pushed it: mulligan push --prune; then pull again."
        )
    for path in done.forgotten:
        context.note(
            f"Another machine removed {visible(path)} from all history. Checkpoints here still hold it: mulligan forget {visible(path)}"
        )
