"""`mulligan cat`: one file as it was."""

from __future__ import annotations

import argparse
import base64
from typing import TYPE_CHECKING

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.errors import UnknownCheckpoint, UserError
from mulligan.model.checkpoint import Checkpoint

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace

USAGE = "cat REF:PATH [--reveal]"
DESCRIPTION = """\
Print one file as it was at a checkpoint, byte for byte.

A secret is saved sealed, and printed only with --reveal, on a terminal.
PATH starts at the top of the workspace, as in `git show`; `./PATH` starts where you stand.
"""
EXAMPLES = (
    ("mulligan cat @:src/app.py", "as it was at the position"),
    ("mulligan cat latest~3:./notes.md > old.md", "an older version, beside the new one"),
)
EXIT_CODES = (0, 1, 10, 83, 90)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("target", metavar="REF:PATH", help="the checkpoint and the file")
    parser.add_argument("--reveal", action="store_true", help="print a secret; on a terminal only")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Reads the file."""
    if ":" not in args.target[1:]:
        raise UsageError(f"{args.target!r} is not REF:PATH.", hint="mulligan cat @:README.md")
    workspace = context.saved
    checkpoint, path = _split(context, workspace, args.target)
    if args.reveal and (context.json or not context.out.is_terminal):
        raise UserError("A secret is revealed on a terminal only. Nothing was printed.")
    data = workspace.cat(checkpoint, path, reveal=args.reveal)
    return Result(
        data,
        lambda: {
            "checkpoint": checkpoint.id,
            "path": path,
            "size": len(data),
            "base64": base64.b64encode(data).decode("ascii"),
        },
    )


def _split(context: Context, workspace: Workspace, target: str) -> tuple[Checkpoint, str]:
    """
    Returns the checkpoint and the path. A colon may be part of either, so each one is tried, the first first.

    A time cut short is a time too (`@14:05:30:a`), so a pair whose path is there is preferred.
    """
    found: list[tuple[Checkpoint, str]] = []
    unknown: list[UnknownCheckpoint] = []
    for at in (at for at, char in enumerate(target) if char == ":" and at > 0):
        path = target[at + 1 :]
        try:
            checkpoint = workspace.get(target[:at])
        except UnknownCheckpoint as error:
            unknown.append(error)
            continue
        found.append((checkpoint, context.path(path) if path.startswith(("./", "../", "/")) else path))
    held = (pair for pair in found if len(found) > 1 and pair[1] and workspace.holds(*pair))
    if not found:
        raise unknown[0]
    return next(held, found[0])


def render(context: Context, result: Result) -> None:
    """Prints the bytes as they are."""
    context.out.data(result.value)
