"""`mulligan forget`: remove a path from all history."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.errors import UserError
from mulligan.forks.state import forget_in, forks_holding
from mulligan.model.sizes import format_size
from mulligan.present.text import count, some
from mulligan.present.visible import visible

USAGE = "forget PATH [-y]"
DESCRIPTION = """\
Remove a path from every checkpoint, and its bytes from the store: for a secret that was captured by mistake.

The file in the workspace is not touched. If the same bytes are still saved under another name, the output names it.
Forks that hold it are named and lose it too. This cannot be undone; on a terminal you are asked first, without one -y is needed.
"""
EXAMPLES = (
    ("mulligan forget config/token.txt", "one file"),
    ("mulligan forget dumps -y", "a directory and all below it, without a question"),
)
EXIT_CODES = (0, 1, 10, 11, 83, 90, 91)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("path", metavar="PATH", help="the file or directory, from where you stand")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Removes the path from history."""
    workspace = context.saved
    path = context.path(args.path)
    if not path:
        raise UserError(
            "That is the whole workspace. Nothing was removed.", hint="To delete checkpoints: mulligan rm REF"
        )
    forks = forks_holding(workspace, path)
    also = f" These forks hold it too: {some([visible(each.directory) for each in forks], 5)}." if forks else ""
    context.confirm(
        f"Remove {visible(path)} from every checkpoint for good?{also}",
        yes=args.yes,
        again=f"mulligan forget PATH -y{also}",
    )
    for fork in forks:
        forget_in(workspace, fork, path)
    report = workspace.forget(path)
    document = {**report.to_dict(), "forks": [fork.directory for fork in forks]}
    return Result((report, forks), lambda: document)


def render(context: Context, result: Result) -> None:
    """Prints how much is gone, and where the bytes still are."""
    report, forks = result.value
    context.out.line(
        f"forgot {visible(report.path)}  in {count(len(report.checkpoints), 'checkpoint')}, {format_size(report.freed_bytes)} freed"
    )
    if forks:
        context.out.line(
            f"forgot it in {count(len(forks), 'fork')} too: {some([visible(f.directory) for f in forks], 5)}"
        )
    if report.also_at:
        context.out.line(f"the same bytes are still held as: {some([visible(each) for each in report.also_at], 5)}")
