"""
The native look: which of many directories are exactly as their records say (`native/look.c`).

It is built with the package where there is a C compiler, and lies in `mulligan/_native/`. Whether it is used is decided once,
when this module is imported: without a library, or with MULLIGAN_NATIVE=0, `scan.walk` asks the same question in Python.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mulligan.safefs import syscalls
from mulligan.safefs.platform import HERE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Where the library is, if there is one.
PATH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_native", "look.so")


def load(path: str) -> Any:
    """Returns the library at a path; None where there is none, or it cannot be loaded on this machine."""
    if os.environ.get("MULLIGAN_NATIVE") == "0" or not os.path.exists(path):
        return None
    import ctypes  # 2 ms, for those alone who have a library

    pointer, number = ctypes.c_void_p, ctypes.c_int
    try:
        calls = ctypes.CDLL(path)
        calls.mulligan_begin.argtypes = (number, ctypes.c_uint32, *(pointer,) * 4, number, number)
        calls.mulligan_begin.restype = pointer
        calls.mulligan_end.argtypes, calls.mulligan_end.restype = (pointer,), None
    except (OSError, AttributeError):
        return None
    return calls


_library = load(PATH)


def look(root: int, paths: Sequence[bytes], records: Iterable[bytes]) -> Looking | None:
    """Begins to look at directories beneath an open one, each with its record; None where Python has to."""
    if _library is None or type(syscalls.calls) is not syscalls.Calls:
        return None  # calls that a test replaced must all be made
    return Looking(_library, root, paths, [*records]).begin()


class Looking:
    """Many directories that are being looked at."""

    def __init__(self, library: Any, root: int, paths: Sequence[bytes], records: Sequence[bytes]) -> None:
        import ctypes

        count = len(paths)
        self._calls = library
        self._root = root
        self._count = count
        # The threads read these until `answer` has waited for them.
        self._paths = (ctypes.c_char_p * count)(*paths)
        self._records = (ctypes.c_char_p * count)(*records)
        self._sizes = (ctypes.c_uint32 * count)(*map(len, records))
        self._same = ctypes.create_string_buffer(max(count, 1))
        self._job: int | None = None

    def begin(self, *, again: bool = False) -> Looking:
        """Begins to look in the background, at everything or only at whether the directories are still the same."""
        given = (self._paths, self._records, self._sizes, self._same)
        spare = min(HERE.processors() - 1, 1)  # threads beside the caller's that have a processor
        self._job = self._calls.mulligan_begin(self._root, self._count, *given, int(again), spare)
        return self

    def answer(self) -> bytes:
        """Helps with what is left, waits, and returns 1 for each directory that is as its record says, else 0."""
        job, self._job = self._job, None
        if not job:
            return bytes(self._count)
        self._calls.mulligan_end(job)
        return self._same.raw[: self._count]

    def __del__(self) -> None:
        self.answer()  # its threads read what is about to be freed
