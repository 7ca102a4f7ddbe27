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
    done = "would be" if args.dry_run else "were"
    if args.remote is not None:
        swept = context.workspace.remotes.collect(args.remote or None, dry_run=args.dry_run)
        line = f"{format_size(swept.freed)} in {swept.packs} packs {done} freed; {swept.marked} marked for later"
        return Result([line], swept.to_dict)
    freed = context.workspace.prune(dry_run=args.dry_run)
    return Result([f"{format_size(freed)} {done} freed"], lambda: {"freed_bytes": freed, "dry_run": args.dry_run})
