"""`mulligan gc`: free disk space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.model.sizes import format_size

if TYPE_CHECKING:
    import argparse

USAGE = "gc [--dry-run]"
DESCRIPTION = """\
Free disk space by removing expired checkpoints and repacking the rest.

Checkpoints that you saved yourself (manual, feature) are never removed.
"""
EXAMPLES = (
    ("mulligan gc --dry-run", "how much would be freed"),
    ("mulligan gc", "free it"),
)
EXIT_CODES = (0, 1, 11, 90, 91)
PATHS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("--dry-run", action="store_true", help="only say how much")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Prunes the store."""
    freed = context.workspace.prune(dry_run=args.dry_run)
    return Result((freed, args.dry_run), lambda: {"freed_bytes": freed, "dry_run": args.dry_run})


def render(context: Context, result: Result) -> None:
    """Prints how much was freed."""
    freed, dry_run = result.value
    context.out.line(f"{format_size(freed)} {'would be' if dry_run else 'were'} freed")
