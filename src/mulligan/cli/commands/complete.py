"""The shell's question for names and ids, answered one per line; not for people, and never an error."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.errors import MulliganError

USAGE = "__complete"
DESCRIPTION = "Names and ids of checkpoints, for completion scripts."
EXAMPLES = (("mulligan __complete", "one candidate per line"),)
EXIT_CODES = (0,)
MOST = 200


def run(context: Context, _args: argparse.Namespace) -> Result:
    """Collects the candidates, nothing if there is a reason to have none."""
    try:
        checkpoints = context.workspace.log(limit=MOST)
    except (MulliganError, OSError):
        checkpoints = []  # a completion that prints an error only disturbs the line being typed
    names = [checkpoint.name for checkpoint in checkpoints if checkpoint.name.isprintable() and checkpoint.name]
    words = list(dict.fromkeys(["@", "latest", *names, *(checkpoint.short_id for checkpoint in checkpoints)]))
    return Result(words if checkpoints else [], lambda: {"words": words})
