"""
The bytes of git's index file, versions 2, 3 and 4, with its `link` (split index) and `TREE` (cache-tree) extensions.

An entry is kept as its name and its head: the 62 bytes before the name (64 with the extended flags), undecoded. That is
what makes a hundred thousand entries cheap; an `IndexEntry` takes one apart. Lengths are checked before they are
used; the checksum is not, since git may leave it out and a torn index is not read twice.

A split index is a small file with the changes, and a shared one with the rest. Its extension names the shared file and holds
two EWAH bitmaps over its entries, those that are gone and those that are replaced; positions are bounded by the shared entries.
The cache-tree says which directories of the index are known to equal which tree. It is a hint: a malformed one is none.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_WORD = 64


class Malformed(ValueError):
    """The bytes are not what the format says."""


def parse_link(data: bytes, limit: int) -> tuple[list[int], list[int]]:
    """Returns the positions of deleted and of replaced shared entries; raises Malformed."""
    if len(data) == 20:  # a shared file without any change
        return [], []
    deleted, at = _bitmap(data, 20, limit)
    replaced, _ = _bitmap(data, at, limit)
    return deleted, replaced


def _bitmap(data: bytes, at: int, limit: int) -> tuple[list[int], int]:
    if at + 8 > len(data):
        raise Malformed("bitmap header")
    words = struct.unpack_from(">I", data, at + 4)[0]
    end = at + 8 + words * 8
    # At the worst, each word of bits has a marker word of its own.
    if end + 4 > len(data) or words > 2 * (limit // _WORD + 1) + 2:
        raise Malformed("bitmap words")
    return _positions(struct.unpack_from(f">{words}Q", data, at + 8), limit), end + 4


def _positions(words: tuple[int, ...], limit: int) -> list[int]:
    found: list[int] = []
    base = at = 0
    while at < len(words):
        marker = words[at]
        run, literals = (marker >> 1) & 0xFFFFFFFF, marker >> 33
        if marker & 1 and run:
            found.extend(range(base, min(base + run * _WORD, limit + 1)))
        base += run * _WORD
        for word in words[at + 1 : at + 1 + literals]:
            if word and base >= limit:
                raise Malformed("bitmap beyond the shared index")
            found.extend(base + bit for bit in range(_WORD) if word >> bit & 1)
            base += _WORD
        at += 1 + literals
    if found and found[-1] >= limit:
        raise Malformed("bitmap beyond the shared index")
    return found


def merge(
    shared: tuple[list[bytes], list[bytes]], own: tuple[list[bytes], list[bytes]], link: bytes
) -> tuple[list[bytes], list[bytes]]:
    """Returns names and heads of the whole index from those of its two files; raises Malformed."""
    names, heads = list(shared[0]), list(shared[1])
    deleted, replaced = parse_link(link, len(names))
    if len(replaced) > len(own[0]):
        raise Malformed("more replacements than entries")
    for position, name, head in zip(replaced, own[0], own[1], strict=False):
        if name:
            raise Malformed("a replacement with a name")
        heads[position] = head
    gone = set(deleted)
    kept = [at for at in range(len(names)) if at not in gone]
    added = len(replaced)
    return [names[at] for at in kept] + own[0][added:], [heads[at] for at in kept] + own[1][added:]


HEAD = 62
TRAILER = 20
# More than the largest projects have; each costs memory and time.
ENTRIES_LIMIT = 1_000_000
# What the names of a version 4 index may unfold to: each entry can repeat all of the name before it.
NAMES_LIMIT = 256 << 20

GITLINK = 0o160000
MODE_GITLINK = b"\0\0\xe0\0"
MODE_DIRECTORY = b"\0\0\x40\0"

ASSUME_VALID, EXTENDED, STAGE = 0x80, 0x40, 0x30
SKIP_WORKTREE, INTENT_TO_ADD = 0x40, 0x20


class IndexEntry(NamedTuple):
    """One entry: its name, and the bytes before the name."""

    name: bytes
    head: bytes

    @property
    def mode(self) -> int:
        """The file's mode."""
        return int.from_bytes(self.head[24:28], "big")

    @property
    def oid(self) -> bytes:
        """The object that is staged."""
        return self.head[40:60]

    @property
    def size(self) -> int:
        """The size that the file had, its lower 32 bits."""
        return int.from_bytes(self.head[36:40], "big")

    @property
    def mtime_ns(self) -> int:
        """When the file had last been written."""
        return int.from_bytes(self.head[8:12], "big") * 1_000_000_000 + int.from_bytes(self.head[12:16], "big")

    @property
    def stage(self) -> int:
        """0, or which side of a conflict this is."""
        return (self.head[60] & STAGE) >> 4

    @property
    def assume_valid(self) -> bool:
        """Whether git does not look at the file."""
        return bool(self.head[60] & ASSUME_VALID)

    @property
    def skip_worktree(self) -> bool:
        """Whether the file is left out of a sparse work tree."""
        return len(self.head) > HEAD and bool(self.head[HEAD] & SKIP_WORKTREE)

    @property
    def intent_to_add(self) -> bool:
        """Whether the path is to be added, and nothing of it is staged yet."""
        return len(self.head) > HEAD and bool(self.head[HEAD] & INTENT_TO_ADD)


class IndexRows(NamedTuple):
    """The entries in the file's order; `special` are the positions whose flags say more than a length."""

    names: list[bytes]
    heads: list[bytes]
    special: list[int]
    end: int


def header(data: bytes) -> tuple[int, int]:
    """Returns version and number of entries; raises Malformed."""
    if len(data) < 12 + TRAILER or data[:4] != b"DIRC":
        raise Malformed("signature")
    version, count = struct.unpack_from(">II", data, 4)
    # Two bytes of name and padding are the least an entry has beside its head.
    if version not in (2, 3, 4) or count > ENTRIES_LIMIT or count * (HEAD + 2) > len(data):
        raise Malformed("header")
    return version, count


def read_rows(data: bytes) -> IndexRows:
    """Returns all entries; raises Malformed."""
    version, count = header(data)
    try:
        rows = _read_compressed(data, count) if version == 4 else _read_padded(data, count, version)
    except IndexError:
        raise Malformed("cut short") from None
    if rows.end > len(data) - TRAILER:
        raise Malformed("entries beyond the end")
    return rows


def _read_padded(data: bytes, count: int, version: int) -> IndexRows:
    names: list[bytes] = []
    heads: list[bytes] = []
    special: list[int] = []
    add_name, add_head, at = names.append, heads.append, 12
    for number in range(count):
        high = data[at + 60]
        start = at + HEAD
        if high > 0xF:
            special.append(number)
            if high & EXTENDED:
                if version < 3:
                    raise Malformed("extended flags")
                start += 2
        length = (high & 0xF) << 8 | data[at + 61]
        end = start + length if length < 0xFFF else data.find(b"\0", start)
        if data[end] or end < start:
            raise Malformed("name")
        add_name(data[start:end])
        add_head(data[at:start])
        at += (end - at + 8) & -8
    return IndexRows(names, heads, special, at)


def _read_compressed(data: bytes, count: int) -> IndexRows:
    names: list[bytes] = []
    heads: list[bytes] = []
    special: list[int] = []
    name, unfolded, at = b"", 0, 12
    for number in range(count):
        start = at + HEAD
        if data[at + 60] > 0xF:
            special.append(number)
            start += 2 if data[at + 60] & EXTENDED else 0
        strip, begin = data[start], start + 1
        while data[begin - 1] & 0x80:
            strip = ((strip & 0x7F if begin == start + 1 else strip) + 1 << 7) | data[begin] & 0x7F
            begin += 1
            if strip > len(name):
                raise Malformed("name")  # now: a number of a million bytes is not worked out
        end = data.find(b"\0", begin)
        if end < 0 or strip > len(name):
            raise Malformed("name")
        name = name[: len(name) - strip] + data[begin:end]
        unfolded += len(name)
        if unfolded > NAMES_LIMIT:
            raise Malformed("names")
        names.append(name)
        heads.append(data[at:start])
        at = end + 1
    return IndexRows(names, heads, special, at)


def read_extensions(data: bytes, at: int) -> dict[bytes, bytes]:
    """Returns the extensions from an offset on; raises Malformed, also for one that must be understood and is not."""
    found: dict[bytes, bytes] = {}
    end = len(data) - TRAILER
    while at < end:
        if at + 8 > end:
            raise Malformed("extension header")
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "big")
        at += 8
        if at + size > end:
            raise Malformed("extension")
        if name[0] >= 0x60 and name not in (b"link", b"sdir"):
            raise Malformed("unknown extension")
        found[name] = data[at : at + size]
        at += size
    return found


_DEPTH = 2048
# Several times the directories of the largest projects; a node takes more memory than the six bytes that claim it.
NODES_LIMIT = 300_000


class CacheTree:
    """One directory of the index; `oid` is None when its tree has to be worked out."""

    __slots__ = ("children", "oid")

    def __init__(self, oid: bytes | None) -> None:
        self.oid = oid
        self.children: dict[bytes, CacheTree] = {}


def parse_cache_tree(data: bytes) -> CacheTree | None:
    """Returns the root of the extension's nodes, None when it is empty or malformed."""
    try:
        return _parse(data)
    except (ValueError, IndexError):
        return None


def _parse(data: bytes) -> CacheTree | None:
    root: CacheTree | None = None
    open_nodes: list[tuple[CacheTree, int, int]] = []  # a node, how many of its children are to come, and their depth
    at = nodes = depth = 0
    while at < len(data):
        nodes += 1
        nul = data.index(b"\0", at)
        line = data.index(b"\n", nul, nul + 32)
        entries, subtrees = data[nul + 1 : line].split(b" ")
        name, valid, count = data[at:nul], int(entries) >= 0, int(subtrees)
        at = line + 1 + (20 if valid else 0)
        if at > len(data) or count < 0 or depth > _DEPTH or nodes > NODES_LIMIT:
            return None
        node = CacheTree(data[line + 1 : at] if valid else None)
        if root is None:
            root = node
        else:
            parent, left, depth = open_nodes.pop()
            parent.children[name] = node
            if left > 1:
                open_nodes.append((parent, left - 1, depth))
        if count:
            open_nodes.append((node, count, depth + 1))
        if not open_nodes:
            break
    return root if not open_nodes else None


def root_oid(data: bytes) -> bytes | None:
    """Returns the tree that the whole index is known to be, without taking the rest apart."""
    line = data.find(b"\n", 0, 64)
    if data[:1] != b"\0" or line < 0 or data[1:2] == b"-" or len(data) < line + 21:
        return None
    return data[line + 1 : line + 21]
