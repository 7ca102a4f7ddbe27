"""
The bytes of git's index file, versions 2, 3 and 4.

An entry is kept as its name and its head: the 62 bytes before the name (64 with the extended flags), undecoded. That is
what makes a hundred thousand entries cheap, and whoever needs one entry decodes it. Lengths are checked before they are
used; the checksum is not, since git may leave it out and a torn index is not read twice.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from mulligan.scan.git.split_index import Malformed

HEAD = 62
TRAILER = 20
# More than the largest projects have; each costs memory and time whoever wrote it.
ENTRIES_LIMIT = 1_000_000
# What the names of a version 4 index may unfold to: each entry can repeat all of the name before it.
NAMES_LIMIT = 256 << 20

MODE_GITLINK = b"\0\0\xe0\0"
MODE_DIRECTORY = b"\0\0\x40\0"

ASSUME_VALID, EXTENDED, STAGE = 0x80, 0x40, 0x30
SKIP_WORKTREE, INTENT_TO_ADD = 0x40, 0x20

_ENTRY = struct.Struct(">10I20sH")


class IndexEntry(NamedTuple):
    """One entry of the index, decoded."""

    path: bytes
    mode: int
    oid: bytes
    stage: int
    size: int
    mtime_ns: int
    ctime_ns: int
    ino: int
    assume_valid: bool = False
    skip_worktree: bool = False
    intent_to_add: bool = False


class Rows(NamedTuple):
    """The entries in the file's order; `special` are the positions whose flags say more than a length."""

    names: list[bytes]
    heads: list[bytes]
    special: list[int]
    end: int


def decode(path: bytes, head: bytes) -> IndexEntry:
    """Returns an entry from its name and head."""
    ctime, ctime_ns, mtime, mtime_ns, _, ino, mode, _, _, size, oid, flags = _ENTRY.unpack_from(head)
    extended = head[HEAD] if len(head) > HEAD else 0
    return IndexEntry(
        path,
        mode,
        oid,
        flags >> 12 & 3,
        size,
        mtime * 1_000_000_000 + mtime_ns,
        ctime * 1_000_000_000 + ctime_ns,
        ino,
        bool(flags & 0x8000),
        bool(extended & SKIP_WORKTREE),
        bool(extended & INTENT_TO_ADD),
    )


def header(data: bytes) -> tuple[int, int]:
    """Returns version and number of entries; raises Malformed."""
    if len(data) < 12 + TRAILER or data[:4] != b"DIRC":
        raise Malformed("signature")
    version, count = struct.unpack_from(">II", data, 4)
    # Two bytes of name and padding are the least an entry has beside its head.
    if version not in (2, 3, 4) or count > ENTRIES_LIMIT or count * (HEAD + 2) > len(data):
        raise Malformed("header")
    return version, count


def read_rows(data: bytes) -> Rows:
    """Returns all entries; raises Malformed."""
    version, count = header(data)
    try:
        rows = _read_compressed(data, count) if version == 4 else _read_padded(data, count, version)
    except IndexError:
        raise Malformed("cut short") from None
    if rows.end > len(data) - TRAILER:
        raise Malformed("entries beyond the end")
    return rows


def _read_padded(data: bytes, count: int, version: int) -> Rows:
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
    return Rows(names, heads, special, at)


def _read_compressed(data: bytes, count: int) -> Rows:
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
    return Rows(names, heads, special, at)


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
