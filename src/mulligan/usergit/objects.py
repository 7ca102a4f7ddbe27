"""
The user's objects, loose and packed: what HEAD's tree holds.

Read only, never written, never locked, never trusted: an object that is missing, too large or malformed is None, and the
caller treats what hangs on it as unknown. Alternates are followed as data to a bounded depth. What is inflated is
bounded, chains of deltas are bounded in length and in bytes, and a meter ends reading that gets too much.

LIMIT: pack index version 1, which git stopped writing in 2007, is not read.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import NamedTuple

from mulligan.gitformat.pack import FileBytes, Limits, Pack, PackIndex
from mulligan.gitformat.record import DamagedRecord, inflate
from mulligan.model.objects import EMPTY_TREE, MODE_DIR, TreeEntry
from mulligan.safefs.directory import Directory
from mulligan.usergit.files import names_in, open_directory, read_file, read_open, status
from mulligan.usergit.index import GITLINK, CacheTree

OBJECT_LIMIT = 32 << 20
LOOKUP_PRICE = 1024
# Small pack indexes are held in memory, large ones are read where needed.
_IN_MEMORY = 4 << 20
_LIMITS = Limits(blob=OBJECT_LIMIT, other=OBJECT_LIMIT, delta=OBJECT_LIMIT, chain=4 * OBJECT_LIMIT)


class Meter:
    """How much work reading may still be, in bytes inflated; look-ups have a price too."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, amount: int) -> None:
        """Takes from what is left; raises DamagedRecord when nothing is."""
        self.left -= amount
        if self.left < 0:
            raise DamagedRecord("reading it takes too much work")


class UserPack:
    """An open pack of the user's; `close` releases its descriptors."""

    def __init__(self, directory: Directory, stem: bytes, meter: Meter) -> None:
        """Opens the index; raises OSError or Damaged."""
        self._directory, self._meter, self._files = directory, meter, ExitStack()
        fd = self._files.enter_context(directory.reading(stem + b".idx"))
        try:
            data = read_open(fd, _IN_MEMORY) if os.fstat(fd).st_size <= _IN_MEMORY else None
            self._pack = Pack(stem, PackIndex(data or FileBytes(fd)), 0, limits=_LIMITS, spend=meter.spend)
        except BaseException:
            self._files.close()
            raise
        if data:
            self._files.close()

    def close(self) -> None:
        """Closes what is open. Idempotent."""
        self._files.close()
        self._pack.close()

    def offset_of(self, oid: bytes) -> int | None:
        """Returns where an object lies in the pack, None when it is not there; raises DamagedRecord."""
        self._meter.spend(LOOKUP_PRICE)
        position = self._pack.index.find(oid)
        return None if position < 0 else self._pack.index.offset(position)

    def between(self, low: bytes, high: bytes, most: int) -> list[bytes]:
        """Returns the first few ids from one to another, both included; raises DamagedRecord."""
        self._meter.spend(LOOKUP_PRICE)
        index = self._pack.index
        first = index.first_from(low)
        found = [index.oid(at) for at in range(first, min(first + most, index.count))]
        return [oid for oid in found if oid <= high]

    def read(self, offset: int) -> tuple[bytes, bytes]:
        """Returns kind and bytes of the object at an offset; raises DamagedRecord or OSError."""
        self._pack.open(self._directory)
        return self._pack.load_at(offset)


ALTERNATES_LIMIT = 1 << 16
STORES_LIMIT = 32
DEPTH_LIMIT = 5
PACKS_LIMIT = 256
# Inflated bytes, per set of open objects: a few seconds. Half a million files without a cache-tree need about a tenth.
WORK_LIMIT = 1 << 29

_HEX = frozenset(b"0123456789abcdef")


class UserObjects:
    """The objects that a repository can see; open while it is used, then closed."""

    def __init__(self, root: bytes, *, work: int = 0) -> None:
        self._root = root
        self._stores: list[Directory] | None = None
        self._packs: list[UserPack] | None = None
        self._open: list[Directory] = []
        self._meter, self._tries = Meter(work or WORK_LIMIT), STORES_LIMIT

    def __enter__(self) -> UserObjects:
        return self

    def __exit__(self, *_: object) -> None:
        for pack in self._packs or ():
            pack.close()
        for directory in self._open:
            directory.close()
        self._open, self._stores, self._packs = [], None, None

    def read(self, oid: bytes) -> tuple[bytes, bytes] | None:
        """Returns kind and bytes of an object; None when it cannot be had."""
        if len(oid) != 20 or self._meter.left < 0:
            return None
        return self._packed(oid) or self._loose(oid)

    def read_blob(self, oid: bytes) -> bytes:
        """Returns the bytes of a blob; raises LookupError when they cannot be had."""
        found = self.read(oid)
        if found is None or found[0] != b"blob":
            raise LookupError(oid)
        return found[1]

    def has(self, oid: bytes) -> bool:
        """Returns whether an object is there, without reading it."""
        if self._packs is None:
            self._packs = list(self._open_packs())
        for pack in self._packs:
            with suppress(OSError, DamagedRecord):  # a broken pack holds nothing; another may
                if pack.offset_of(oid) is not None:
                    return True
        name = oid.hex().encode("ascii")
        return any(status(directory, name[:2] + b"/" + name[2:]) is not None for directory in self._directories())

    def beginning_with(self, text: str, most: int = 64) -> set[bytes]:
        """Returns the first few objects whose ids begin with some hexadecimal digits (two at least)."""
        low, high = bytes.fromhex(text.ljust(40, "0")), bytes.fromhex(text.ljust(40, "f"))
        found: set[bytes] = set()
        if self._packs is None:
            self._packs = list(self._open_packs())
        for pack in self._packs:
            with suppress(OSError, DamagedRecord):  # a broken pack holds nothing
                found.update(pack.between(low, high, most))
        start = text[:2].encode("ascii")
        for store in self._directories():
            names = [start + name for name in names_in(store, start) if len(name) == 38]
            found |= {
                bytes.fromhex(name.decode())
                for name in names
                if _HEX.issuperset(name) and name.startswith(text.encode())
            }
        return found

    def is_partial(self) -> bool:
        """Returns whether objects may be missing on purpose, to be fetched when git needs them."""
        return any(name.endswith(b".promisor") for store in self._directories() for name in names_in(store, b"pack"))

    def read_commit_tree(self, oid: bytes) -> bytes | None:
        """Returns the tree of a commit."""
        found = self.read(oid)
        if found is None or found[0] != b"commit" or found[1][:5] != b"tree " or found[1][45:46] != b"\n":
            return None
        try:
            return bytes.fromhex(found[1][5:45].decode("ascii"))
        except ValueError:
            return None

    def read_tree(self, oid: bytes) -> list[TreeEntry] | None:
        """Returns the entries of a tree; the empty one git knows without having it."""
        found = self.read(oid) if oid != EMPTY_TREE else (b"tree", b"")
        return parse_tree(found[1]) if found is not None and found[0] == b"tree" else None

    def _loose(self, oid: bytes) -> tuple[bytes, bytes] | None:
        name = oid.hex().encode("ascii")
        path = name[:2] + b"/" + name[2:]
        for directory in self._directories():
            self._meter.left -= 4 * LOOKUP_PRICE
            data = read_file(directory, path, limit=OBJECT_LIMIT)
            if data is not None:
                found = _unwrap(data)
                self._meter.left -= len(data) + len(found[1] if found else b"")
                return found
        return None

    def _packed(self, oid: bytes) -> tuple[bytes, bytes] | None:
        if self._packs is None:
            self._packs = list(self._open_packs())
        for at, pack in enumerate(self._packs):
            # A pack that git has removed, or a broken one: another may hold the object too.
            with suppress(OSError, DamagedRecord):
                offset = pack.offset_of(oid)
                if offset is not None:
                    found = pack.read(offset)
                    self._packs.insert(0, self._packs.pop(at))  # the next one is probably there as well
                    return found
        return None

    def _open_packs(self) -> Iterator[UserPack]:
        room = PACKS_LIMIT
        for store in self._directories():
            for directory, stem in self._pack_names(store)[:room]:
                room -= 1
                # Gone or broken: it counts as not there.
                with suppress(OSError, DamagedRecord):
                    yield UserPack(directory, stem, self._meter)

    def _pack_names(self, store: Directory) -> list[tuple[Directory, bytes]]:
        try:
            directory = store.child(b"pack")
            self._open.append(directory)
            names = [name for name in directory.names() if name.endswith(b".idx")]
        except OSError:
            return []
        # LIMIT: of more packs than a few hundred only the largest are read.
        sizes = {name: _size(directory, name) for name in names}
        names.sort(key=lambda name: -sizes[name])
        return [(directory, name[:-4]) for name in names]

    def _directories(self) -> list[Directory]:
        if self._stores is None:
            self._stores = []
            self._follow(self._root, 0, set())
        return self._stores

    def _follow(self, path: bytes, depth: int, seen: set[tuple[int, int]]) -> None:
        self._tries -= 1
        if depth > DEPTH_LIMIT or self._stores is None or self._tries < 0:
            return
        directory = open_directory(path)
        if directory is None:
            return
        self._open.append(directory)
        found = os.fstat(directory.fd)
        if (found.st_dev, found.st_ino) in seen:
            return
        seen.add((found.st_dev, found.st_ino))
        self._stores.append(directory)
        for line in (read_file(directory, b"info/alternates", limit=ALTERNATES_LIMIT) or b"").split(b"\n"):
            if line and not line.startswith((b"#", b'"')):
                self._follow(os.path.join(path, line), depth + 1, seen)


def _size(directory: Directory, name: bytes) -> int:
    try:
        return directory.stat(name).st_size
    except OSError:
        return 0


def _unwrap(data: bytes) -> tuple[bytes, bytes] | None:
    try:
        whole = inflate(data, OBJECT_LIMIT)
    except DamagedRecord:
        return None
    head, nul, body = whole.partition(b"\0")
    kind, _, size = head[:32].partition(b" ")
    return (kind, body) if nul and size.isdigit() and len(size) < 20 and int(size) == len(body) else None


def parse_tree(data: bytes) -> list[TreeEntry] | None:
    """Returns the entries of a tree, None when the bytes are not one."""
    entries: list[TreeEntry] = []
    at, end = 0, len(data)
    while at < end:
        space, nul = data.find(b" ", at, at + 8), data.find(b"\0", at)
        mode, name = data[at:space], data[space + 1 : nul]
        if space < 0 or nul < space or nul + 21 > end or not mode.isdigit() or b"8" in mode or b"9" in mode:
            return None
        if not name or b"/" in name:
            return None
        entries.append(TreeEntry(name, canonical(int(mode, 8)), data[nul + 1 : nul + 21]))
        at = nul + 21
    return entries


def canonical(mode: int) -> int:
    """Returns the mode git makes of one it finds in a tree."""
    if stat.S_ISREG(mode):
        return 0o100755 if mode & 0o100 else 0o100644
    if stat.S_ISLNK(mode):
        return 0o120000
    return 0o040000 if stat.S_ISDIR(mode) else GITLINK


# More names than real projects have, fewer than a tree bomb.
BUDGET = 1_000_000
_LONGEST = 4096


class Committed(NamedTuple):
    """
    The files that a commit's trees hold, as far as they were read.

    `covered` are directories (each ends in `/`, the root is empty) that were not read, because an index is known to hold them
    just as the commit does; `unread` are those of them that could not be read.
    """

    files: dict[bytes, TreeEntry]
    covered: set[bytes]
    unread: list[bytes]

    def others(self, paths: list[bytes]) -> Iterator[bytes]:
        """Yields those of some sorted paths that lie in no directory that is covered."""
        at = 0
        for directory in sorted(self.covered):
            yield from paths[at : bisect_left(paths, directory)]
            at = bisect_left(paths, directory[:-1] + b"0") if directory else len(paths)
        yield from paths[at:]


def read_committed(
    objects: UserObjects, tree: bytes, known: CacheTree | None, *, top: bytes = b"", below: bytes = b""
) -> Committed:
    """Reads the trees of a commit, but for those that an index is `known` to hold, and those that do not lie `below` a directory."""
    found, left = Committed({}, set(), []), BUDGET
    pending: list[tuple[bytes, bytes, CacheTree | None]] = [(top, tree, known)]
    while pending:
        directory, oid, node = pending.pop()
        if not directory.startswith(below) and not below.startswith(directory):
            continue
        if node is not None and node.oid == oid:
            found.covered.add(directory)
            continue
        entries = objects.read_tree(oid)
        left -= 1 + len(entries or ())
        if left < 0:
            return Committed({}, {top}, [directory])
        if entries is None or len(directory) > _LONGEST:
            found.covered.add(directory)
            found.unread.append(directory)
            continue
        for entry in entries:
            path = directory + entry.name
            if entry.mode == MODE_DIR:
                pending.append((path + b"/", entry.oid, node.children.get(entry.name) if node is not None else None))
            elif path.startswith(below):
                found.files[path] = entry
    return found
