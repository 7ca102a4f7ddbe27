"""`mulligan praisonai`: PraisonAI's command line, word for word, over the same checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context

if TYPE_CHECKING:
    import argparse

USAGE = "praisonai (save MESSAGE | list | restore ID | rewind [N] | diff [FROM] [TO] | delete [ID]) [OPTIONS]"
DESCRIPTION = """\
Checkpoints in PraisonAI's words, for scripts and habits that come from there.

They are ordinary checkpoints: `mulligan log` shows them and `mulligan undo` takes a restore or a rewind back. ID is an id,
the beginning of one, or `last`. A rewind counts from where the workspace is now and never goes to an empty beginning.

    save MESSAGE      save; exit 1 if nothing changed, unless --allow-empty
    list              newest first, 20 of them or as many as -n says, other tools' too
    restore ID        bring the workspace back, or to a step with --step N
    rewind [N]        N checkpoints back (default: 1)
    diff [FROM] [TO]  what differs; from the last checkpoint to the workspace by default
    delete [ID]       one checkpoint, or all of these with --all; asks first, and needs -y without a terminal
"""
EXAMPLES = (
    ('mulligan praisonai save "before refactor"', "a checkpoint"),
    ("mulligan praisonai restore last", "back to the newest"),
    ("mulligan praisonai rewind 2 -w project", "two back, in another directory"),
    ("mulligan praisonai delete --all -y", "all of them, without a question"),
)
EXIT_CODES = (0, 1, 3, 10, 11, 90, 91)
PATHS = ""
MOST_WORDS = {"save": 1, "list": 0, "restore": 1, "rewind": 1, "diff": 2, "delete": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("action", choices=MOST_WORDS, metavar="ACTION", help=", ".join(MOST_WORDS))
    parser.add_argument("words", nargs="*", metavar="WORD", help="the message, ids or number of the action")
    parser.add_argument("-w", "--workspace", metavar="DIR", help="the workspace, like -C")
    parser.add_argument("--allow-empty", action="store_true", help="save: also if nothing changed")
    parser.add_argument("--step", type=int, metavar="N", help="save: number it; restore: go back to that step")
    parser.add_argument("-n", "--limit", type=int, default=20, metavar="N", help="list: how many (default: 20)")
    parser.add_argument("--all", action="store_true", help="delete: all of them")
    parser.add_argument("-y", "--yes", action="store_true", help="delete: do not ask")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Checks the number of words, then does what the action says."""
    if len(args.words) > MOST_WORDS[args.action]:
        raise UsageError(
            f"`praisonai {args.action}` takes fewer words than that.",
            hint='A message of several words needs quotes: mulligan praisonai save "before refactor"',
        )
    if args.workspace:
        context.use(args.workspace)
    from mulligan.cli.checkpointing import act

    return act(context, args)


def render(context: Context, result: Result) -> None:
    """Prints what was done."""
    context.out.lines(result.value)
