"""`mulligan architect rollback`: back to a checkpoint that is a commit, files and branch together."""

from __future__ import annotations

import argparse

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.restoring import finished, render_restore
from mulligan.errors import MulliganError, UnknownCheckpoint
from mulligan.loop.commits import CommitCheckpoints
from mulligan.present.visible import visible

USAGE = "architect rollback [--to-step N] [--to-commit REV] [--to-name NAME]"
DESCRIPTION = """\
Go back to a checkpoint that is a commit: the files, the branch and what is staged, in one step.

Everything is saved first, uncommitted and untracked work too, and one `mulligan undo` brings it all back. Commits made since
stay: `mulligan architect history` lists them, and you can go forward to them in the same way.

Where the workspace is only a part of a repository, its files go back and the branch stays, since it belongs to others too.
"""
EXAMPLES = (
    ("mulligan architect rollback --to-step 3", "the newest checkpoint of step 3"),
    ("mulligan architect rollback --to-name implement", "the newest one of a pipeline's step"),
    ("mulligan architect rollback --to-commit 1f2e3d4", "any commit"),
)
EXIT_CODES = (0, 1, 2, 3, 11, 90, 91)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("--to-step", type=int, metavar="N", help="the newest checkpoint of this step")
    parser.add_argument("--to-commit", metavar="REV", help="this commit; wins over the others")
    parser.add_argument("--to-name", metavar="NAME", help="the newest checkpoint of a pipeline's step")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Goes back."""
    if args.to_commit is None and args.to_step is None and args.to_name is None:
        raise UsageError("Specify --to-step or --to-commit.", hint="mulligan architect history")
    commits = CommitCheckpoints(context.workspace)
    try:
        target, words = _target(commits, args)
        report = commits.rollback(target)
    except MulliganError as error:
        error.message = f"Could not perform rollback. {error.message}"
        raise
    result = finished(context.workspace, report)
    return result._replace(value=(words, result.value))


def _target(commits: CommitCheckpoints, args: argparse.Namespace) -> tuple[str, str]:
    """Returns the commit that is meant, and the words for it."""
    if args.to_commit is not None:
        return args.to_commit, args.to_commit
    words = f"step {args.to_step}" if args.to_step is not None else args.to_name
    found = commits.find(step=args.to_step, name=args.to_name if args.to_step is None else None)
    if found is None:
        what = words if args.to_step is not None else repr(words)
        raise UnknownCheckpoint(
            f"There is no checkpoint of {what}. Nothing was changed.", hint="mulligan architect history"
        )
    return found.commit, words


def render(context: Context, result: Result) -> None:
    """Prints what was done."""
    words, restored = result.value
    context.out.line(f"Rollback successful to {visible(words)}")
    render_restore(context, restored)
