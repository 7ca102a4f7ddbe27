"""Which directories can be protected: those that are somebody's project, and hold no store."""

from __future__ import annotations

import os

from mulligan.errors import Unprotectable, UserError
from mulligan.model.policy import Settings
from mulligan.safefs.directory import is_missing
from mulligan.timeline.database import NAME

# Not /mnt, /opt or /srv: a container may have its one project there.
_SYSTEM = frozenset(
    "/" + name
    for name in [
        "bin",
        "boot",
        "dev",
        "etc",
        "home",
        "lib",
        "lib32",
        "lib64",
        "proc",
        "root",
        "run",
        "sbin",
        "sys",
        "usr",
        "var",
        "Users",
    ]
)
_USER_DIRECTORIES = ("Desktop", "Documents", "Downloads")


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
    why = ""
    if root == "/":
        why = "it is the whole machine"
    elif root == home:
        why = "it is your home directory"
    elif root in _SYSTEM:
        why = "it belongs to the system"
    elif home.startswith(root + "/"):
        why = "your home directory is inside it"
    elif os.path.dirname(root) == home and os.path.basename(root) in _USER_DIRECTORIES:
        why = "it holds more than one project"
    elif root in ("/tmp", "/var/tmp", os.path.realpath(settings.temporary)):  # noqa: S108 - refused, not used
        why = "it is everybody's directory for temporary files"
    elif is_within(root, os.path.realpath(settings.store)) or is_within(root, os.path.realpath(settings.stores)):
        why = "it is inside a store of mulligan"
    if why:
        raise Unprotectable(
            f"mulligan does not protect {root}: {why}. Nothing was changed.",
            hint="Go to your project's directory first: cd PROJECT",
        )


def is_within(path: str, directory: str) -> bool:
    """Returns whether a path is a directory or something below it."""
    return path == directory or path.startswith(directory + "/")
