"""
Which start of the machine this is.

After a power cut a file may have the times and the size of its last edit and the bytes of an earlier one: the file system
writes the former to its journal at once and the latter when it suits it. Whoever trusts times must therefore know
whether the machine was started since.
LIMIT: a disk that loses its power while the machine runs on cannot be told from one that did not; `doctor` reads everything
again.
"""

from __future__ import annotations

from functools import cache

from mulligan.safefs.directory import Directory

_FOLDER, _NAME, _LIMIT = "/proc/sys/kernel/random", b"boot_id", 64


@cache
def boot_id() -> str:
    """Returns a text that is another one after each start of the machine, empty where the system has none."""
    try:
        with Directory.open(_FOLDER) as folder:
            return folder.read(_NAME, limit=_LIMIT).decode("ascii", "replace").strip()
    except OSError:
        return ""  # not Linux, or hidden from this process: then all starts look the same


def booted_at(now_ns: int) -> int:
    """Returns when the machine was started, by the clock that stands at `now_ns`; 0 where nobody says."""
    import time

    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return now_ns - time.clock_gettime_ns(clock) if clock is not None else 0
