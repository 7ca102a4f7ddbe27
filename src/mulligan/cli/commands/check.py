"""`mulligan check`: verify the store."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.present.standing import problem_lines
from mulligan.present.text import count
from mulligan.present.visible import visible
from mulligan.remotes.survey import RemoteCheck

USAGE = "check [--remote [NAME] [--read-data PART]]"
DESCRIPTION = """\
Verify the store: every object of every checkpoint is read and its hash compared. Nothing is changed.

With --remote, verify a remote instead: every chain, whether every pack is there, and with --read-data what a part of them holds.
"""
EXAMPLES = (
    ("mulligan check", "all is well, or what is not, and which checkpoints it touches"),
    ("mulligan check --remote backup --read-data 5%", "a remote, with one pack in twenty read"),
    ("mulligan check && mulligan gc", "check before you throw anything away"),
)
EXIT_CODES = (0, 1, 10, 11, 90)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("--remote", metavar="NAME", nargs="?", const="", help="verify this remote instead of the store")
    parser.add_argument(
        "--read-data", metavar="PART", default="0%", help="how much of a remote's data to read (default: 0%%)"
    )


def run(context: Context, args: argparse.Namespace) -> Result:
    """Checks the store, or a remote."""
    if args.remote is not None:
        remote = context.workspace.remotes.check(args.remote or None, read_data=args.read_data)
        return Result(remote, remote.to_dict, 0 if remote.ok else 90)
    report = context.workspace.check()
    return Result(report, report.to_dict, 0 if report.ok else 90)


def render(context: Context, result: Result) -> None:
    """Prints the verdict."""
    style = context.out.style
    if hasattr(result.value, "packs"):
        _render_remote(context, result.value)
        return
    if result.value.ok and not result.value.objects:
        context.out.line(f"{style('green', 'ok')}  nothing was saved here yet, so there was nothing to check")
        context.note_if_moved()
        return
    if result.value.ok:
        here = " that is held here" if result.value.only_remote else ""
        words = f"every object of every checkpoint{here} is there and is what it should be"
        context.out.line(f"{style('green', 'ok')}  {words}")
        if only := result.value.only_remote:
            context.note(
                f"Not checked: the contents of {count(only, 'checkpoint')} are only on a remote. "
                "Check there: mulligan check --remote NAME. Fetch all: mulligan pull --all"
            )
        return
    context.out.lines(problem_lines(result.value.problems, style))
    context.note("hint: mulligan doctor repairs what can be repaired")


def _render_remote(context: Context, found: RemoteCheck) -> None:
    machines, packs = count(found.machines, "machine"), count(found.packs, "pack")
    if found.ok:
        context.out.line(f"{context.out.style('green', 'ok')}  {machines}, {packs}, {found.read} of them read")
        return
    context.out.lines([f"{subject[:8]}: {visible(detail)}" for subject, detail in found.problems])
    context.note("hint: mulligan push NAME --prune, on a machine that has its checkpoints, sends everything anew")
