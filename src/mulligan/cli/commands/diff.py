"""`mulligan diff`: what changed."""

from __future__ import annotations

import argparse

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.pathspec import chosen, split_refs
from mulligan.model.diff import Diff
from mulligan.present.diff import render as render_diff
from mulligan.present.diff import render_stat
from mulligan.present.text import some
from mulligan.present.visible import visible

USAGE = "diff [A] [B] [--stat] [PATH…]"
DESCRIPTION = """\
Show what changed: since `@` (the checkpoint last saved or restored to), since checkpoint A, or from A to B.

In a pipe or a file the output is a patch that `git apply` takes. Write `--` before a path that is also a checkpoint's name.
"""
EXAMPLES = (
    ("mulligan diff src/app.py '*.md'", "of these paths, since the last checkpoint"),
    ('mulligan diff "login works" @ --stat -- src', "between two checkpoints, in one directory, counted per file"),
    ("mulligan diff > changes.patch", "as a patch"),
)
EXIT_CODES = (0, 1, 10, 83, 90)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument(
        "refs", nargs="*", metavar="A B", help="checkpoints (@, latest, latest~2, a name, an id), then paths"
    )
    parser.add_argument("--stat", action="store_true", help="counts per file instead of the patch")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Compares."""
    workspace = context.saved
    refs, words = (args.refs, []) if args.dashes else split_refs(context, args.refs, 2)
    if len(refs) > 2:
        raise UsageError(
            "At most two checkpoints can be compared.", hint="Paths follow `--`: mulligan diff A B -- PATH"
        )
    old, new = (*refs, None, None)[:2]
    paths = chosen(context, [*words, *args.paths], refs or ["@"], lambda: _changed(workspace.diff(old, new)))
    diff = workspace.diff(old, new, paths=paths)
    if diff.is_empty and new is None and paths is None:
        plan = workspace.plan(old or "@")  # directories are no part of a diff, but of a checkpoint
        beside = [*(f"+ {path}/" for path in plan.deletes), *(f"- {path}/" for path in plan.creates)]
        return Result((diff, args.stat, beside), lambda: {**diff.to_dict(), "stat": []})
    return Result((diff, args.stat, []), lambda: {**diff.to_dict(), "stat": [entry.to_dict() for entry in diff.stat]})


def _changed(diff: Diff) -> list[str]:
    return [*diff.added, *diff.modified, *diff.deleted, *(path for pair in diff.renamed for path in pair)]


def render(context: Context, result: Result) -> None:
    """Prints the patch, or the counts."""
    diff, stat, beside = result.value
    out = context.out
    if diff.is_empty:
        context.note(
            f"No file differs. Directories: {some([visible(each) for each in beside])}" if beside else "No difference."
        )
    elif stat:
        out.stream.write(render_stat(diff, colour=out.style.enabled, width=out.width or 80))
    else:
        shown = out.is_terminal or out.style.enabled
        text = render_diff(diff, colour=out.style.enabled, width=out.width or 80, terminal=shown)
        out.data(text.encode("utf-8", "surrogateescape"))
