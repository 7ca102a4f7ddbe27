"""`mulligan clone`: a timeline from a remote, in a new directory."""

from __future__ import annotations

import argparse
import os

from mulligan import settings
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.present.text import count
from mulligan.present.visible import visible
from mulligan.remotes.clone import clone_into, make_empty
from mulligan.remotes.urls import absolute

USAGE = "clone URL DIR [--lazy] [--identity FILE] [--timeline ID] [--as MACHINE] [-y]"
DESCRIPTION = """\
Pick up a timeline from a remote: its newest checkpoint is restored into DIR, which must be new or empty.

The remote is added as `origin`. With --lazy only the newest checkpoint's files come; the others are listed, and their contents
are fetched when a command needs them. Settings of agents (hooks, permissions), which can start programs, are listed and written
only with -y.
"""
EXAMPLES = (
    ("mulligan clone git@example.org:team/timelines.git shop", "from a git server"),
    ("mulligan clone --lazy s3://my-bucket/shop shop", "a long history, quickly"),
    ("mulligan clone /mnt/share/shop.git shop -y", "with the settings of agents"),
)
EXIT_CODES = (0, 1, 3, 11)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("url", metavar="URL", help="the address of the remote")
    parser.add_argument("into", metavar="DIR", help="a directory that is new or empty")
    parser.add_argument("--lazy", action="store_true", help="fetch contents of older checkpoints when they are needed")
    parser.add_argument("--timeline", metavar="ID", default="", help="which one, where the remote has several")
    parser.add_argument("--identity", metavar="FILE", default="", help="the age or ssh key that opens the remote")
    parser.add_argument("--as", dest="machine", metavar="MACHINE", default="", help="what this machine is called there")
    parser.add_argument("-y", "--yes", action="store_true", help="write the settings of agents too")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Clones."""
    into = os.path.join(context.base, args.into)
    make_empty(into)
    workspace = context.open(settings.resolve(into, environ=context.environ))
    named = {"machine": args.machine, "identity": os.path.join(context.base, args.identity) if args.identity else ""}
    done = clone_into(
        workspace, absolute(args.url, context.base), timeline=args.timeline, trusted=args.yes, lazy=args.lazy, **named
    )
    return Result(done, done.to_dict, 3 if done.refused or done.kept else 0)


def render(context: Context, result: Result) -> None:
    """Prints what came, and what was not written."""
    done = result.value
    machines = ", ".join(sorted(map(visible, done.machines)))
    context.out.line(f"cloned {count(done.checkpoints, 'checkpoint')} of {machines or 'no machine'}")
    if done.only_remote:
        context.out.line(
            f"only listed: {count(done.only_remote, 'checkpoint')}, whose contents are fetched when a command needs them"
        )
    if done.restored is None:
        context.out.line("There is no checkpoint yet; the directory is empty.")
    else:
        context.out.line(f"restored {done.restored.machine}:{done.restored.short_id}, {count(done.files, 'file')}")
    if done.withheld:
        context.note(f"Not written, because they can start programs: {', '.join(map(visible, done.withheld))}")
        context.note("Look at them (mulligan cat REF:PATH), then: mulligan restore REF -- PATH")
    for path, why in done.kept:
        context.note(f"Not restored: {visible(path)} ({visible(why)})")
    for name, why in done.refused:
        context.note(f"refused {visible(name)}: {visible(why)}")
