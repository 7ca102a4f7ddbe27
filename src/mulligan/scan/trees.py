"""
Directory records as git trees.

`files/` is the workspace exactly. Permission bits that git's two modes cannot say go into a second tree, `modes/`, which
mirrors only the directories that have any: in each, `f` is a blob of exceptions and `d` a tree of directories below. So
an odd umask costs nothing per checkpoint, and a changed bit rewrites one directory.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence

from mulligan.model.objects import (
    BLOB,
    MODE_DIR,
    MODE_FILE,
    MODE_TEXT,
    TREE,
    TreeEntry,
    encode_tree,
    object_id,
)
from mulligan.model.typed import NamedTuple
from mulligan.scan.record import Head, Record, git_mode
from mulligan.scan.result import Defaults

NONE = bytes(20)
Objects = dict[bytes, tuple[bytes, bytes]]


class Sealed(NamedTuple):
    """A directory whose entries and children are all known."""

    record: Record
    modes: list[int]
    children: Sequence[tuple[bytes, Record | Head]]


def seal(done: Sealed, defaults: Defaults, objects: Objects) -> None:
    """Gives a record its trees, adding the new objects."""
    record, oids = done.record, done.record.oids
    # Names are sorted, and without directories among them that is git's order.
    lines = [
        MODE_TEXT[git_mode(mode)] + b" " + name + b"\0" + oids[at * 20 : at * 20 + 20]
        for at, (name, mode) in enumerate(zip(record.names, done.modes, strict=True))
    ]
    if done.children:
        keyed = [*zip(record.names, lines, strict=True)]
        keyed += [(name + b"/", b"40000 " + name + b"\0" + child.tree) for name, child in done.children]
        keyed.sort()
        lines = [line for _, line in keyed]
    record.tree = _add(TREE, b"".join(lines), objects)
    record.modes = _modes(done, defaults, objects)


def _modes(done: Sealed, defaults: Defaults, objects: Objects) -> bytes:
    odd = []
    for name, mode in zip(done.record.names, done.modes, strict=True):
        usual = defaults.executable if mode & 0o100 else defaults.file
        if mode & 0o7777 != usual and not stat.S_ISLNK(mode):
            odd.append(b"%04o %s" % (mode & 0o7777, name))
    odd += [b"%04o %s" % (child.perm, name) for name, child in done.children if child.perm != defaults.directory]
    below = [TreeEntry(name, MODE_DIR, child.modes) for name, child in done.children if child.modes != NONE]
    entries = []
    if odd:
        entries.append(TreeEntry(b"f", MODE_FILE, _add(BLOB, b"\0".join(sorted(odd)), objects)))
    if below:
        entries.append(TreeEntry(b"d", MODE_DIR, _add(TREE, encode_tree(below), objects)))
    return _add(TREE, encode_tree(entries), objects) if entries else NONE


def _add(kind: bytes, data: bytes, objects: Objects) -> bytes:
    oid = object_id(kind, data)
    objects[oid] = (kind, data)
    return oid


def parse_odd(data: bytes) -> dict[bytes, int]:
    """Returns the exceptions of one directory: name to permission bits."""
    rows = (row.partition(b" ") for row in data.split(b"\0") if row)
    return {name: int(bits, 8) & 0o7777 for bits, _, name in rows}
