"""What the newest checkpoint holds of a path: the answer to "would an undo bring it back?"."""

from __future__ import annotations

from typing import NamedTuple

from mulligan.model.checkpoint import NotCaptured


class Holding(NamedTuple):
    """One path of the workspace: how many files at or below it are saved as they are now, and what of it is not saved."""

    path: str
    files: int
    unsaved: tuple[NotCaptured, ...] = ()
    is_directory: bool = False
