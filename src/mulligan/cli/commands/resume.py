"""`mulligan resume`: end a `mulligan pause`."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.commands.pause import set_paused
from mulligan.cli.context import Context

USAGE = "resume"
DESCRIPTION = """\
Let the hooks of agents save every step in this project again, after `mulligan pause`.
"""
EXAMPLES = (
    ("mulligan pause", "hooks record nothing here"),
    ("mulligan resume", "from the next event of an agent on, every step is saved"),
)
EXIT_CODES = (0, 1)


def run(context: Context, _args: argparse.Namespace) -> Result:
    """Notes it in the user's configuration."""
    return set_paused(context, paused=False)
