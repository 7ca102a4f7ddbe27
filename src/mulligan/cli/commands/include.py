"""`mulligan include`: save paths although they are ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.scopes import add_scope_arguments, change_scope, render_scope

if TYPE_CHECKING:
    import argparse

USAGE = "include [PATTERN...] [--remove]"
DESCRIPTION = """\
Save paths of this workspace although an ignore rule or a built-in exclusion hides them.

Patterns are in gitignore syntax. They are kept in your own configuration, for this workspace alone, and count from the
next save on. A secret among them is saved encrypted all the same. Without a pattern, the lists are shown.
"""
EXAMPLES = (
    ("mulligan include local.db", "a database that git ignores"),
    ("mulligan include node_modules/.cache/", "a directory and all below it"),
    ("mulligan include --remove local.db", "leave it out again"),
)
EXIT_CODES = (0, 1)
PATHS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    add_scope_arguments(parser)


def run(context: Context, args: argparse.Namespace) -> Result:
    """Changes or lists the patterns."""
    return change_scope(context, args, "include")


def render(context: Context, result: Result) -> None:
    """Prints the patterns."""
    render_scope(context, result)
