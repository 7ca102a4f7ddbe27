"""`mulligan forks`: the forks of this project."""

from __future__ import annotations

import argparse
import os

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.forks.state import ForkState, describe
from mulligan.forks.verbs import find_fork, remove_fork
from mulligan.forks.verbs import origin as origin_of
from mulligan.forks.worktree import prune_worktrees
from mulligan.model.sizes import format_size
from mulligan.present.text import ago, columns, count
from mulligan.present.visible import visible

USAGE = "forks [rm DIR [-y]]"
DESCRIPTION = """\
List the forks of this project: where each is, where it started, the work in it, and its size.

`forks rm DIR` removes a fork: its directory, with all that is in it, and its timeline. If it holds work that is nowhere else,
you are asked first; without a terminal -y is needed. To bring that work into this project first: mulligan keep DIR
"""
EXAMPLES = (
    ("mulligan forks", "list them"),
    ("mulligan forks rm ../try-2", "remove one"),
)
EXIT_CODES = (0, 1, 11, 90, 91)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("action", nargs="?", choices=("rm",), help="remove a fork")
    parser.add_argument("place", nargs="?", metavar="DIR", help="the fork's directory, or its name")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Lists the forks, or removes one."""
    if args.action is not None:
        return _remove(context, args)
    workspace = context.workspace
    found = [describe(workspace, fork) for fork in workspace.forks()]
    origin = origin_of(workspace)
    return Result(
        _lines(context, found, origin), lambda: {"forks": [state.to_dict() for state in found], "origin": origin}
    )


def _remove(context: Context, args: argparse.Namespace) -> Result:
    if args.place is None:
        raise UsageError("Which fork?", hint="mulligan forks rm DIR")
    workspace = context.workspace
    fork = find_fork(workspace, os.path.join(context.base, args.place))
    state, of_git = describe(workspace, fork), os.path.isfile(os.path.join(fork.directory, ".git"))
    if state.has_work:
        context.confirm(
            f"{visible(fork.directory)} holds work that is nowhere else: {_work(state)}. Remove it for good?",
            yes=args.yes,
            again=f"mulligan forks rm {args.place} -y  (to bring it into this project first: mulligan keep {args.place})",
        )
    remove_fork(workspace, fork.directory)
    if of_git:
        prune_worktrees(workspace.root)
        context.note(f"Its branch stays: git branch -D {visible(fork.name)} removes it.")
    left = workspace.forks()
    document = {"forks": [describe(workspace, each).to_dict() for each in left], "removed": fork.to_dict()}
    gone = visible(os.path.relpath(fork.directory, context.base))
    return Result([f"Removed the fork {gone}."], lambda: document)


def _work(state: ForkState) -> str:
    if state.problem:
        return visible(state.problem)
    said = [count(state.unsaved, "unsaved file")] if state.unsaved else []
    said += [count(state.checkpoints, "checkpoint")] if state.checkpoints else []
    return ", ".join(said) or "nothing new"


def _lines(context: Context, found: list[ForkState], origin: dict[str, str] | None) -> list[str]:
    """Returns where this project was forked from, and one line per fork."""
    lines = []
    if origin is not None:
        lines.append(f"This is a fork of {visible(origin['workspace'])}, from {origin['checkpoint'][:8]}.")
    if not found:
        return [*lines, "No forks. Make one: mulligan fork @ ../try-2"]
    rows = [
        (
            visible(os.path.relpath(state.fork.directory, context.base)),
            ago(state.fork.created_at, context.now()),
            f"from {state.fork.checkpoint[:8]}",
            _work(state) if state.exists else f"gone ({_work(state)} in its timeline)",
            format_size(state.bytes) if state.exists else "",
        )
        for state in found
    ]
    return [*lines, *columns(rows)]
