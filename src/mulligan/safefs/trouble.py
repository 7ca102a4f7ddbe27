"""
What the operating system refused, in our own words.

An OSError that reaches a verb is the store's trouble, not a finding about a workspace file: it ends the verb, and nothing
was acknowledged.
"""

from __future__ import annotations

import errno

from mulligan.errors import DurabilityLost, MulliganError, NoRoom, StoreError, UserError

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def out_of_memory() -> MulliganError:
    """Returns the error a verb raises when the process gets no more memory."""
    return UserError(
        "The system has no more memory for this process. Nothing was acknowledged; what was saved before is untouched.",
        hint="Close other programs, or raise the limit (ulimit -v), then run the same command again",
    )


def typed(error: OSError) -> MulliganError:
    """Returns the error a verb raises for what the system refused."""
    why = error.strerror or str(error)
    if error.errno in FULL:
        return NoRoom(
            f"There is no room on the disk ({why}). Nothing was acknowledged; what was saved before is untouched.",
            hint="Free space, then: mulligan gc",
        )
    if error.errno in _FORBIDDEN:
        return UserError(
            f"The store or the workspace may not be written ({why}). Nothing was acknowledged.", hint="mulligan status"
        )
    if error.errno in EXHAUSTED:
        return UserError(
            f"The system is out of files or memory for this process ({why}). Nothing was acknowledged.",
            hint="ulimit -n 4096",
        )
    if error.errno == errno.EIO:
        return DurabilityLost(
            f"The disk failed ({why}). Nothing was acknowledged.", hint="Check the disk, then: mulligan check"
        )
    return StoreError(
        f"The system refused a step ({why}). Nothing was acknowledged; what was saved before is untouched.",
        hint="mulligan check",
    )


def unreadable(error: OSError) -> MulliganError:
    """Returns the error that a verb raises which only looks."""
    why = error.strerror or str(error)
    if error.errno in _FORBIDDEN:
        return UserError(
            f"The store or the workspace may not be read ({why}). Nothing was changed.", hint="mulligan status"
        )
    return (
        typed(error)
        if error.errno in EXHAUSTED
        else StoreError(f"The system refused to read ({why}). Nothing was changed.", hint="mulligan check")
    )
