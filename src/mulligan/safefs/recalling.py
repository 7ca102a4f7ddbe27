"""
What is remembered, read and looked at by the compiled part (`recalling.c`), without an object for each directory.

Each directory has a place in the order of a walk. The log and the directory must be what the caller believes them to be; here
nothing is decided.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mulligan.safefs import foreign


class Told(NamedTuple):
    """What the log holds: bytes that are whole, directories, the bytes of their records, and what the root frame says."""

    whole: int
    directories: int
    live: int
    note: bytes


def recall(calls: Any, log: int, root: int, threads: int) -> Recall | None:
    """Begins to read a log and to look, in the background; None where it cannot."""
    pointer, number = foreign.c_void_p, foreign.c_uint32
    calls.mulligan_recall.restype = pointer
    calls.mulligan_recall_find.argtypes = (pointer, foreign.c_char_p, number)
    calls.mulligan_recall_find.restype = foreign.c_int64
    calls.mulligan_recall_files.restype = foreign.c_uint64
    calls.mulligan_recall_missing.restype = calls.mulligan_recall_moved.restype = number
    begun = calls.mulligan_recall(log, root, threads)
    return Recall(calls, begun, threads) if begun else None


class Recall:
    """A log that is being read, and the directories it tells of."""

    def __init__(self, calls: Any, begun: int, threads: int) -> None:
        self._calls = calls
        self._begun = foreign.c_void_p(begun)
        self._threads = threads
        self._row = (foreign.c_uint64 * 5)()

    def told(self) -> Told | None:
        """Waits until the log is read; None where Python has to read it."""
        row = self._row
        if not self._calls.mulligan_recalled(self._begun, row):
            return None
        return Told(row[0], row[1], row[2], foreign.string_at(row[3], row[4]) if row[4] else b"")

    def end(self, *, index_changed: bool) -> None:
        """Helps to look at what is left, and joins what was found."""
        self._calls.mulligan_recall_end(self._begun, int(index_changed))

    def find(self, path: bytes) -> int:
        """Returns the place of a directory, -1 for one that is not remembered."""
        place: int = self._calls.mulligan_recall_find(self._begun, path, len(path))
        return place

    def path(self, at: int) -> bytes:
        """Returns the directory at a place."""
        row = self._look_up(at)
        return foreign.string_at(row[0], row[1])

    def record(self, at: int) -> bytes:
        """Returns the record of a directory, as it is written."""
        row = self._look_up(at)
        return foreign.string_at(row[2], row[3])

    def subtree_end(self, at: int) -> int:
        """Returns where the subtree of a directory ends, 0 if not all of it is as it was."""
        return int(self._look_up(at)[4])

    def _look_up(self, at: int) -> Any:
        self._calls.mulligan_recall_at(self._begun, at, self._row)
        return self._row

    def files(self, begin: int, end: int) -> int:
        """Returns how many files are captured in directories that are as they were, from a place to another."""
        found: int = self._calls.mulligan_recall_files(self._begun, begin, end)
        return found

    def missing(self, begin: int, end: int) -> int:
        """Returns the next place in which something is not captured; `end` where there is none."""
        found: int = self._calls.mulligan_recall_missing(self._begun, begin, end)
        return found

    def look_again(self) -> None:
        """Looks at all directories once more, not at what is in them; `moved` tells."""
        self._calls.mulligan_recall_again(self._begun, self._threads)

    def moved(self, begin: int, end: int) -> int:
        """Returns the next place that the second look found to be another; `end` where there is none."""
        found: int = self._calls.mulligan_recall_moved(self._begun, begin, end)
        return found

    def stop(self) -> None:
        """Ends the looking, however far it came; what was read stays. Again is harmless."""
        self._calls.mulligan_recall_stop(self._begun)

    def __del__(self) -> None:
        self._calls.mulligan_recall_free(self._begun)
