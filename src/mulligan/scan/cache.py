"""
The stat cache: what is remembered of each directory, as a log of records in the store.

A record holds the names, stat fields and object ids that the last checkpoint saw, so that an unchanged directory costs its
stats only. It proves itself: an entry counts only while its stat fields are the same, and an entry that was too young when
it was read is stored with fields that never match.

The log is disposable. It is written after a checkpoint was saved, without waiting for the disk: a torn or lost log means that
more is read next time. A record is never wrong by being old while the machine runs; after it was started again, `doubt` says
what may not be trusted. Its objects must exist, so the log names the tree it belongs to: it counts only while a checkpoint
holds that tree.
"""

from __future__ import annotations

import os
import struct
import zlib
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from mulligan.model.paths import join
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory, append_at, read_all, write_all

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


@dataclass(slots=True)
class DirectoryRecord:
    """
    One directory as a checkpoint saw it; `names`, `stats` and `oids` run in parallel, sorted by name.

    It `leans` on the git index when something is captured only because that tracks it. Where it is `only`, nothing is wanted
    but what is tracked or asked for by name.
    """

    has_ignores: bool = False
    stat: tuple[int, int, int] = NO_DIRECTORY
    key: bytes = bytes(16)
    tree: bytes = bytes(20)
    modes: bytes = bytes(20)
    perm: int = 0o755
    trusted: bool = True
    grouped: bool = False
    leans: bool = False
    only: bool = False
    names: list[bytes] = field(default_factory=list)
    stats: bytes = b""
    oids: bytes = b""
    dirs: list[bytes] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)

    def copy(self) -> DirectoryRecord:
        """Returns a record that can be changed without changing this one."""
        return replace(self, names=self.names.copy(), dirs=self.dirs.copy(), missed=self.missed.copy())

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
        flags = self.trusted * _TRUSTED | self.grouped * _GROUPED | self.has_ignores * _HAS_IGNORES
        flags |= self.leans * _LEANS | self.only * _ONLY
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
    head = head_in(data)
    names, dirs, missed = lists_in(data, head)
    at = HEAD_SIZE + head.names_size + head.dirs_size + head.missed_size
    stats, oids = data[at : at + head.files * STAT.size], data[at + head.files * STAT.size :]
    if (len(names), len(dirs), len(oids)) != (head.files, head.dirs, head.files * 20):
        raise ValueError("not a directory record")
    return DirectoryRecord(
        bool(head.flags & _HAS_IGNORES), head.own, head.key, head.tree, head.modes, head.perm,
        head.trusted, bool(head.flags & _GROUPED), bool(head.flags & _LEANS), head.only,
        names, stats, oids, dirs, missed,
    )  # fmt: skip


# -- the log ------------------------------------------------------------------------------------------------

NAME = b"cache"
_TEMPORARY = b"cache"  # in tmp/, where the next writing command sweeps what a dead process left
_MAGIC = b"mulligan-cache-5\n"
_FRAME = struct.Struct("<IIII")
_ROOT_PATH = b"\0root"  # no directory has this name
_GONE = b"\0"
NO_TREE = bytes(20)
# What the log of a small project may grow by before it is written anew: every fresh process reads it.
_SLACK = 256 << 10
_PIECE = 4096


class _Sums:
    """What is known of all records together, kept up as each of them changes."""

    def __init__(self) -> None:
        self.files = 0
        self.missed: dict[bytes, Missed] = {}
        self.untrusted: set[bytes] = set()
        self.leaning: set[bytes] = set()

    def exchange(self, path: bytes, old: bytes, new: bytes) -> None:
        """Takes one encoded record out, empty for none, and another in."""
        if old:
            was = head_in(old)
            self.files -= was.files
            self.untrusted.discard(path)
            self.leaning.discard(path)
            for row in lists_in(old, was)[2] if was.missed_size else ():
                # A record may also speak for a directory below that was passed over: only its own row goes.
                if self.missed.get(join(path, row.name)) == row:
                    del self.missed[join(path, row.name)]
        if new:
            now = head_in(new)
            self.files += now.files
            if not now.trusted:
                self.untrusted.add(path)
            if now.leans:
                self.leaning.add(path)
            for row in lists_in(new, now)[2] if now.missed_size else ():
                self.missed[join(path, row.name)] = row


class Cache:
    """The records of one workspace, decoded when a directory is visited."""

    def __init__(self) -> None:
        self.root_tree = b""
        self.note = b""
        self._packed: dict[bytes, bytes] = {}
        self._sums: _Sums | None = None  # of all records, when first asked for
        self._live = 0  # the bytes of all of them
        self._doubted: set[bytes] = set()
        self._doubted_since = 0
        self._last: tuple[bytes, DirectoryRecord] | None = None  # the last one that was decoded
        self._log_bytes = 0
        self._log_inode = -1

    def __len__(self) -> int:
        return len(self._packed)

    def get(self, path: bytes) -> DirectoryRecord | None:
        """Returns the record of a directory, not to be changed; None if it was never seen."""
        if self._last is not None and self._last[0] == path:
            return self._last[1]  # decoding a directory of 100,000 names for each of them would take hours
        packed = self._packed.get(path)
        if packed is None:
            return None
        try:
            record = decode(packed)
        except (ValueError, struct.error, UnicodeDecodeError):
            return None  # a format of another version: read the directory again
        if path in self._doubted:
            changed = enumerate(row[4] for row in STAT.iter_unpack(record.stats))
            record = without_proof(record, [at for at, ctime in changed if ctime >= self._doubted_since])
        self._last = path, record
        return record

    def packed(self, path: bytes) -> bytes:
        """Returns the record of a directory as it is written; raises KeyError if it was never seen."""
        return self._packed[path]

    @property
    def is_doubted(self) -> bool:
        """Whether some records may not be taken by their word."""
        return bool(self._doubted)

    def head_of(self, path: bytes) -> RecordHead | None:
        """Returns the head of a directory's record, None if it was never seen."""
        packed = self._packed.get(path)
        return head_in(packed) if packed is not None else None

    # -- all records together ---------------------------------------------------------------------------

    @property
    def files(self) -> int:
        """How many files are captured in all."""
        return self._summed().files

    @property
    def missed(self) -> dict[bytes, Missed]:
        """What is not captured, by path; not to be changed."""
        return self._summed().missed

    def restless(self, *, index_changed: bool) -> set[bytes]:
        """Returns the directories that are looked at in any case: their records say less than all, or the git index decides."""
        sums = self._summed()
        return sums.untrusted | sums.leaning if index_changed else sums.untrusted

    def _summed(self) -> _Sums:
        if self._sums is None:
            self._sums = _Sums()
            for path, packed in self._packed.items():
                self._sums.exchange(path, b"", packed)
        return self._sums

    def __contains__(self, path: bytes) -> bool:
        return path in self._packed

    def doubt(self, since_ns: int) -> None:
        """Takes no word for entries that changed after a moment, until they are read again."""
        self._doubted, self._doubted_since, self._last = set(self._packed), since_ns, None

    def paths(self) -> list[bytes]:
        """Returns every directory that has a record."""
        return list(self._packed)

    def update(
        self, records: Iterable[tuple[bytes, bytes]], gone: Iterable[bytes], root_tree: bytes, note: bytes
    ) -> list[tuple[bytes, bytes]]:
        """Takes over what a checkpoint saw, records as they are written; returns the frames that changed."""
        # Records may be of another tree than the one named before them, so a log that ends among them must name none.
        frames = [(_ROOT_PATH, b"")]
        frames += records
        frames += [(path, _GONE) for path in gone]
        frames.append((_ROOT_PATH, root_tree + note))
        for path, packed in frames:
            self._take(path, packed)
        return frames

    def _take(self, path: bytes, packed: bytes) -> None:
        if path == _ROOT_PATH:
            self.root_tree, self.note = packed[:20], packed[20:]
            return
        self._doubted.discard(path)
        self._last = None
        before = self._packed.get(path, b"")
        self._live -= len(before)
        if self._sums is not None:
            self._sums.exchange(path, before, b"" if packed == _GONE else packed)
        if packed == _GONE:
            self._packed.pop(path, None)
        else:
            self._packed[path] = packed
            self._live += len(packed)

    def suppose(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Takes over what no checkpoint saw yet: for a look that is followed by one, and to be dropped otherwise."""
        for path, packed in records:
            self._take(path, packed)

    def load(self, store: Directory) -> None:
        """Reads the log as far as it is whole."""
        self._sums = self._last = None
        try:
            with store.reading(NAME) as fd:
                self._log_bytes = self._read(fd)
                self._log_inode = os.fstat(fd).st_ino
        except OSError:
            # No cache yet, or not readable: everything is read again.
            self.root_tree = self.note = b""
            self._packed.clear()
        self._live = sum(map(len, self._packed.values()))

    def _read(self, fd: int) -> int:
        """Takes over the frames of an open log as far as they are whole; returns where those end."""
        # Spelled out, without a call or a copy to spare: every fresh process does this for every directory.
        data = read_all(fd, expect=os.fstat(fd).st_size)
        at, end, view = len(_MAGIC), len(data), memoryview(data)
        if not data.startswith(_MAGIC):
            return 0
        unpack, head, crc32, records = _FRAME.unpack_from, _FRAME.size, zlib.crc32, self._packed
        while at + head <= end:
            path_size, size, check, _ = unpack(data, at)
            start = at + head
            middle = start + path_size
            stop = middle + size
            # A torn frame ends it. Zeros, as a power cut leaves them, have the right checksum.
            if stop > end or start == stop or crc32(view[start:stop]) != check:
                break
            if size > len(_GONE) and data[start] != _ROOT_PATH[0]:
                records[data[start:middle]] = data[middle:stop]
            else:
                self._take(data[start:middle], data[middle:stop])
            at = stop
        return at

    def save(self, store: Directory, frames: list[tuple[bytes, bytes]]) -> None:
        """Appends to the log, or writes it anew when more than half of it is history."""
        size = sum(_FRAME.size + len(path) + len(data) for path, data in frames)
        if self.is_current(store) and self._log_bytes + size <= 2 * self._live + _SLACK:
            # Cutting first: a torn tail would hide what is appended behind it.
            append_at(store, NAME, self._log_bytes, _framed(frames))
            self._log_bytes += size
        else:
            self.rewrite(store)

    def is_current(self, store: Directory) -> bool:
        """Whether the log is as this object left it, and not one that another process wrote since."""
        try:
            now = store.stat(NAME)
        except FileNotFoundError:
            return False
        return self._log_bytes > 0 and now.st_ino == self._log_inode and now.st_size == self._log_bytes

    def rewrite(self, store: Directory) -> None:
        """Writes the log anew."""
        written = 0
        with store.child(b"tmp") as tmp:
            tmp.unlink(_TEMPORARY, missing_ok=True)
            fd = tmp.create(_TEMPORARY)
            try:
                for piece in self.pieces():
                    write_all(fd, piece)
                    written += len(piece)
                tmp.rename(_TEMPORARY, NAME, to=store)
            except BaseException:
                tmp.unlink(_TEMPORARY, missing_ok=True)
                raise
            finally:
                syscalls.calls.close(fd)
        self._log_bytes, self._log_inode = written, store.stat(NAME).st_ino

    def pieces(self) -> Iterator[bytes]:
        """Yields the log in pieces: with a million files it has a hundred megabytes."""
        yield _MAGIC + _framed([(_ROOT_PATH, b"")])
        records = iter(self._packed.items())
        while part := list(islice(records, _PIECE)):
            yield _framed(part)
        yield _framed([(_ROOT_PATH, self.root_tree + self.note)])


def _framed(records: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns records as they stand in the log."""
    parts, pack, crc32 = list[bytes](), _FRAME.pack, zlib.crc32
    for path, data in records:
        parts += (pack(len(path), len(data), crc32(data, crc32(path)), 0), path, data)
    return b"".join(parts)


def compact(store: Directory, held: Container[bytes], *, dry_run: bool = False) -> int:
    """
    Writes the log anew without its history; returns how many bytes on the disk that frees.

    Where no checkpoint holds its tree any more, the records go too, because their objects may be gone. What was noted beside
    them stays true.
    """
    from mulligan.safefs.room import on_disk, whole_blocks

    cache = Cache()
    cache.load(store)
    if not store.exists(NAME):
        return 0
    before = on_disk(store.stat(NAME))
    if cache.root_tree not in held:
        note, cache = cache.note, Cache()
        cache.root_tree, cache.note = NO_TREE, note
    is_empty = not len(cache) and not cache.note
    if not dry_run and is_empty:
        store.unlink(NAME, missing_ok=True)
    elif not dry_run:
        cache.rewrite(store)
    return before - (0 if is_empty else whole_blocks(sum(map(len, cache.pieces())), store))


def discard(store: Directory) -> None:
    """Throws the records away, because their objects may be gone."""
    compact(store, ())
