"""`mulligan include`: save paths although they are ignored."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.errors import UserError
from mulligan.present.visible import visible
from mulligan.settings.locations import places
from mulligan.settings.scoping import read_scoping, scoping_file, write_scoping

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of both commands."""
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="a path, or a pattern in gitignore syntax")
    parser.add_argument("--remove", action="store_true", help="take the patterns off the list")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Changes or lists the patterns."""
    return change_scope(context, args, "include")


def change_scope(context: Context, args: argparse.Namespace, which: str) -> Result:
    """Adds patterns to a list, or removes them; returns both lists."""
    root = context.settings.workspace
    path = scoping_file(root, places(context.environ))
    scoping = read_scoping(path)
    if args.patterns:
        for pattern in args.patterns:
            if not pattern.strip() or pattern.startswith("!") or any(char in pattern for char in "\0\n\r"):
                raise UserError(f"{pattern!r} is not a pattern for a path of this workspace. Nothing was changed.")
        listed = dict.fromkeys(getattr(scoping, which))
        unknown = [pattern for pattern in args.patterns if pattern not in listed]
        if args.remove and unknown:
            raise UserError(f"{unknown[0]!r} is not on the list. Nothing was changed.", hint=f"mulligan {which}")
        kept = [p for p in listed if p not in args.patterns] if args.remove else [*listed, *unknown]
        scoping = scoping._replace(include=tuple(kept)) if which == "include" else scoping._replace(exclude=tuple(kept))
        write_scoping(path, root, scoping)
    document = {"include": list(scoping.include), "exclude": list(scoping.exclude)}
    words = {"include": "Saved although ignored", "exclude": "Not saved"}
    lines = [f"{words[name]}: {', '.join(map(visible, listed))}" for name, listed in document.items() if listed]
    none = "No patterns: ignore rules and your configuration decide."
    then = ["This counts from the next save on."] if args.patterns else []
    return Result([*(lines or [none]), *then], lambda: document)
