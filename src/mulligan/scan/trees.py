"""
Directory records as git trees.

`files/` is the workspace exactly. Permission bits that git's two modes cannot say go into a second tree, `modes/`, which
mirrors only the directories that have any: in each, `f` is a blob of exceptions and `d` a tree of directories below. So
an odd umask costs nothing per checkpoint, and a changed bit rewrites one directory.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Sequence
from typing import NamedTuple

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
from mulligan.scan.record import Head, Record, git_mode

NONE = bytes(20)
Objects = dict[bytes, tuple[bytes, bytes]]


class Defaults(NamedTuple):
    """The permission bits that most files, programs and directories have; only others are written down."""

    file: int = 0o644
    executable: int = 0o755
    directory: int = 0o755


class Sealed(NamedTuple):
    """A directory whose entries and children are all known."""

    record: Record
    modes: list[int]
    children: Sequence[tuple[bytes, Record | Head]]


def seal(done: Sealed, defaults: Defaults, objects: Objects) -> None:
    """Gives a record its trees, adding the new objects."""
    record = done.record
    children = [(name, child.tree) for name, child in done.children]
    record.tree = add(TREE, tree_of(record.names, done.modes, record.oids, children), objects)
    record.modes = modes_of(done, defaults, objects)


class _Texts(dict[int, bytes]):
    """What a tree says for a file's own mode."""

    def __missing__(self, mode: int) -> bytes:
        text = self[mode] = MODE_TEXT[git_mode(mode)] + b" "
        return text


_texts = _Texts()
_OID = struct.Struct("20s")


def tree_of(names: list[bytes], modes: list[int], oids: bytes, children: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Returns the bytes of a tree: names with their modes and joined ids, and directories with their trees."""
    texts = _texts
    # Names are sorted, and without directories among them that is git's order.
    lines = [
        texts[mode] + name + b"\0" + oid
        for name, mode, (oid,) in zip(names, modes, _OID.iter_unpack(oids), strict=True)
    ]
    if children:
        keyed = [*zip(names, lines, strict=True)]
        keyed += [(name + b"/", b"40000 " + name + b"\0" + tree) for name, tree in children]
        keyed.sort()
        lines = [line for _, line in keyed]
    return b"".join(lines)


def modes_of(done: Sealed, defaults: Defaults, objects: Objects) -> bytes:
    """Returns the tree of the permission bits in a directory that are not the usual ones, adding the new objects."""
    odd = []
    for name, mode in zip(done.record.names, done.modes, strict=True):
        usual = defaults.executable if mode & 0o100 else defaults.file
        if mode & 0o7777 != usual and not stat.S_ISLNK(mode):
            odd.append(b"%04o %s" % (mode & 0o7777, name))
    odd += [b"%04o %s" % (child.perm, name) for name, child in done.children if child.perm != defaults.directory]
    below = [TreeEntry(name, MODE_DIR, child.modes) for name, child in done.children if child.modes != NONE]
    entries = []
    if odd:
        entries.append(TreeEntry(b"f", MODE_FILE, add(BLOB, b"\0".join(sorted(odd)), objects)))
    if below:
        entries.append(TreeEntry(b"d", MODE_DIR, add(TREE, encode_tree(below), objects)))
    return add(TREE, encode_tree(entries), objects) if entries else NONE


def add(kind: bytes, data: bytes, objects: Objects) -> bytes:
    """Adds an object and returns its id."""
    oid = object_id(kind, data)
    objects[oid] = (kind, data)
    return oid


def parse_odd(data: bytes) -> dict[bytes, int]:
    """Returns the exceptions of one directory: name to permission bits."""
    rows = (row.partition(b" ") for row in data.split(b"\0") if row)
    return {name: int(bits, 8) & 0o7777 for bits, _, name in rows}
