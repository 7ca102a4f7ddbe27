"""
The processes that a command was started by, and whether the one that they have in common has ended.

An agent starts a process for each hook, often with a shell or another program in between. The nearest ancestor that two of its
hooks share is the agent, or a part of it that lives as long.
"""

from __future__ import annotations

import os

from mulligan.safefs.clock import boot_id
from mulligan.safefs.directory import Directory
from mulligan.safefs.platform import HERE

_MOST = 6
_LARGEST_STAT = 4096
_ENDED = {b"Z", b"X"}

#: Where process numbers mean the same, then each ancestor as number and start, nearest first; empty where it is not known.
Ancestry = tuple[str, ...]


def ancestry(process: int) -> Ancestry:
    """Returns the processes above a process, nearest first, but for the first process of the machine."""
    where = _numbering()
    found: list[str] = []
    try:
        above = _read(process)[1]
        while above > 1 and len(found) < _MOST:
            _, parent, start = _read(above)
            found.append(f"{above}:{start}")
            above = parent
    except OSError:
        pass  # one of them has just ended, or belongs to another user
    return (where, *found) if where and found else ()


def has_ended(one: Ancestry, other: Ancestry) -> bool:
    """Returns whether the nearest process that two commands have in common has certainly ended."""
    if not one or not other or one[0] != other[0] or one[0] != _numbering():
        return False
    shared = next((each for each in one[1:] if each in other[1:]), "")
    number, _, start = shared.partition(":")
    if not shared:
        return False
    try:
        state, _, started = _read(int(number))
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return state in _ENDED or started != start


def _numbering() -> str:
    """Returns what names this start of the machine and this namespace of process numbers, empty where unknown."""
    if not HERE.proc or not boot_id():
        return ""
    try:
        return f"{boot_id()}/{os.stat(f'{HERE.proc}/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _read(process: int) -> tuple[bytes, int, str]:
    """Returns the state of a process, its parent and when it was started."""
    try:
        with Directory.open(f"{HERE.proc}/{process}") as folder:
            fields = folder.read(b"stat", limit=_LARGEST_STAT).rpartition(b")")[2].split()
        return fields[0], int(fields[1]), fields[19].decode("ascii")
    except (IndexError, ValueError, ProcessLookupError) as error:
        raise FileNotFoundError(f"process {process}") from error
