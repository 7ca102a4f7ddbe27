"""`mulligan pause`: record nothing of agents in this project for a while."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.present.visible import visible
from mulligan.settings import places
from mulligan.settings.scoping import read_scoping, scoping_file, write_scoping

USAGE = "pause"
DESCRIPTION = """\
Let the hooks of agents record nothing in this project until `mulligan resume`.

Your own commands work as before: `mulligan save` saves, `mulligan undo` undoes. The history stays.
"""
EXAMPLES = (
    ("mulligan pause", "before a step that needs no protection"),
    ("mulligan resume", "go on"),
)
EXIT_CODES = (0, 1)


def run(context: Context, _args: argparse.Namespace) -> Result:
    """Notes it in the user's configuration."""
    return set_paused(context, paused=True)


def set_paused(context: Context, *, paused: bool) -> Result:
    """Notes whether hooks pause in this workspace."""
    root = context.settings.workspace
    path = scoping_file(root, places(context.environ))
    before = read_scoping(path)
    if before.paused != paused:
        write_scoping(path, root, before._replace(paused=paused))
    document = {"workspace": root, "paused": paused, "changed": before.paused != paused}
    where, already = visible(root), "" if document["changed"] else " already"
    line = f"Hooks of agents save every step in {where}{already}."
    if paused:
        line = f"Paused: hooks of agents record nothing in {where}. To go on: mulligan resume"
    return Result([line], lambda: document)
