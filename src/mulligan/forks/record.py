"""A fork: a second working directory that starts at a checkpoint, as the timeline of its origin remembers it."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any, NamedTuple

from mulligan.model.checkpoint import moment

#: A fork is being made; it is about to be put in place; it is there; it is being removed; it is for one run only.
MAKING, PLACING, MADE, REMOVING, SCRATCH = "making", "placing", "made", "removing", "scratch"


class Fork(NamedTuple):
    """
    One fork: where it is, the checkpoint that it starts at, when it was made, and how its files were copied.

    `token` names its temporary directory, `pin` the process at work on it, and `inode` its directory; `left_out` are the first
    paths that could not be copied, and why.
    """

    directory: str
    store: str
    checkpoint: str
    created_ns: int
    phase: str = MADE
    backend: str = ""
    token: str = ""
    pin: int = 0
    inode: int = 0
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The last part of its path."""
        return os.path.basename(self.directory)

    @property
    def created_at(self) -> datetime:
        """When it was made."""
        return moment(self.created_ns)

    @property
    def temporary(self) -> str:
        """The directory that it is made in, beside its place; no scan looks at such a name."""
        return os.path.join(os.path.dirname(self.directory), f".mulligan-{self.token}-0")

    def is_as_made(self) -> bool:
        """Returns whether the directory that was just made is in its place; later, the timeline of the fork tells."""
        try:
            return bool(self.inode) and os.lstat(self.directory).st_ino == self.inode
        except OSError:
            return False

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "directory": self.directory,
            "name": self.name,
            "store": self.store,
            "checkpoint": self.checkpoint,
            "created_at": self.created_at.isoformat(),
            "backend": self.backend,
        }


def read_forks(value: object) -> list[Fork]:
    """Returns the forks of a JSON list; entries that are not whole are left out."""
    rows = [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
    whole = [row for row in rows if {"directory", "store", "checkpoint", "created_ns"} <= row.keys()]
    return [Fork(**{key: row[key] for key in Fork._fields if key in row}) for row in whole]
