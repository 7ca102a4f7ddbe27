"""
What is remembered of one directory.

A record holds the names, stat fields and object ids that the last checkpoint saw, so that an unchanged directory costs its
stats only. It proves itself: an entry counts only while its stat fields are the same, and an entry that was too young when
it was read is stored with fields that never match. The stat cache is a log of such records; losing it costs time,
never a change.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from mulligan.model.objects import MODE_EXEC, MODE_FILE, MODE_LINK

STAT = struct.Struct("<Q4q")
HEAD = struct.Struct("<Q2q16s20s20sHBIIIII")
HEAD_SIZE = HEAD.size
# The mode alone, of stat fields that lie one behind the other.
_MODE = struct.Struct("<8xq24x")
NO_DIRECTORY = (0, -1, -1)
_FARTHEST = 1 << 63
# A file younger than this when it was looked at is read again next time: a second edit within the same tick of the
# kernel's clock leaves the same stat fields. Ticks are 1 to 10 ms; whole seconds betray a file system without finer stamps.
_YOUNG = 40_000_000
_YOUNG_COARSE = 2_100_000_000
_TRUSTED, _GROUPED, _HAS_IGNORES, _LEANS, _ONLY = 1, 2, 4, 8, 16


class Stat(NamedTuple):
    """The stat fields that change when a file does. ctime_ns is the one that no program can put back."""

    ino: int
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @property
    def is_unproven(self) -> bool:
        """Whether these are fields that never match."""
        return self.ctime_ns == -1 and self.size == -1


def unproven(mode: int) -> bytes:
    """Returns stat fields that never match, with the mode kept."""
    return STAT.pack(0, mode, -1, -1, -1)


class RecordHead(NamedTuple):
    """How an encoded record begins: all that can be had of it without decoding the rest."""

    ino: int
    mtime_ns: int
    ctime_ns: int
    key: bytes
    tree: bytes
    modes: bytes
    perm: int
    flags: int
    names_size: int
    dirs_size: int
    missed_size: int
    files: int
    dirs: int

    @property
    def own(self) -> tuple[int, int, int]:
        """The stat fields of the directory itself."""
        return self[:3]

    @property
    def trusted(self) -> bool:
        """Whether the record says all there is to say."""
        return bool(self.flags & _TRUSTED)

    @property
    def only(self) -> bool:
        """Whether nothing is wanted but what is tracked or asked for by name."""
        return bool(self.flags & _ONLY)

    @property
    def leans(self) -> bool:
        """Whether what is captured may change with the git index."""
        return bool(self.flags & (_ONLY | _LEANS)) or self.missed_size > 0


def head_in(packed: bytes) -> RecordHead:
    """Returns the head of an encoded record."""
    return RecordHead._make(HEAD.unpack_from(packed))


def lists_in(packed: bytes, head: RecordHead) -> tuple[list[bytes], list[bytes], list[Missed]]:
    """Returns the captured names, the directories and what is not captured, of an encoded record."""
    dirs_at = HEAD_SIZE + head.names_size
    missed_at = dirs_at + head.dirs_size
    names = packed[HEAD_SIZE:dirs_at].split(b"\0") if head.files else []
    dirs = packed[dirs_at:missed_at].split(b"\0") if head.dirs else []
    rows = packed[missed_at : missed_at + head.missed_size].split(b"\0") if head.missed_size else []
    missed = [
        Missed(name, reason.decode(), detail.decode("utf-8", "surrogateescape"))
        for name, reason, detail in zip(rows[::3], rows[1::3], rows[2::3], strict=True)
    ]
    return names, dirs, missed


def modes_in(stats: bytes) -> list[int]:
    """Returns the modes of stat fields that lie one behind the other."""
    return [mode for (mode,) in _MODE.iter_unpack(stats)]


def can_be_remembered(mtime_ns: int, ctime_ns: int, started_ns: int) -> bool:
    """Returns whether stat fields prove something to the next look: a file too young at the start of this one is read again."""
    # Spelled out, because it is asked of every file. A file may claim a time that a record has no room for.
    young = _YOUNG if ctime_ns % 1_000_000_000 else _YOUNG_COARSE
    return ctime_ns < started_ns - young and -_FARTHEST <= mtime_ns < _FARTHEST


class Missed(NamedTuple):
    """A name that is not captured, and why."""

    name: bytes
    reason: str
    detail: str


def too_large(size: int, limit: int) -> str:
    """Returns the detail of a file over the limit: `60 MiB; limit 50 MiB`."""
    from mulligan.model.sizes import format_size

    return f"{format_size(size)}; limit {format_size(limit)}"


class DirectoryRecord:
    """
    One directory as a checkpoint saw it; `names`, `stats` and `oids` run in parallel, sorted by name.

    It `leans` on the git index when something is captured only because that tracks it. Where it is `only`, nothing is wanted
    but what is tracked or asked for by name.
    """

    __slots__ = (
        *("dirs", "grouped", "has_ignores", "key", "leans", "missed", "modes", "names"),
        *("oids", "only", "perm", "stat", "stats", "tree", "trusted"),
    )

    def __init__(self, *, has_ignores: bool = False) -> None:
        self.stat: tuple[int, int, int] = NO_DIRECTORY
        self.key = bytes(16)
        self.tree = bytes(20)
        self.modes = bytes(20)
        self.perm = 0o755
        self.trusted = True
        self.grouped = False
        self.has_ignores = has_ignores
        self.leans = False
        self.only = False
        self.names: list[bytes] = []
        self.stats = b""
        self.oids = b""
        self.dirs: list[bytes] = []
        self.missed: list[Missed] = []

    def copy(self) -> DirectoryRecord:
        """Returns a record that can be changed without changing this one."""
        other = DirectoryRecord(has_ignores=self.has_ignores)
        other.stat, other.key, other.tree, other.modes = self.stat, self.key, self.tree, self.modes
        other.perm, other.only = self.perm, self.only
        other.trusted, other.grouped, other.leans = self.trusted, self.grouped, self.leans
        other.stats, other.oids = self.stats, self.oids
        other.names, other.dirs, other.missed = self.names.copy(), self.dirs.copy(), self.missed.copy()
        return other

    def find(self, name: bytes) -> int:
        """Returns the position of a captured name, -1 if it is none."""
        at = bisect_left(self.names, name)
        return at if at < len(self.names) and self.names[at] == name else -1

    def stat_at(self, at: int) -> Stat:
        """Returns the remembered stat fields of an entry."""
        return Stat(*STAT.unpack_from(self.stats, at * STAT.size))

    def oid_at(self, at: int) -> bytes:
        """Returns the object id of an entry."""
        return self.oids[at * 20 : at * 20 + 20]

    def encode(self) -> bytes:
        """Returns the record as bytes."""
        names, dirs = b"\0".join(self.names), b"\0".join(self.dirs)
        missed = b"\0".join(
            [b"\0".join((m.name, m.reason.encode(), m.detail.encode("utf-8", "surrogateescape"))) for m in self.missed]
        )
        flags = (
            self.trusted * _TRUSTED
            | self.grouped * _GROUPED
            | self.has_ignores * _HAS_IGNORES
            | self.leans * _LEANS
            | self.only * _ONLY
        )
        head = HEAD.pack(
            *self.stat, self.key, self.tree, self.modes, self.perm, flags,
            len(names), len(dirs), len(missed), len(self.names), len(self.dirs),
        )  # fmt: skip
        return b"".join((head, names, dirs, missed, self.stats, self.oids))


def without_proof(record: DirectoryRecord, places: Iterable[int]) -> DirectoryRecord:
    """Returns a record in which none of these entries is proven by its stat fields."""
    other, stats = record.copy(), bytearray(record.stats)
    for at in places:
        stats[at * STAT.size : (at + 1) * STAT.size] = unproven(record.stat_at(at).mode)
    other.stats = bytes(stats)
    return other


def decode(data: bytes) -> DirectoryRecord:
    """Returns the record that `encode` wrote; raises ValueError or struct.error on anything else."""
    head, record = head_in(data), DirectoryRecord()
    record.names, record.dirs, record.missed = lists_in(data, head)
    at = HEAD_SIZE + head.names_size + head.dirs_size + head.missed_size
    record.stats, record.oids = data[at : at + head.files * STAT.size], data[at + head.files * STAT.size :]
    if (len(record.names), len(record.dirs), len(record.oids)) != (head.files, head.dirs, head.files * 20):
        raise ValueError("not a directory record")
    record.stat, record.key, record.tree, record.modes, record.perm = (
        head.own,
        head.key,
        head.tree,
        head.modes,
        head.perm,
    )
    record.trusted, record.only, record.leans = head.trusted, head.only, bool(head.flags & _LEANS)
    record.grouped, record.has_ignores = bool(head.flags & _GROUPED), bool(head.flags & _HAS_IGNORES)
    return record


def git_mode(mode: int) -> int:
    """Returns git's mode for a file's own."""
    if mode & 0o170000 == MODE_LINK:  # spelled out: asked of every file, several times in a first checkpoint
        return MODE_LINK
    return MODE_EXEC if mode & 0o100 else MODE_FILE
