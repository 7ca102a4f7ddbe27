"""A directory while it is walked, and how it learns of the directories in it that were walked to their end."""

from __future__ import annotations

from mulligan.safefs.directory import Directory
from mulligan.scan.ignore import Rules
from mulligan.scan.record import Head, Record
from mulligan.scan.sharing import Subtree


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


def attach(parent: Frame, name: bytes, done: Subtree) -> None:
    """Tells a directory about one in it that was walked to its end."""
    if done.record.names or done.record.dirs or not done.only:
        parent.children.append((name, done.record))
        parent.changed |= done.changed
    else:
        # Nothing in it today; what is wanted may come back without a trace in the directory above.
        parent.changed = True
        parent.record.trusted = False
