"""Where a workspace stood before it was moved, told by the stores that are kept for directories that are gone."""

from __future__ import annotations

import os
from contextlib import closing

from mulligan.errors import MulliganError
from mulligan.model.policy import Settings
from mulligan.safefs.directory import Directory, is_missing
from mulligan.timeline.database import Database
from mulligan.timeline.identity import Identity, identity_of


def moved_from(settings: Settings) -> str:
    """Returns the directory that a workspace was moved from, if its history is still kept for there; else empty."""
    try:
        with Directory.open(settings.stores) as home:
            names = sorted(name for name in home.names() if not name.startswith(b"."))
    except OSError:
        return ""  # there is no store at all
    paths = [os.path.join(settings.stores, os.fsdecode(name)) for name in names]
    others = [path for path in paths if path != settings.store]
    here = identity_of(settings.workspace) if others else Identity()
    found = (_left_by(path, here) for path in others if here.inode)
    return next((place for place in found if place), "")


def _left_by(path: str, here: Identity) -> str:
    """Returns the workspace of a store, if it is gone and was this very directory."""
    try:
        with Directory.open(path) as directory, closing(Database(path, create=False, directory=directory)) as database:
            recorded, place = Identity.from_meta(database.meta), database.meta("workspace")
    except (OSError, MulliganError):
        return ""  # no store, or one that cannot be asked
    same = bool(recorded.inode) and not recorded.is_another(here, last_ns=0)
    return place if same and place and is_missing(place) else ""
