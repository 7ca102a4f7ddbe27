"""`mulligan diff`: what changed."""

from __future__ import annotations

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.usage import UsageError
from mulligan.model.typed import TYPE_CHECKING
from mulligan.present.diff import render as render_diff
from mulligan.present.diff import render_stat

if TYPE_CHECKING:
    import argparse

USAGE = "diff [A] [B] [--stat] [-- PATH…]"
DESCRIPTION = """\
Show what changed: since the position `@`, since checkpoint A, or from A to B.

In a pipe or a file the output is a patch that `git apply` takes.
"""
EXAMPLES = (
    ("mulligan diff", "since the position"),
    ("mulligan diff latest~3 --stat", "since three checkpoints before the newest, counted per file"),
    ('mulligan diff "login works" @ -- src', "between two checkpoints, in one directory"),
    ("mulligan diff > changes.patch", "as a patch"),
)
EXIT_CODES = (0, 1, 10, 83, 90)
PATHS = "many"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument(
        "refs", nargs="*", metavar="A B", help="checkpoints: @, latest, latest~2, a name, an id or the beginning of one"
    )
    parser.add_argument("--stat", action="store_true", help="counts per file instead of the patch")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Compares."""
    if len(args.refs) > 2:
        raise UsageError(
            "At most two checkpoints can be compared.", hint="Paths follow `--`: mulligan diff A B -- PATH"
        )
    workspace = context.saved
    old, new = (*args.refs, None, None)[:2]
    diff = workspace.diff(old, new, paths=context.paths(args.paths))
    return Result((diff, args.stat), lambda: {**diff.to_dict(), "stat": [entry.to_dict() for entry in diff.stat]})


def render(context: Context, result: Result) -> None:
    """Prints the patch, or the counts."""
    diff, stat = result.value
    out = context.out
    if diff.is_empty:
        context.note("No difference.")
    elif stat:
        out.stream.write(render_stat(diff, colour=out.style.enabled, width=out.width or 80))
    else:
        text = render_diff(diff, colour=out.style.enabled, width=out.width or 80, terminal=out.is_terminal)
        out.data(text.encode("utf-8", "surrogateescape"))
