"""The removal of a whole directory of ours: by one rename first, so that an interrupted one leaves it whole or gone."""

from __future__ import annotations

import os

from mulligan.safefs.directory import Directory
from mulligan.safefs.durable import sync

_REMOVED = b".mulligan-removed-"


def remove_whole(home: Directory, name: bytes) -> None:
    """Removes a directory and all below it; others see it whole until it is gone."""
    sweep_removed(home, name)
    home.rename(name, _REMOVED + name)
    # First of all on disk: after a power cut no half of it may stand under its old name.
    sync(home.fd, "the removal of a store")
    home.remove_tree(_REMOVED + name)


def sweep_removed(home: Directory, name: bytes = b"") -> None:
    """Removes what removals that were cut short left of one directory, or of all."""
    for left in [_REMOVED + name] if name else [each for each in home.names() if is_removed(each)]:
        home.remove_tree(left)


def sweep_beside(path: str) -> None:
    """Removes what a removal that was cut short left of the directory that stood at a path."""
    with Directory.open(os.path.dirname(path)) as home:
        sweep_removed(home, os.fsencode(os.path.basename(path)))


def is_removed(name: bytes) -> bool:
    """Returns whether a name is one of something that was removed, but for its bytes."""
    return name.startswith(_REMOVED)
