"""`mulligan exclude`: leave paths out of every later checkpoint."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.commands.include import add_arguments, change_scope
from mulligan.cli.context import Context

__all__ = ["add_arguments"]
USAGE = "exclude [PATTERN...] [--remove]"
DESCRIPTION = """\
Leave paths of this workspace out of every later checkpoint.

Patterns are in gitignore syntax. They are kept in your own configuration, for this workspace alone, and count from the
next save on. A restore leaves excluded paths alone. Without a pattern, the lists are shown.
"""
EXAMPLES = (
    ("mulligan exclude data/", "a directory and all below it"),
    ("mulligan exclude --remove data/", "save it again"),
)
EXIT_CODES = (0, 1)


def run(context: Context, args: argparse.Namespace) -> Result:
    """Changes or lists the patterns."""
    return change_scope(context, args, "exclude")
