"""Which workspace an agent's event is about, and which processes it came from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mulligan.cli.context import Context
from mulligan.places import standing

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.model.deed import Deed


def workspace_of(context: Context, directory: str, cwd: str, *, wait: float) -> Workspace:
    """Returns the workspace of an event: of the client's project, or of the worktree that the agent moved into."""
    from mulligan import settings

    if context.is_told_where:
        return context.open(context.settings._replace(wait=wait))  # `-C` or `--store` in the hook's own line wins
    here = os.path.realpath(directory) if directory else standing(context.environ)
    root = settings.find_workspace(here, context.environ)
    if cwd and _is_within(os.path.realpath(cwd), root):
        inner = settings.find_workspace(cwd, context.environ)
        if inner != root:
            from mulligan.scan.git.worktrees import is_worktree

            # An agent that moved into a worktree works there, whatever project its session began in.
            root = inner if is_worktree(inner) else root
    found = settings.resolve(root, wait=wait, environ=context.environ)
    return context.open(found)


def _is_within(path: str, directory: str) -> bool:
    return path != directory and path.startswith(directory.rstrip("/") + "/")


def with_processes(deed: Deed | None, caller: int) -> Deed | None:
    """Returns an event with the processes that its hook was started by."""
    if deed is None:
        return None
    from mulligan.safefs.processes import ancestry

    return deed._replace(processes=ancestry(caller))
