"""What commands know about the files that hold agents' hooks."""

from __future__ import annotations

import os

from mulligan.cli.context import Context
from mulligan.install.editing import Wiring
from mulligan.install.targets import PROJECT, USER, Home
from mulligan.install.wiring import AGENTS
from mulligan.settings import places


def home_of(context: Context) -> Home:
    """Returns the user's home, and the directories in it that are somewhere else."""
    found = places(context.environ)
    return Home(found.home, found.moved)


def expect_hooks(context: Context, agent: str) -> None:
    """Remembers where the hooks of an agent stand in this project, unless they stand for all projects too."""
    home, workspace = home_of(context), context.workspace
    wired = AGENTS.get(agent)
    if wired is None or agent == "git":
        return
    for_all = wired.edits(USER) and Wiring(wired, USER, project=workspace.root, home=home).installed()
    files = [] if for_all else Wiring(wired, PROJECT, project=workspace.root, home=home).installed()
    workspace.expect_hooks(agent, [os.path.relpath(file, workspace.root) for file in files])
