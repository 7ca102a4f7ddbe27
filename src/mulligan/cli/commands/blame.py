"""`mulligan blame`: which prompt wrote each line."""

from __future__ import annotations

import argparse
import json

from mulligan import __version__
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.history.agent_trace import agent_trace
from mulligan.present.blame import blame_lines

USAGE = "blame FILE [--format agent-trace]"
DESCRIPTION = """\
Show who wrote each line of a file as it is now: which agent, for which prompt, or you.

Changes by shell commands and by people are known too, because checkpoints hold the whole project. Renames are followed, and
a line that an undo brought back belongs to the step that first wrote it. Lines of steps that are no longer kept are unknown.
"""
EXAMPLES = (
    ("mulligan blame src/app.py", "the agent, the prompt and the age beside each line"),
    ("mulligan --json blame src/app.py", "with the command, the session and the checkpoint of each line"),
    ("mulligan blame src/app.py --format agent-trace", "as an Agent Trace record"),
)
EXIT_CODES = (0, 1, 10, 83, 90)
TRACE = "agent-trace"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("file", metavar="FILE", help="a file of the workspace")
    parser.add_argument("--format", choices=("text", TRACE), default="text", help="agent-trace: one JSON record")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Asks whose each line is."""
    blamed = context.saved.blame(context.path(args.file))
    if args.format == TRACE:
        record = agent_trace(blamed, context.now(), __version__)
        return Result([json.dumps(record, indent=2)], lambda: record)
    out = context.out
    return Result(blame_lines(blamed, now=context.now(), style=out.style, width=out.width), blamed.to_dict)
