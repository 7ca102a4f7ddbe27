"""
The workspace as git trees: making them from records, and the finished `Scan`.

`files/` is the workspace exactly. Permission bits that git's two modes cannot say go into a second tree, `modes/`, which
mirrors only the directories that have any: in each, `f` is a blob of exceptions and `d` a tree of directories below. So
an odd umask costs nothing per checkpoint, and a changed bit rewrites one directory.
The trees that no earlier checkpoint holds are kept in memory, so that a scan can be compared with any checkpoint before
anything is stored.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha1
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mulligan.model.checkpoint import EXCLUDED, IGNORED, INCOMPLETE, MOVING, NotCaptured
from mulligan.model.objects import (
    BLOB,
    MODE_DIR,
    MODE_EXEC,
    MODE_FILE,
    MODE_LINK,
    MODE_TEXT,
    TREE,
    TreeEntry,
    encode_tree,
    object_id,
)
from mulligan.model.paths import ancestors, join, parent_of, to_text
from mulligan.scan.cache import Cache, DirectoryRecord, Missed, RecordHead, Stat, head_in, lists_in, modes_in
from mulligan.scan.secrets import is_sample, secret_name

if TYPE_CHECKING:
    from mulligan.model.checkpoint import Sealed, Secrets

NONE = bytes(20)
Objects = dict[bytes, tuple[bytes, bytes]]


class Defaults(NamedTuple):
    """The permission bits that most files, programs and directories have; only others are written down."""

    file: int = 0o644
    executable: int = 0o755
    directory: int = 0o755


def seal(
    record: DirectoryRecord,
    modes: list[int],
    children: Sequence[tuple[bytes, DirectoryRecord | RecordHead]],
    defaults: Defaults,
    objects: Objects,
) -> None:
    """Gives a record its trees, adding the new objects; modes of its files and its children are known."""
    below = [(name, child.tree) for name, child in children]
    record.tree = add(TREE, tree_of(record.names, modes, record.oids, below), objects)
    record.modes = _modes_tree(record, modes, children, defaults, objects)


def git_mode(mode: int) -> int:
    """Returns git's mode for a file's own."""
    if mode & 0o170000 == MODE_LINK:  # spelled out: asked of every file, several times in a first checkpoint
        return MODE_LINK
    return MODE_EXEC if mode & 0o100 else MODE_FILE


@cache
def _mode_text(mode: int) -> bytes:
    """Returns what a tree says for a file's own mode."""
    return MODE_TEXT[git_mode(mode)] + b" "


_OID = struct.Struct("20s")


def tree_of(names: list[bytes], modes: list[int], oids: bytes, children: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Returns the bytes of a tree: names with their modes and joined ids, and directories with their trees."""
    # Names are sorted, and without directories among them that is git's order.
    lines = [
        _mode_text(mode) + name + b"\0" + oid
        for name, mode, (oid,) in zip(names, modes, _OID.iter_unpack(oids), strict=True)
    ]
    if children:
        keyed = [*zip(names, lines, strict=True)]
        keyed += [(name + b"/", b"40000 " + name + b"\0" + tree) for name, tree in children]
        keyed.sort()
        lines = [line for _, line in keyed]
    return b"".join(lines)


def _modes_tree(
    record: DirectoryRecord,
    modes: list[int],
    children: Sequence[tuple[bytes, DirectoryRecord | RecordHead]],
    defaults: Defaults,
    objects: Objects,
) -> bytes:
    """Returns the tree of the permission bits in a directory that are not the usual ones, adding the new objects."""
    odd = []
    for name, mode in zip(record.names, modes, strict=True):
        usual = defaults.executable if mode & 0o100 else defaults.file
        if mode & 0o7777 != usual and not stat.S_ISLNK(mode):
            odd.append(b"%04o %s" % (mode & 0o7777, name))
    odd += [b"%04o %s" % (child.perm, name) for name, child in children if child.perm != defaults.directory]
    below = [TreeEntry(name, MODE_DIR, child.modes) for name, child in children if child.modes != NONE]
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


Entry = tuple[int, bytes]  # git mode and object id


class Sink(Protocol):
    """Where the bytes of captured files go; `hash_only` where it wants ids alone."""

    hash_only: bool

    def add_hashed(self, oid: bytes, kind: bytes, data: bytes) -> None:
        """Takes an object whose id is known."""

    def add_stream(self, size: int, chunks: Iterable[bytes]) -> bytes:
        """Takes a large blob piece by piece and returns its id; ValueError if the pieces do not add up."""


class HashOnly:
    """A sink for looking without saving."""

    hash_only = True

    def add_hashed(self, oid: bytes, kind: bytes, data: bytes) -> None:
        """Forgets the bytes."""

    def add_stream(self, size: int, chunks: Iterable[bytes]) -> bytes:
        """Returns the id alone."""
        digest, seen = sha1(b"blob %d\0" % size, usedforsecurity=False), 0
        for chunk in chunks:
            digest.update(chunk)
            seen += len(chunk)
        if seen != size:
            raise ValueError("the file changed while it was read")
        return digest.digest()


class Cover:
    """
    A set of paths that stand for all below them, and of directories that stand for what is directly in them alone.

    A directory that would not hold still is of the second kind: the directories in it were seen all the same. Nothing stands
    for a path that was looked for below it.
    """

    def __init__(
        self, paths: Iterable[bytes], shallow: Iterable[bytes] = (), looked_for: Callable[[bytes], bool] | None = None
    ) -> None:
        self._paths = set(paths)
        self._shallow = set(shallow)
        self._looked_for = looked_for

    def __bool__(self) -> bool:
        return bool(self._paths or self._shallow)

    def over(self, path: bytes) -> bytes | None:
        """Returns the listed path that is this one or stands above it; None when there is none."""
        if not self:
            return None
        if path in self._paths or path in self._shallow:
            return path
        if b"" in self._paths:
            return b""
        if self._shallow and parent_of(path) in self._shallow:
            return parent_of(path)
        above = self.above(path)
        return None if above is not None and self._looked_for is not None and self._looked_for(path) else above

    def above(self, path: bytes) -> bytes | None:
        """Returns the listed path that stands above this one, also where this one was looked for."""
        return next((above for above in ancestors(path) if above in self._paths), None) if self._paths else None


def cover_of(rows: Iterable[NotCaptured]) -> Cover:
    """Returns the paths that a checkpoint lists as not captured, to ask what they stand over."""
    listed = {os.fsencode(row.path) if row.path != "." else b"": row.reason for row in rows}
    return Cover(
        [p for p, reason in listed.items() if reason != MOVING], [p for p, reason in listed.items() if reason == MOVING]
    )


def commit_scope(rows: Sequence[NotCaptured]) -> Callable[[bytes, bool], bool]:
    """Returns which changed paths a commit takes, each asked with whether git tracks it, from what is not captured."""
    reasons = {os.fsencode(row.path): row.reason for row in rows}
    cover = cover_of(rows)

    def in_scope(path: bytes, tracked: bool) -> bool:  # noqa: FBT001 - the shape that commits ask for
        if secret_name(path) and not is_sample(os.path.basename(path)):
            return False
        over = cover.over(path)
        if over is None:
            return True
        # Below a directory that is ignored or excluded, what git tracks is in scope all the same.
        return tracked and over != path and reasons.get(over) in (IGNORED, EXCLUDED)

    return in_scope


def entries(record: DirectoryRecord) -> Iterator[tuple[bytes, int, bytes]]:
    """Yields name, git mode and object id of what is captured in one directory."""
    for name, mode, (oid,) in zip(record.names, modes_in(record.stats), _OID.iter_unpack(record.oids), strict=True):
        yield name, git_mode(mode), oid


def _changes(
    directory: bytes, old: DirectoryRecord, new: DirectoryRecord
) -> Iterator[tuple[bytes, Entry | None, Entry | None]]:
    before, after = set(entries(old)), set(entries(new))
    then = {name: (mode, oid) for name, mode, oid in before - after}
    now = {name: (mode, oid) for name, mode, oid in after - before}
    for name in then.keys() | now.keys():
        yield join(directory, name), then.get(name), now.get(name)


@dataclass(frozen=True, kw_only=True)
class Scan:
    """
    One look at the workspace, finished.

    What the stat `cache` holds stands, but for `records` and what is `gone`. `objects` are the trees that no checkpoint holds
    yet: kind and bytes.
    """

    defaults: Defaults
    cache: Cache
    tree: bytes
    modes: bytes
    objects: Objects
    records: Mapping[bytes, DirectoryRecord]
    gone: frozenset[bytes] = frozenset()
    missed: dict[bytes, Missed]
    files: int
    read: int = 0  # how many of them had to be read
    # What was seen of files that were too young to be remembered, by this scan and by earlier ones.
    observed: Mapping[bytes, Stat] = field(default_factory=dict)
    observed_before: Mapping[bytes, Stat] = field(default_factory=dict)
    entered: Container[bytes] = ()
    is_wanted: Callable[[bytes], bool] = lambda _: False
    noticed: object = None  # for the watcher, when the cache has taken this over
    is_adopted: bool = False  # whether what is remembered is what git's index says, and no checkpoint's
    secrets: Secrets | None = None  # those that were sealed; None where secrets are not looked at

    # -- the records ------------------------------------------------------------------------------------

    def record(self, directory: bytes) -> DirectoryRecord | None:
        """Returns what was seen of a directory."""
        found = self.records.get(directory)
        return found if found is not None or directory in self.gone else self.cache.get(directory)

    def packed(self) -> Iterator[tuple[bytes, bytes]]:
        """Yields every directory that is not what the cache remembers, with its record as it is written."""
        for path, record in self.records.items():
            yield path, record.encode()

    def tree_of(self, directory: bytes) -> bytes | None:
        """Returns the tree of a directory as it was seen, None if it was not."""
        seen = self.records.get(directory) or self.cache.head_of(directory)
        return seen.tree if seen is not None else None

    def entry(self, path: bytes) -> tuple[Stat, bytes] | None:
        """Returns the stat fields and object id of a captured file or link."""
        record = self.record(parent_of(path))
        at = record.find(path.rpartition(b"/")[2]) if record else -1
        if record is None or at < 0:
            return None
        found = self.observed.get(path) or record.stat_at(at)
        return self.observed_before.get(path, found) if found.is_unproven else found, record.oid_at(at)

    def memory_of(self, path: bytes) -> tuple[Stat | None, Stat | None]:
        """Returns the stat fields that a captured file had, and again where they prove it unchanged: it was not too young for that."""
        found = self.entry(path)
        if found is None:
            return None, None
        is_proven = path not in self.observed and path not in self.observed_before and not found[0].is_unproven
        return found[0], found[0] if is_proven else None

    def captured(self) -> Iterator[tuple[bytes, int, bytes]]:
        """Yields path, git mode and object id of every captured file and link, in no promised order."""
        for directory in {*self.cache.paths(), *self.records} - self.gone:
            record = self.record(directory)
            above = directory + b"/" if directory else b""
            for name, mode, oid in entries(record) if record is not None else ():
                yield above + name, mode, oid

    def paths(self) -> list[bytes]:
        """Returns the path of every captured file and link, sorted."""
        found: list[bytes] = []
        for directory in {*self.cache.paths(), *self.records} - self.gone:
            record, packed = self.records.get(directory), self.cache.packed
            names = record.names if record is not None else lists_in(packed(directory), head_in(packed(directory)))[0]
            found += [directory + b"/" + name for name in names] if directory else names
        found.sort()
        return found

    def changes(self) -> Iterator[tuple[bytes, Entry | None, Entry | None]]:
        """Yields path, before and after of every file and link that is not what the cache remembers, in no promised order."""
        for directory, record in self.records.items():
            yield from _changes(directory, self.cache.get(directory) or DirectoryRecord(), record)
        for directory in self.gone:
            yield from _changes(directory, self.cache.get(directory) or DirectoryRecord(), DirectoryRecord())

    # -- what is not captured ---------------------------------------------------------------------------

    @property
    def sealed(self) -> Sealed:
        """The secrets that were sealed, by path."""
        return self.secrets.files if self.secrets is not None else {}

    def not_captured(self) -> list[NotCaptured]:
        """Returns what is not in the trees, sorted by path."""
        return [NotCaptured(to_text(path) or ".", m.reason, m.detail) for path, m in sorted(self.missed.items())]

    @property
    def complete(self) -> bool:
        """Whether everything that should be captured was."""
        return not any(m.reason in INCOMPLETE for m in self.missed.values())

    def cover(self) -> Cover:
        """Returns the paths that are not captured, to ask what they stand over."""
        moving = [path for path, m in self.missed.items() if m.reason == MOVING]
        return Cover(self.missed.keys() - moving, moving, self._looked_for)

    def _looked_for(self, path: bytes) -> bool:
        """Whether a path would be captured if it were there, although a directory above it is not."""
        return self.is_wanted(path) and all(map(self._is_visited, [a for a in ancestors(path) if a in self.missed]))

    def _is_visited(self, directory: bytes) -> bool:
        return directory in self.entered or (directory in self.cache and directory not in self.gone)
