"""`mulligan gc`: free disk space."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.model.sizes import format_size

USAGE = "gc [--dry-run] [--remote [NAME]]"
DESCRIPTION = """\
Free disk space by removing expired checkpoints and repacking the rest.

Checkpoints that you saved yourself (manual, feature) are never removed.
With --remote, free an object store: packs that nothing names are marked, and deleted by a run a day later.
"""
EXAMPLES = (
    ("mulligan gc --dry-run", "how much would be freed"),
    ("mulligan gc", "free it"),
    ("mulligan gc --remote backup", "free an object store"),
)
EXIT_CODES = (0, 1, 11, 90, 91)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("--remote", metavar="NAME", nargs="?", const="", help="free this object store instead")
    parser.add_argument("--dry-run", action="store_true", help="only say how much")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Prunes the store."""
    if args.remote is not None:
        swept = context.workspace.remotes.collect(args.remote or None, dry_run=args.dry_run)
        return Result((swept, args.dry_run), swept.to_dict)
    freed = context.workspace.prune(dry_run=args.dry_run)
    return Result((freed, args.dry_run), lambda: {"freed_bytes": freed, "dry_run": args.dry_run})


def render(context: Context, result: Result) -> None:
    """Prints how much was freed."""
    freed, dry_run = result.value
    if not isinstance(freed, int):
        context.out.line(
            f"{format_size(freed.freed)} in {freed.packs} packs {'would be' if dry_run else 'were'} freed; {freed.marked} marked for later"
        )
        return
    context.out.line(f"{format_size(freed)} {'would be' if dry_run else 'were'} freed")
