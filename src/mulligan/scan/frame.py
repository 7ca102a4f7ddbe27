"""A directory while it is walked, and how it learns of the directories in it that were walked to their end."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from mulligan.model.checkpoint import SECRET
from mulligan.safefs.directory import Directory
from mulligan.scan.ignore import Rules
from mulligan.scan.record import STAT, Head, Missed, Packed, Record


class Frame:
    """A directory that is being walked."""

    __slots__ = (
        "changed",
        "children",
        "directory",
        "key",
        "modes",
        "next",
        "old",
        "only",
        "out",
        "path",
        "perm",
        "record",
        "rules",
        "todo",
        "unruly",
    )

    def __init__(self, path: bytes, directory: Directory, rules: Rules, key: bytes, *, only: bool) -> None:
        self.path = path
        self.directory = directory
        self.rules = rules
        self.key = key
        self.only = only
        self.out: frozenset[bytes] = frozenset()
        self.unruly = ""  # why its ignore rules could not be read
        self.todo: list[bytes] = []  # the directories in it that are entered
        self.next = 0
        self.perm = 0o755
        self.changed = True
        self.record = Record()
        self.old: Record | None = None
        self.modes: list[int] = []
        self.children: list[tuple[bytes, Record | Head]] = []

    def miss(self, name: bytes, reason: str, detail: str) -> None:
        """Notes that a directory in it was not captured, and why."""
        if self.record is self.old:
            self.record = self.record.copy()
        self.record.missed.append(Missed(name, reason, detail))
        self.record.trusted = False
        self.changed = True


class Subtree(NamedTuple):
    """A directory that was walked to its end: the number of its task, and what its parent needs to know."""

    task: int
    record: Record
    changed: bool
    only: bool


def attach(parent: Frame, name: bytes, done: Subtree) -> None:
    """Tells a directory about one in it that was walked to its end."""
    if done.record.names or done.record.dirs or not done.only or any(m.reason == SECRET for m in done.record.missed):
        parent.children.append((name, done.record))
        parent.changed |= done.changed
    else:
        # Nothing in it today; what is wanted may come back without a trace in the directory above.
        parent.changed = True
        parent.record.trusted = False


def changed_files(directory: Directory, old: Record) -> list[tuple[bytes, os.stat_result]]:
    """Returns the captured names of a record whose stat fields are not the remembered ones; OSError if one is gone."""
    look, fd, changed = os.stat, directory.fd, []
    for name, want in zip(old.names, STAT.iter_unpack(old.stats), strict=True):
        st = look(name, dir_fd=fd, follow_symlinks=False)
        if (st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns) != want:
            changed.append((name, st))
    return changed


def same_names(directory: Directory, old: Record | Packed, names: list[bytes]) -> bool:
    """
    Returns whether a directory that changed holds the same names as before, so that what was decided of each still stands.

    An editor that renames a new file over the old one, and every restore, changes the directory and none of its names.
    What was left out may have become another kind of thing, of which the rules say something else: that is decided anew.
    """
    dirs = old.dirs
    if old.missed or old.grouped or names != sorted((*old.names, *dirs)):
        return False
    try:
        return all(stat.S_ISDIR(directory.stat(name).st_mode) for name in dirs)
    except OSError:
        return False
