"""
What the operating system refused, in our own words.

An OSError that reaches a verb is the store's trouble, not a finding about a workspace file: it ends the verb, and nothing
was reported as saved.
"""

from __future__ import annotations

import errno
import os

from mulligan.errors import DurabilityLost, MulliganError, NoRoom, StoreError, UserError
from mulligan.safefs.directory import EXHAUSTED

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def out_of_memory() -> MulliganError:
    """Returns the error a verb raises when the process gets no more memory."""
    return UserError(
        "The system has no more memory for this process. Not saved. Earlier checkpoints are safe.",
        hint="Close other programs, or raise the limit (ulimit -v), then run the same command again",
    )


def typed(error: OSError) -> MulliganError:
    """Returns the error a verb raises for what the system refused."""
    why = error.strerror or str(error)
    if error.errno in FULL:
        return NoRoom(
            f"There is no room on the disk ({why}). Not saved. Earlier checkpoints are safe.",
            hint="Free space, then: mulligan gc",
        )
    if error.errno in _FORBIDDEN:
        return UserError(
            f"No permission to write{_where(error)} ({why}). Not saved. Earlier checkpoints are safe.",
            hint="mulligan status",
        )
    if error.errno in EXHAUSTED:
        return UserError(
            f"The system is out of files or memory for this process ({why}). Not saved. Earlier checkpoints are safe.",
            hint="ulimit -n 4096",
        )
    if error.errno == errno.EIO:
        return DurabilityLost(
            f"The disk failed ({why}). Not saved. Earlier checkpoints are safe.",
            hint="Check the disk, then: mulligan check",
        )
    return StoreError(
        f"The system refused a step ({why}). Not saved. Earlier checkpoints are safe.",
        hint="mulligan check",
    )


def _where(error: OSError) -> str:
    """Returns ` to PATH`, or the two places that it can be where the system names none."""
    name = error.filename
    text = os.fsdecode(name) if isinstance(name, str | bytes) else ""
    return f" {text}" if os.path.isabs(text) else " in the store or the workspace"


def unreadable(error: OSError) -> MulliganError:
    """Returns the error that a verb raises which only looks."""
    why = error.strerror or str(error)
    if error.errno in _FORBIDDEN:
        return UserError(f"No permission to read{_where(error)} ({why}). Nothing was changed.", hint="mulligan status")
    return (
        typed(error)
        if error.errno in EXHAUSTED
        else StoreError(f"The system refused to read ({why}). Nothing was changed.", hint="mulligan check")
    )
