"""Which directories can be protected: those that are somebody's project, and hold no store."""

from __future__ import annotations

import os

from mulligan.errors import Unprotectable, UserError
from mulligan.model.policy import Settings
from mulligan.model.refused import why_refused
from mulligan.safefs.directory import is_missing
from mulligan.timeline.database import NAME


def refuse_unprotectable(settings: Settings) -> None:
    """Raises Unprotectable for a directory that is nobody's project."""
    root, home = settings.workspace, os.path.realpath(settings.home)
    if is_missing(root):
        # A project that is gone can be brought back, if anything of it was saved.
        if not os.path.lexists(os.path.join(settings.store, NAME)):
            raise UserError(
                f"{root} does not exist, and nothing was saved there. Nothing was changed.",
                hint="See every project that has checkpoints: mulligan stores",
            )
    elif not os.path.isdir(root):
        raise UserError(f"{root} is not a directory. Nothing was changed.", hint="mulligan -C DIR …")
    why = why_refused(root, home, os.path.realpath(settings.temporary))
    if not why and any(is_within(root, os.path.realpath(each)) for each in (settings.store, settings.stores)):
        why = "it is inside a store of mulligan"
    if why:
        raise Unprotectable(
            f"mulligan does not protect {root}: {why}. Nothing was changed.",
            hint="Go to your project's directory first: cd PROJECT",
        )


def is_within(path: str, directory: str) -> bool:
    """Returns whether a path is a directory or something below it."""
    return path == directory or path.startswith(directory + "/")
