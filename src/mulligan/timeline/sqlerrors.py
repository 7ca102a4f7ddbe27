"""SQLite as the timeline uses it, and what it says when something is wrong, in our words."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from mulligan.errors import Busy, DurabilityLost, MulliganError, NoRoom, StoreDamaged, StoreError

__all__ = ["TROUBLE", "Whole", "broken_row", "disk_full", "in_our_words", "translated"]

#: What a statement may raise: SQLite's own, and what Python stumbles over where a damaged table is quoted.
TROUBLE = (sqlite3.Error, UnicodeDecodeError)

# Not the file's fault: a store that may not be written, a process that may open no more files.
_REFUSED = frozenset({sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM})


class translated:  # noqa: N801 - used like a function; as a generator it took as long as the statements inside
    """Turns SQLite's errors into ours."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, TROUBLE):
            raise in_our_words(error) from error


class Whole:
    """What runs a body whole or not at all; made of a generator, it took as long as a statement."""

    __slots__ = ("_begin", "_end")

    def __init__(self, begin: Callable[[], None], end: Callable[[BaseException | None], None]) -> None:
        self._begin, self._end = begin, end

    def __enter__(self) -> None:
        self._begin()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._end(error)


def in_our_words(error: BaseException) -> MulliganError:
    """Returns our error for one of the `TROUBLE`."""
    return _translate(error if isinstance(error, sqlite3.Error) else sqlite3.DatabaseError("what it holds is no text"))


def disk_full() -> NoRoom:
    """Returns the error for a disk that has no room for a transaction."""
    return NoRoom(
        "The disk is full. Not saved. Earlier checkpoints are safe.",
        hint="Free space, then: mulligan gc",
    )


def _translate(error: sqlite3.Error) -> MulliganError:
    text = str(error)
    if "locked" in text or "busy" in text:
        return Busy("The timeline is in use by another process. Nothing was changed.", hint="Try again.")
    if "full" in text or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHMSIZE:
        return disk_full()
    if "I/O" in text:
        return DurabilityLost(
            f"The disk failed the timeline ({text}). Not saved. Earlier checkpoints are safe.",
            hint="Check the disk, then: mulligan check",
        )
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _REFUSED:
        return StoreError(
            f"The system does not let the timeline be used ({text}). Nothing was changed.",
            hint="Check the permissions of the store and the limit on open files",
        )
    return StoreDamaged(
        f"The timeline cannot be read ({text}). Your workspace is untouched.", hint="Rebuild it: mulligan doctor"
    )


def broken_row(table: str) -> StoreDamaged:
    """Returns the error for a row that is not what was written."""
    return StoreDamaged(
        f"A record in the timeline is damaged (table {table}). The checkpoints themselves are untouched.",
        hint="Mend it from the repository: mulligan doctor",
    )
