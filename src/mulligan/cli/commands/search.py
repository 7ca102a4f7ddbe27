"""`mulligan search`: where a text is, and when it came or went."""

from __future__ import annotations

import argparse

from mulligan.cli.arguments import UsageError
from mulligan.cli.bounds import add_bounds, given_bounds
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.present.search import search_lines
from mulligan.present.visible import visible

USAGE = "search TEXT [-S] [--agent A] [--session S] [--since T] [--until T]"
DESCRIPTION = """\
Find a text in prompts, commands, checkpoints' names, paths, and the files of the last checkpoint.

With -S: the steps in which the text appeared in a file or disappeared from one, and which prompt did it. Secrets that are
saved sealed are not searched.
"""
EXAMPLES = (
    ('mulligan search "login page"', "prompts, commands, paths and lines that mention it"),
    ("mulligan search -S parse_date", "which step added or removed it"),
    ("mulligan search migrate --agent codex --since yesterday", "only what that agent did since then"),
)
EXIT_CODES = (0, 1, 10, 90)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("text", metavar="TEXT", help="words; upper and lower case are the same, but not with -S")
    parser.add_argument("-S", dest="changes", action="store_true", help="when it appeared in files or disappeared")
    add_bounds(parser)


def run(context: Context, args: argparse.Namespace) -> Result:
    """Searches."""
    if not args.text:
        raise UsageError("There is no text to search for.", hint='mulligan search "login page"')
    found = context.saved.search(args.text, changes=args.changes, **given_bounds(args))
    return Result((args, found), found.to_dict)


def render(context: Context, result: Result) -> None:
    """Prints the matches."""
    args, found = result.value
    out = context.out
    if not found.matches:
        more = "" if args.changes else f" In earlier versions of files: mulligan search -S {visible(args.text)!r}"
        context.note(f"Nothing mentions {visible(args.text)!r}.{more}")
    out.lines(search_lines(found, now=context.now(), style=out.style, width=out.width))
