"""What commands know about the files that hold agents' hooks."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from mulligan import __version__, engine
from mulligan.cli.context import Context
from mulligan.install.agents import AGENTS
from mulligan.install.editing import Wiring
from mulligan.install.hook_files import CLIENT
from mulligan.install.targets import PROJECT, USER, Home
from mulligan.settings import places


def hook_program(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Returns what a hook starts: the native client of this installation, where it has one, else this interpreter."""
    from importlib import metadata

    try:
        found = metadata.distribution("mulligan")
    except metadata.PackageNotFoundError:
        found = None  # run from a directory of sources
    if found is not None and found.version == __version__ and environ.get("MULLIGAN_NATIVE") != "0":
        for file in found.files or ():
            client = os.path.realpath(str(found.locate_file(file))) if file.name == CLIENT else ""
            if os.access(client, os.X_OK) and os.path.exists(os.path.join(os.path.dirname(client), "mulligan")):
                return (client,)
    return (sys.executable, "-P", "-m", "mulligan")


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
    engine.remarks.expect_hooks(workspace.bench, agent, [os.path.relpath(file, workspace.root) for file in files])
