"""
Git's objects as plain bytes: blobs, trees, commits.

The encodings are git's own, so that git reads them; a tree entry's name is checked when a tree is parsed, so a hostile
store cannot smuggle `..` or `.git` past this module. An object id here is always the raw 20 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha1
from typing import NamedTuple

from mulligan.errors import StoreDamaged, UnsafePath
from mulligan.model.paths import check_name

BLOB, TREE, COMMIT = b"blob", b"tree", b"commit"
_LONGEST = 255

MODE_FILE = 0o100644
MODE_EXEC = 0o100755
MODE_LINK = 0o120000
MODE_DIR = 0o040000
#: Of an entry that stands for a sealed file; no tree holds it. Its id is a keyed hash of the content.
MODE_SEALED = 0o100600
_MODES = {b"100644": MODE_FILE, b"100755": MODE_EXEC, b"120000": MODE_LINK, b"40000": MODE_DIR}
MODE_TEXT = {mode: text for text, mode in _MODES.items()}


class TreeEntry(NamedTuple):
    """One name in a tree."""

    name: bytes
    mode: int
    oid: bytes


class Change(NamedTuple):
    """One path that differs; None where nothing stands on that side."""

    path: bytes
    old: TreeEntry | None
    new: TreeEntry | None


def object_id(kind: bytes, data: bytes) -> bytes:
    """Returns the id git gives these bytes."""
    return sha1(b"%b %d\0%b" % (kind, len(data), data), usedforsecurity=False).digest()


EMPTY_TREE = object_id(TREE, b"")
EMPTY_BLOB = object_id(BLOB, b"")


def encode_tree(entries: Iterable[TreeEntry]) -> bytes:
    """Returns the bytes of a tree, its entries in git's order (a directory sorts as if it ended in `/`)."""
    ordered = sorted(entries, key=lambda e: e.name + b"/" if e.mode == MODE_DIR else e.name)
    return b"".join([b"%s %s\0%s" % (MODE_TEXT[e.mode], e.name, e.oid) for e in ordered])


# What the names that need a closer look begin with: `.`, `..`, every spelling of `.git`. One set look-up for all others.
_SUSPECT = frozenset(b".gG\xe2\xef")


def parse_tree(data: bytes) -> list[TreeEntry]:
    """Returns the entries of a tree; raises StoreDamaged or UnsafePath on anything mulligan would not have written."""
    entries, at, end = [], 0, len(data)
    find, modes, make = data.find, _MODES, tuple.__new__
    while at < end:
        nul = find(b"\0", at)
        text, _, name = data[at:nul].partition(b" ")
        mode = modes.get(text)
        if nul < 0 or nul + 21 > end or mode is None:
            raise StoreDamaged(
                "A tree in the store is malformed, or has a mode mulligan never writes.", hint="mulligan check"
            )
        if not name or name[0] in _SUSPECT or b"/" in name or len(name) > _LONGEST:
            _check_entry(name)
        at = nul + 21
        entries.append(make(TreeEntry, (name, mode, data[nul + 1 : at])))
    if len({entry[0] for entry in entries}) != len(entries):
        raise StoreDamaged("A tree in the store holds a name twice.", hint="mulligan check")
    return entries


def _check_entry(name: bytes) -> None:
    try:
        check_name(name)
    except UnsafePath as error:
        raise UnsafePath(f"A tree in the store holds an unsafe name: {error.message}", hint="mulligan check") from None


class Commit(NamedTuple):
    """The parts of a commit that mulligan writes; `when` is in whole seconds since the epoch, UTC."""

    tree: bytes
    message: str
    when: int


AUTHOR = b"mulligan <mulligan@localhost>"


def encode_commit(commit: Commit) -> bytes:
    """Returns the bytes of a commit without parents: ancestry is metadata, so that any checkpoint can be deleted."""
    message = commit.message.encode("utf-8", "replace").replace(b"\0", b" ")
    who = b"%s %d +0000" % (AUTHOR, commit.when)
    return b"tree %s\nauthor %s\ncommitter %s\n\n%s\n" % (commit.tree.hex().encode(), who, who, message.rstrip(b"\n"))


def parse_commit(data: bytes) -> Commit:
    """Returns a commit; raises StoreDamaged when it has no tree."""
    head, _, message = data.partition(b"\n\n")
    lines = head.split(b"\n")
    if not lines[0].startswith(b"tree ") or len(lines[0]) != 45:
        raise StoreDamaged("A commit in the store names no tree.", hint="mulligan check")
    when = 0
    for line in lines:
        if line.startswith(b"committer "):
            stamp = line.rsplit(b" ", 2)
            when = int(stamp[1]) if len(stamp) == 3 and stamp[1].isdigit() else 0
    try:
        tree = bytes.fromhex(lines[0][5:].decode("ascii"))
    except ValueError:
        raise StoreDamaged("A commit in the store names no tree.", hint="mulligan check") from None
    return Commit(tree, message.decode("utf-8", "replace"), when)
