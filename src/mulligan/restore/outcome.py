"""What became of a plan, and why a path of it stayed as it was."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from mulligan.model.plan import Keep
from mulligan.restore.leaving import BUSY
from mulligan.restore.place import is_absence


class Outcome:
    """What became of a plan."""

    def __init__(self, kept: Sequence[Keep] = ()) -> None:
        self.created: list[str] = []
        self.modified: list[str] = []
        self.deleted: list[str] = []
        self.kept = list(kept)


def reason_of(error: OSError) -> tuple[str, str]:
    """Returns the reason and the detail that are listed for a path whose change failed."""
    if error.errno == errno.EBUSY:
        return "a mount point", ""
    if is_absence(error):
        return BUSY, "a directory above it is not what it was"
    return "not writable", error.strerror or ""
