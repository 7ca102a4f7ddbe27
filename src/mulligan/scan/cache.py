"""
The stat cache: a log of directory records in the store.

Disposable. It is written after a checkpoint was saved, without waiting for the disk: a torn or lost log means that
more is read next time. A record is never wrong by being old (see `record`) while the machine runs; after it was started
again, `doubt` says what may not be trusted. Its objects must exist, so the log names the tree it belongs to: it counts
only while a checkpoint holds that tree.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice

from mulligan.model.paths import join
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory, append_at, read_all, write_all
from mulligan.scan.record import STAT, DirectoryRecord, Missed, RecordHead, decode, head_in, lists_in, without_proof

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
_READ = 96 << 10


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
        """Takes over the frames of an open log, piece by piece: memory for all of it at once costs more than the reading."""
        data, before, at = read_all(fd, _READ), 0, len(_MAGIC)
        if not data.startswith(_MAGIC):
            return 0
        while True:
            at, lacking = self._take_whole(data, at)
            part = read_all(fd, max(_READ, lacking)) if lacking else b""
            if not part:
                return before + at
            data, before, at = data[at:] + part, before + at, 0

    def _take_whole(self, data: bytes, at: int) -> tuple[int, int]:
        """Takes over the frames that are whole; returns where they end, and how many bytes the next one lacks, 0 for a torn one."""
        # Spelled out, without a call or a copy to spare: every fresh process does this for every directory.
        end, view = len(data), memoryview(data)
        unpack, head, crc32, records = _FRAME.unpack_from, _FRAME.size, zlib.crc32, self._packed
        while at + head <= end:
            path_size, size, check, _ = unpack(data, at)
            start = at + head
            middle = start + path_size
            stop = middle + size
            if stop > end:
                return at, stop - end
            if start == stop or crc32(view[start:stop]) != check:
                return at, 0  # zeros, as a power cut leaves them, have the right checksum
            if size > len(_GONE) and data[start] != _ROOT_PATH[0]:
                records[data[start:middle]] = data[middle:stop]
            else:
                self._take(data[start:middle], data[middle:stop])
            at = stop
        return at, at + head - end

    def save(self, store: Directory, frames: list[tuple[bytes, bytes]]) -> None:
        """Appends to the log, or writes it anew when more than half of it is history."""
        size = sum(_FRAME.size + len(path) + len(data) for path, data in frames)
        if self.is_current(store) and self._log_bytes + size <= 2 * self._live + _SLACK:
            self._append(store, _framed(frames))
        else:
            self.rewrite(store)

    def is_current(self, store: Directory) -> bool:
        """Whether the log is as this object left it, and not one that another process wrote since."""
        try:
            now = store.stat(NAME)
        except FileNotFoundError:
            return False
        return self._log_bytes > 0 and now.st_ino == self._log_inode and now.st_size == self._log_bytes

    def _append(self, store: Directory, packed: bytes) -> None:
        # Cutting first: a torn tail would hide what is appended behind it.
        append_at(store, NAME, self._log_bytes, packed)
        self._log_bytes += len(packed)

    def rewrite(self, store: Directory) -> None:
        """Writes the log anew."""
        written = 0
        with store.child(b"tmp") as tmp:
            tmp.unlink(_TEMPORARY, missing_ok=True)
            fd = tmp.create(_TEMPORARY)
            try:
                for piece in self._pieces():
                    write_all(fd, piece)
                    written += len(piece)
                tmp.rename(_TEMPORARY, NAME, to=store)
            except BaseException:
                tmp.unlink(_TEMPORARY, missing_ok=True)
                raise
            finally:
                syscalls.calls.close(fd)
        self._log_bytes, self._log_inode = written, store.stat(NAME).st_ino

    def size_anew(self) -> int:
        """Returns how many bytes the log has when it is written anew."""
        return sum(map(len, self._pieces()))

    def _pieces(self) -> Iterator[bytes]:
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


def compact(store: Directory) -> None:
    """Writes the log anew without its history."""
    cache = Cache()
    cache.load(store)
    if len(cache):
        cache.rewrite(store)


def discard(store: Directory) -> None:
    """Throws the records away, because their objects may be gone; what was noted beside them stays true."""
    old, empty = Cache(), Cache()
    old.load(store)
    store.unlink(NAME, missing_ok=True)
    if old.note:
        empty.root_tree, empty.note = NO_TREE, old.note
        empty.save(store, [])


def foretell_compacting(store: Directory, *, keep: bool) -> int:
    """Returns how many bytes on the disk `compact` would free, or `discard` where nothing may be kept."""
    from mulligan.safefs.room import on_disk, whole_blocks

    cache = Cache()
    cache.load(store)
    if not store.exists(NAME) or (keep and not len(cache)):
        return 0
    before = on_disk(store.stat(NAME))
    if not keep:
        cache, note = Cache(), cache.note
        if not note:
            return before
        cache.root_tree, cache.note = NO_TREE, note
    return before - whole_blocks(cache.size_anew(), store)


def root_tree_of(store: Directory) -> bytes:
    """Returns the tree the log belongs to, empty when there is no log."""
    cache = Cache()
    cache.load(store)
    return cache.root_tree
