"""
Directories that their own owner may not write to.

A checkpoint may hold such directories, so a restore makes them, and its undo must be able to change them again. They are
opened for the length of a restore and closed after it. Which they are and what bits they had is part of the journal: a
crash leaves none of them open for longer than to the next writing command.
"""

from __future__ import annotations

import os

from mulligan.model.paths import parent_of
from mulligan.restore.layout import Layout
from mulligan.restore.place import Handles, is_absence
from mulligan.safefs import syscalls

_WRITABLE = 0o200

Locked = tuple[tuple[bytes, int], ...]


def touched_directories(layout: Layout) -> set[bytes]:
    """Returns the directories that exist before a restore and in which it changes names."""
    touched = {parent_of(a.path) for _, a in (*layout.removes, *layout.rmdirs)}
    touched |= {layout.stage_of(a.path) for _, a in (*layout.removes, *layout.staged, *layout.mkdirs)}
    return touched


def is_writable(fd: int) -> bool:
    """Returns whether names in an open directory may be changed."""
    return os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True)


def is_locked(fd: int, status: os.stat_result) -> bool:
    """Returns whether a directory that may not be changed is ours, so that it can be opened."""
    return status.st_uid == os.geteuid() and not os.access(".", os.W_OK, dir_fd=fd, effective_ids=True)


def unlock(handles: Handles, locked: Locked) -> None:
    """Lets the owner write to each of some directories."""
    for path, perm in locked:
        syscalls.calls.fchmod(handles.get(path).fd, perm | _WRITABLE)


def lock_again(handles: Handles, locked: Locked) -> list[bytes]:
    """Gives directories the bits they had, unless they are gone or somebody changed them; returns those that refused."""
    refused = []
    for path, perm in locked:
        try:
            fd = handles.get(path).fd
            if os.fstat(fd).st_mode & 0o7777 == perm | _WRITABLE:
                syscalls.calls.fchmod(fd, perm)
        except OSError as error:
            if not is_absence(error):
                refused.append(path)
    return refused
