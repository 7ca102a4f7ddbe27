"""`mulligan fork`: a second working directory at a checkpoint."""

from __future__ import annotations

import argparse
import os
from typing import Any

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.engine.workspace import Workspace
from mulligan.errors import MulliganError
from mulligan.forks.foreground import run_attached
from mulligan.forks.record import Fork
from mulligan.forks.worktree import check_repository, make_worktree
from mulligan.present.outcome import named
from mulligan.present.text import count
from mulligan.present.visible import visible

USAGE = "fork REF DIR [--with-ignored] [--git] [--run CMD]"
DESCRIPTION = """\
Make a second working directory at a checkpoint, with a timeline of its own that starts there.

DIR must be new or empty. Files are shared by reflink where the file system can, else copied; a change in one directory never
shows in the other. Your own directory is not touched. What is not saved (node_modules, .venv) comes along with --with-ignored.
With --run, a command is started in the fork, and its exit code is returned.
"""
EXAMPLES = (
    ("mulligan fork @ ../try-2", "a second directory at the last checkpoint"),
    ("mulligan fork @prompt-3 ../again --git", "before the third prompt, as a git worktree"),
    ("mulligan fork @ ../b --with-ignored --run claude", "with installed packages, and an agent in it"),
)
EXIT_CODES = (0, 1, 3, 10, 11, 90, 91)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("ref", metavar="REF", help="@, latest, @prompt-2, a name or an id")
    parser.add_argument("place", metavar="DIR", help="a directory that is new or empty")
    parser.add_argument("--with-ignored", action="store_true", help="copy what is not saved, too")
    parser.add_argument("--git", action="store_true", help="make it a git worktree")
    parser.add_argument("--run", metavar="CMD", help="run this command in the fork")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Makes the fork, then the worktree, then runs the command."""
    workspace, place = context.saved, os.path.join(context.base, args.place)
    if args.git:
        check_repository(workspace.root)
    checkpoint = workspace.get(args.ref)
    made = workspace.fork(checkpoint, place, with_ignored=args.with_ignored)
    fork = next(each for each in workspace.forks() if each.directory == made.root)
    document = {**fork.to_dict(), "files": _files(made), "git": None, "exit_code": None}
    document["left_out"] = [{"path": path, "reason": reason} for path, reason in fork.left_out]
    problem = _as_worktree(context, workspace, fork, document) if args.git else ""
    made.close()
    result = Result((document, checkpoint, problem), lambda: {"fork": document}, 3 if problem or fork.left_out else 0)
    if args.run is None or problem:
        return result
    context.quiet()
    if not context.json:
        render(context, result)
        context.out.stream.flush()
    document["exit_code"] = run_attached(
        ["/bin/sh", "-c", args.run], fork.directory, stdout=context.err.stream if context.json else None
    )
    return result._replace(value=(), exit_code=document["exit_code"])


def _files(made: Workspace) -> int:
    return len(made.contents("@").added)


def _as_worktree(context: Context, workspace: Workspace, fork: Fork, document: dict[str, Any]) -> str:
    """Makes a fork a git worktree; returns why it is none."""
    try:
        document["git"] = make_worktree(workspace.root, fork.directory, workspace.get(fork.checkpoint))
    except MulliganError as error:
        context.note(f"partial: the fork is there, but it is no git worktree: {error.message}")
        return error.message
    return ""


def render(context: Context, result: Result) -> None:
    """Prints where the fork is, and how to go on."""
    if not result.value:
        return
    fork, checkpoint, _ = result.value
    out, place = context.out, visible(os.path.relpath(fork["directory"], context.base))
    head = out.style("green", f"Forked {named(checkpoint, context.now())}")
    out.line(f"{head} into {place}: {count(fork['files'], 'file')}, by {fork['backend']}.")
    for each in fork["left_out"]:
        context.note(f"Not copied: {visible(each['path'])} ({visible(each['reason'])}).")
    if fork["git"]:
        out.line(f"It is a git worktree on {visible(fork['git'])}.")
    out.line(f"Compare: {out.style('bold', f'mulligan compare @ {place}')}  Keep it: mulligan keep {place}")
