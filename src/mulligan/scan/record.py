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
from collections.abc import Collection
from typing import NamedTuple

from mulligan.model.objects import MODE_EXEC, MODE_FILE, MODE_LINK

STAT = struct.Struct("<Q4q")
HEAD = struct.Struct("<Q2q16s20s20sHBIIIII")
HEAD_SIZE = HEAD.size
_TREE_AT = 40
_MODE_AT = 8
# The mode alone, of stat fields that lie one behind the other.
_MODE = struct.Struct("<8xq24x")
_OWN = struct.Struct("<Q2q")
# Flags and lengths alone, of an encoded record.
_SUMS = struct.Struct("<B4I")
_SUMS_AT = 82
_PERM = struct.Struct("<H")
NO_DIRECTORY = (0, -1, -1)
_FARTHEST = 1 << 63
# A file younger than this when it was looked at is read again next time: a second edit within the same tick of the
# kernel's clock leaves the same stat fields. Ticks are 1 to 10 ms; whole seconds betray a file system without finer stamps.
_YOUNG = 40_000_000
_YOUNG_COARSE = 2_100_000_000
_TRUSTED, _GROUPED, _HAS_IGNORES, _LEANS, _ONLY = 1, 2, 4, 8, 16


class Stat(NamedTuple):
    """The stat fields that change when a file does. ctime_ns is the one nobody can put back."""

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


def tree_in(packed: bytes) -> bytes:
    """Returns the tree of an encoded record without decoding the rest."""
    return packed[_TREE_AT : _TREE_AT + 20]


class Head(NamedTuple):
    """What the directory above needs to know of a directory."""

    tree: bytes
    modes: bytes
    perm: int


def head_in(packed: bytes) -> Head:
    """Returns the head of an encoded record without decoding the rest."""
    return Head(
        packed[_TREE_AT : _TREE_AT + 20],
        packed[_TREE_AT + 20 : _TREE_AT + 40],
        _PERM.unpack_from(packed, _TREE_AT + 40)[0],
    )


def modes_in(stats: bytes) -> list[int]:
    """Returns the modes of stat fields that lie one behind the other."""
    return [mode for (mode,) in _MODE.iter_unpack(stats)]


def position_of(name: bytes, names: list[bytes]) -> int:
    """Returns where a name stands among sorted ones, -1 if it does not."""
    at = bisect_left(names, name)
    return at if at < len(names) and names[at] == name else -1


class Sums(NamedTuple):
    """What all records together are asked for: how many files, what is not captured, and when a directory is looked at anyway."""

    files: int
    has_missed: bool
    trusted: bool
    leans: bool  # on the git index: what is captured in it may change with that
    only: bool


def sums_in(packed: bytes) -> Sums:
    """Returns the sums of an encoded record without decoding the rest."""
    flags, _, _, missed, count = _SUMS.unpack_from(packed, _SUMS_AT)
    only = bool(flags & _ONLY)
    return Sums(count, missed > 0, bool(flags & _TRUSTED), only or missed > 0 or bool(flags & _LEANS), only)


def own_in(packed: bytes) -> tuple[int, int, int]:
    """Returns the stat fields of the directory itself, of an encoded record."""
    ino, mtime, ctime = _OWN.unpack_from(packed)
    return ino, mtime, ctime


def missed_in(packed: bytes) -> list[Missed]:
    """Returns what an encoded record says is not captured, without decoding the rest."""
    _, names, dirs, missed, _ = _SUMS.unpack_from(packed, _SUMS_AT)
    start = HEAD_SIZE + names + dirs
    return _missed(packed[start : start + missed].split(b"\0")) if missed else []


def _missed(rows: list[bytes]) -> list[Missed]:
    return [
        Missed(rows[i], rows[i + 1].decode(), rows[i + 2].decode("utf-8", "surrogateescape"))
        for i in range(0, len(rows), 3)
    ]


def dirs_in(packed: bytes) -> list[bytes]:
    """Returns the directories that an encoded record lists, without decoding the rest."""
    _, names, dirs, _, _ = _SUMS.unpack_from(packed, _SUMS_AT)
    return packed[HEAD_SIZE + names : HEAD_SIZE + names + dirs].split(b"\0") if dirs else []


def names_of(packed: bytes) -> list[bytes]:
    """Returns the names that an encoded record says were captured, without decoding the rest."""
    size = HEAD.unpack_from(packed)[8]
    return packed[HEAD_SIZE : HEAD_SIZE + size].split(b"\0") if size else []


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


class Record:
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

    def copy(self) -> Record:
        """Returns a record that can be changed without changing this one."""
        other = Record(has_ignores=self.has_ignores)
        other.stat, other.key, other.tree, other.modes = self.stat, self.key, self.tree, self.modes
        other.perm, other.only = self.perm, self.only
        other.trusted, other.grouped, other.leans = self.trusted, self.grouped, self.leans
        other.stats, other.oids = self.stats, self.oids
        other.names, other.dirs, other.missed = self.names.copy(), self.dirs.copy(), self.missed.copy()
        return other

    def find(self, name: bytes) -> int:
        """Returns the position of a captured name, -1 if it is none."""
        return position_of(name, self.names)

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


def differing(old: Record, new: Record) -> list[int] | None:
    """Returns where two records that hold the same names hold other objects or modes; None when the names differ."""
    if old.names != new.names:
        return None
    if old.oids == new.oids and _modes_of(old) == _modes_of(new):
        return []
    size, before, after = STAT.size, old.stats, new.stats
    return [
        at
        for at in range(len(new.names))
        if old.oids[at * 20 : at * 20 + 20] != new.oids[at * 20 : at * 20 + 20]
        or before[at * size + _MODE_AT : at * size + _MODE_AT + 2]
        != after[at * size + _MODE_AT : at * size + _MODE_AT + 2]
    ]


def _modes_of(record: Record) -> tuple[bytes, bytes]:
    # A mode has sixteen bits, packed with the lowest first.
    return record.stats[_MODE_AT :: STAT.size], record.stats[_MODE_AT + 1 :: STAT.size]


def doubted(record: Record, since_ns: int) -> Record:
    """Returns a record in which no entry that changed after a moment is proven by its stat fields."""
    stats = [
        unproven(mode) if ctime >= since_ns else STAT.pack(ino, mode, size, mtime, ctime)
        for ino, mode, size, mtime, ctime in STAT.iter_unpack(record.stats)
    ]
    record.stats = b"".join(stats)
    return record


def without_proof(record: Record, names: Collection[bytes]) -> Record:
    """Returns a record in which none of these entries is proven by its stat fields."""
    other, stats = record.copy(), bytearray(record.stats)
    for at in filter(lambda at: at >= 0, map(record.find, names)):
        stats[at * STAT.size : (at + 1) * STAT.size] = unproven(record.stat_at(at).mode)
    other.stats = bytes(stats)
    return other


def decode(data: bytes) -> Record:
    """Returns the record that `encode` wrote; raises ValueError or struct.error on anything else."""
    ino, mtime, ctime, key, tree, modes, perm, flags, n_names, n_dirs, n_missed, count, dir_count = HEAD.unpack_from(
        data
    )
    at = HEAD_SIZE
    names = data[at : at + n_names].split(b"\0") if count else []
    at += n_names
    dirs = data[at : at + n_dirs].split(b"\0") if dir_count else []
    at += n_dirs
    rows = data[at : at + n_missed].split(b"\0") if n_missed else []
    at += n_missed
    stats = data[at : at + count * STAT.size]
    oids = data[at + count * STAT.size :]
    if len(names) != count or len(dirs) != dir_count or len(oids) != count * 20 or len(rows) % 3:
        raise ValueError("not a directory record")
    record = Record(has_ignores=bool(flags & _HAS_IGNORES))
    record.stat, record.key, record.tree, record.modes, record.perm = (ino, mtime, ctime), key, tree, modes, perm
    record.trusted, record.grouped = bool(flags & _TRUSTED), bool(flags & _GROUPED)
    record.leans, record.only = bool(flags & _LEANS), bool(flags & _ONLY)
    record.names, record.stats, record.oids, record.dirs, record.missed = names, stats, oids, dirs, _missed(rows)
    return record


def git_mode(mode: int) -> int:
    """Returns git's mode for a file's own."""
    if mode & 0o170000 == MODE_LINK:  # spelled out: asked of every file, several times in a first checkpoint
        return MODE_LINK
    return MODE_EXEC if mode & 0o100 else MODE_FILE
