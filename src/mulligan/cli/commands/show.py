"""`mulligan show`: one checkpoint."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.model.checkpoint import Checkpoint
from mulligan.model.diff import Diff
from mulligan.present.diff import render as render_diff
from mulligan.present.diff import render_stat
from mulligan.present.log import checkpoint_lines
from mulligan.present.outcome import not_captured_lines
from mulligan.present.text import count, some
from mulligan.present.visible import visible

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace

USAGE = "show [REF] [-p]"
DESCRIPTION = """\
Show one checkpoint: what it changed against its parent, and what it did not save.
"""
EXAMPLES = (
    ("mulligan show", "the last checkpoint"),
    ("mulligan show latest~1 -p", "the one before the newest, with its patch"),
    ('mulligan --json show "login works"', "for a program"),
)
EXIT_CODES = (0, 1, 10, 90)
MOST = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument(
        "ref",
        nargs="?",
        default="@",
        metavar="REF",
        help="@ (default), latest, latest~2, a name, an id or the beginning of one",
    )
    parser.add_argument("-p", "--patch", action="store_true", help="print the patch too")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Reads the checkpoint and its difference to its parent."""
    workspace = context.saved
    checkpoint = workspace.get(args.ref)
    diff = workspace.diff(checkpoint.parent, checkpoint) if checkpoint.parent else _first(workspace, checkpoint, args)
    return Result((checkpoint, diff, args.patch), lambda: {"checkpoint": checkpoint.to_dict(), "diff": diff.to_dict()})


def _first(workspace: Workspace, checkpoint: Checkpoint, args: argparse.Namespace) -> Diff:
    """Returns what a first checkpoint holds; its patch, the whole project, only where it is asked for."""
    return (
        workspace.contents(checkpoint) if args.patch else Diff("", checkpoint.id, added=list(checkpoint.files_changed))
    )


def render(context: Context, result: Result) -> None:
    """Prints the checkpoint."""
    checkpoint, diff, patch = result.value
    out = context.out
    out.lines(checkpoint_lines(checkpoint, now=context.now(), style=out.style))
    out.line()
    if checkpoint.parent is None and not patch:
        out.line(
            f"{count(len(diff.added), 'file')} saved: {some([visible(path) for path in diff.added[:MOST]], MOST, of=len(diff.added))}"
        )
    elif patch:
        shown = out.is_terminal or out.style.enabled
        text = render_diff(diff, colour=out.style.enabled, width=out.width or 80, terminal=shown)
        out.data(text.encode("utf-8", "surrogateescape"))
    else:
        out.stream.write(render_stat(diff, colour=out.style.enabled, width=out.width or 80))
    if checkpoint.not_captured:
        out.line()
        out.line("not saved:")
        out.lines(not_captured_lines(checkpoint.not_captured, most=MOST))
