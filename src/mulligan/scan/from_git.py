"""
A first checkpoint that begins with what git knows.

Where the workspace is a git repository, its index holds name, stat fields and object id of every tracked file, and its
packs hold the objects. From the index records are made as if an earlier scan had remembered them, and the objects are copied
(`usergit.records`). Then the walk is the same as always: what is remembered is compared with the disk, name by name, and whatever
differs, or is not proven, is decided and read. So no rule has a second spelling here: a file is taken over because its stat
fields are, now, those that git noted when it read it (`usergit.trust` says when that may be believed), and every directory is
listed for names that git does not know.

A record says too little rather than too much. An entry proves itself only if git noted it well before it wrote the
index, if its object was copied, and if nothing about it could be a secret: its name is that of source code or of a document, or
its first bytes were looked at. A directory is trusted only if it holds exactly what the index says and each name is in scope.

The index does not say all stat fields: permission bits and the upper half of an inode are guessed from a few files. A wrong
guess costs time and nothing else, since every file is looked at. Before an object is copied, the files whose names do not
say that they are no secrets are looked at: nothing of a secret gets into the store.

LIMIT: a private key in a file that is named like source code, which git tracked at the first look and does not any more, stays
in the plain until the file changes.
"""

from __future__ import annotations

import os
import stat
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mulligan.model.objects import MODE_EXEC, MODE_FILE
from mulligan.model.paths import join, parent_of
from mulligan.safefs.clock import booted_at
from mulligan.safefs.directory import Directory, depth_first, descending
from mulligan.scan.cache import STAT, Cache, DirectoryRecord, can_be_remembered, modes_in, unproven, without_proof
from mulligan.scan.ignore import IgnoreRules
from mulligan.scan.read import UnreadableFile, capture, fields, ignores_in
from mulligan.scan.scope import CAPTURE, IGNORE_FILE, RECORDS, TRACKED, Scope
from mulligan.scan.secrets import is_plain_name, is_plain_place, secret_content, secret_name
from mulligan.scan.trees import Defaults, HashOnly, Objects, seal
from mulligan.usergit.index import ENTRIES_LIMIT, CacheTree, Index
from mulligan.usergit.records import ANY_SIZE, Taker, take_records
from mulligan.usergit.repository import Repository
from mulligan.usergit.trust import ATTRIBUTES, attributes_in, believable_index, may_rewrite

# Fewer files are read in the time that this takes.
LEAST = 500
_ENTRY_LEAST = 64  # bytes of an entry in the index
# How many files are read to see whether git is right about them: of so many one, but no fewer and no more than these. And how long they may be.
_TRIED_OF, _TRIED_LEAST, _TRIED_MOST = 50, 40, 200
_LONGEST_TRIED = 1 << 20
_JOURNALS = (b"-wal", b"-shm", b"-journal")
# Rules, and what decisions by them depend on.
Ruled = tuple[IgnoreRules, bytes]
_ENTRY = struct.Struct(">10I20sH")
_SECOND = 1_000_000_000
# An entry that changed so shortly before the index was written may have changed again in the same tick of the clock.
MARGIN = 40_000_000
# What changed so shortly before the machine was started may have lost its bytes and kept its times, if that was after a power cut.
UNWRITTEN = 3_600_000_000_000
_SAMPLE = 64
_LOW = 0xFFFFFFFF
# A file that is nothing but a token is seldom longer, and so it is looked at, whatever its name.
_TINY = 256
# Of all directories together: a name of 60 KB can be 30,000 of them, whose paths are a gigabyte.
_PATHS_LIMIT = 64 << 20
_SNIFFED = 4096


class Ground(NamedTuple):
    """What a first look stands on."""

    root: Directory
    repo: Repository
    scope: Scope
    defaults: Defaults
    started: int
    homes: tuple[str, str]  # the user's own, and that of git's configuration


class Adopted(NamedTuple):
    """What is remembered by git's word, and the trees of it, which nothing holds yet."""

    cache: Cache
    objects: Objects


def adopt(ground: Ground, taker: Taker) -> Adopted | None:
    """Returns a memory made from git's index, its objects given to the taker; None where everything is to be read."""
    found = ground.repo.index_key()
    if found is None or found[1] < LEAST * _ENTRY_LEAST:
        return None
    boot = booted_at(ground.started)
    try:
        index = believable_index(ground.repo, *ground.homes)
        if index is None or len(index[0].heads) < LEAST:
            return None
        expected = Expected(ground.root, ground.repo.prefix, ground.scope, *index, boot)
        making = _Making(ground, expected)
        making.run()
        changed = making.doubt(take(ground.root, ground.repo, ground.scope, taker, expected))
        making.try_some(changed)
    except NotAdopted:
        return None
    cache = Cache()
    cache.suppose((path, record.encode()) for path, record in (making.records | changed).items())
    return Adopted(cache, making.objects)


class _Making:
    """Makes a record of each directory that the index knows, and their trees."""

    def __init__(self, ground: Ground, expected: Expected) -> None:
        self._root, self._scope, self._started = ground.root, ground.scope, ground.started
        self._defaults, self._expected = ground.defaults, expected
        self._device = os.fstat(ground.root.fd).st_dev
        self.records: dict[bytes, DirectoryRecord] = {}
        self._rules: dict[bytes, Ruled] = {}
        self.objects: Objects = {}

    def run(self) -> None:
        """Lists every directory and makes its record."""
        order = sorted(self._expected.folders, key=depth_first)
        for path, fd in zip(order, descending(self._root, order), strict=True):
            self.records[path] = self._record(path, fd, self._expected.folders[path])
        for path in reversed(order):
            record = self.records[path]
            children = [(name, self.records[join(path, name)]) for name in record.dirs]
            seal(record, modes_in(record.stats), children, self._defaults, self.objects)

    def doubt(self, doubts: Doubts) -> dict[bytes, DirectoryRecord]:
        """Returns the records in which something proves nothing after all, as they are then."""
        places: dict[bytes, set[int]] = {}
        folders, refused = self._expected.folders, doubts.oids | self._expected.torn
        for path, at in doubts.files:
            places.setdefault(path, set()).add(at)
        for path, folder in folders.items() if refused else ():
            if not refused.isdisjoint(folder.oids):
                places.setdefault(path, set()).update(at for at, oid in enumerate(folder.oids) if oid in refused)
        return {path: without_proof(self.records[path], found) for path, found in places.items()}

    def try_some(self, changed: dict[bytes, DirectoryRecord]) -> None:
        """Reads a few files after all: where git is wrong about one of them, it is believed in nothing."""
        records = [(path, changed.get(path, record)) for path, record in self.records.items() if record.names]
        count = sum(len(record.names) for _, record in records)
        for _ in range(min(_TRIED_MOST, max(_TRIED_LEAST, count // _TRIED_OF))):
            path, record = records[_any_of(len(records))]
            if self._is_wrong(path, record, _any_of(len(record.names))):
                raise NotAdopted

    def _is_wrong(self, path: bytes, record: DirectoryRecord, at: int) -> bool:
        """Reads a file, and returns whether it is not what git says although its stat fields are."""
        try:
            with self._root.descend(path) as directory:
                st = directory.stat(record.names[at])
                if record.stat_at(at) != fields(st) or st.st_size > _LONGEST_TRIED:
                    return False
                found, seen = capture(directory, record.names[at], st, HashOnly(), check_secrets=False)
                return seen == fields(st) and found != record.oid_at(at)
        except (OSError, UnreadableFile):
            return False  # it came or went: the walk will see

    def _record(self, path: bytes, fd: int, folder: IndexFolder) -> DirectoryRecord:
        record = DirectoryRecord()
        record.names, record.dirs, record.oids = folder.names, sorted(folder.dirs), b"".join(folder.oids)
        record.trusted = False
        rules = self._rules.get(parent_of(path)) if path else self._ruled(self._scope.rules)
        st = os.fstat(fd) if fd >= 0 else None
        if st is None or rules is None or st.st_dev != self._device:
            record.stats = b"".join([unproven(mode) for mode in modes_in(b"".join(folder.stats))])
            return record
        record.perm = st.st_mode & 0o7777
        names = self._names(fd)
        record.has_ignores = IGNORE_FILE in names
        if record.has_ignores:
            rules = self._ruled(rules[0].enter(path, ignores_in(Directory(fd))[0]))
        record.key, self._rules[path] = rules[1], rules
        self._look_for_attributes(fd, names, record)
        record.trusted = names == {*record.names, *record.dirs}
        is_clear, record.leans = decided(self._scope, path, rules[0], record.names, record.dirs)
        record.trusted = record.trusted and is_clear
        record.stats = b"".join(folder.stats)
        if record.trusted and can_be_remembered(st.st_mtime_ns, st.st_ctime_ns, self._started):
            record.stat = (st.st_ino, st.st_mtime_ns, st.st_ctime_ns)
        return record

    def _names(self, fd: int) -> set[bytes]:
        try:
            return set(Directory(fd).names())
        except OSError:
            return set()  # the walk says why

    def _ruled(self, rules: IgnoreRules) -> Ruled:
        return rules, self._scope.key(rules, only_tracked=False)

    def _look_for_attributes(self, fd: int, names: set[bytes], record: DirectoryRecord) -> None:
        """Raises Declined where attributes in a directory may turn bytes into others; gone from the disk, they are in force all the same."""
        at = record.find(ATTRIBUTES)
        tracked = record.oid_at(at) if at >= 0 else b""
        if may_rewrite(attributes_in(Directory(fd)), tracked) if ATTRIBUTES in names else tracked:
            raise NotAdopted


def decided(
    scope: Scope, path: bytes, rules: IgnoreRules, names: Iterable[bytes], dirs: Iterable[bytes]
) -> tuple[bool, bool]:
    """Decides over names in a directory; returns whether all are in scope, and whether some only because git tracks them."""
    is_clear, leans, decide, above = True, False, scope.decide, path + b"/" if path else b""
    for some, is_dir in ((names, False), (dirs, True)):
        for name in some:
            decision = decide(above + name, name, rules, is_dir=is_dir)
            if decision is not CAPTURE:
                leans |= decision is TRACKED
                is_clear = is_clear and not decision[0]
            # A database that has its journal beside it is for the walk, too.
            if not is_dir and name.endswith(_JOURNALS):
                is_clear = False
    return is_clear, leans


def _any_of(count: int) -> int:
    """Returns a number below `count` that cannot be foretold."""
    return int.from_bytes(os.urandom(4), "little") % count


# -- what the index says ---------------------------------------------------------------------------------


class NotAdopted(Exception):
    """Git is not to be believed here, or it is not worth it."""


class IndexFolder:
    """What the index says of a directory: names with the stat fields to be expected and ids, and which of them are to be looked at."""

    __slots__ = ("dirs", "is_plain", "names", "oids", "stats", "unclear")

    def __init__(self, path: bytes = b"") -> None:
        self.is_plain = is_plain_place(path)
        self.names: list[bytes] = []
        self.stats: list[bytes] = []
        self.oids: list[bytes] = []
        self.unclear: list[int] = []
        self.dirs: list[bytes] = []

    def add(self, name: bytes, proof: bytes, oid: bytes) -> None:
        """Adds a name that is to be looked at."""
        self.unclear.append(len(self.names))
        self.names.append(name)
        self.stats.append(proof)
        self.oids.append(oid)


class Expected:
    """The index by directories, and the objects, with their sizes, of files that are captured and no secrets by any rule."""

    def __init__(self, root: Directory, prefix: bytes, scope: Scope, index: Index, written: int, boot: int = 0) -> None:
        self.folders, self._letters = {b"": IndexFolder()}, 0
        self.wanted: dict[bytes, int] = {}
        above = prefix + b"/" if prefix else b""
        paths = index.below(above) if prefix else list(index.heads)
        joined = b"".join([index.heads[path] for path in paths] if prefix else index.heads.values())
        if len(joined) != _ENTRY.size * len(paths) or not paths or _are_odd(paths):
            raise NotAdopted
        size = _ENTRY.size
        self._modes, self._upper = guess(
            root, len(paths), lambda at: (paths[at][len(above) :], joined[at * size : at * size + size])
        )
        self._unsure = (boot - UNWRITTEN, boot)
        self._sort(paths, joined, len(above), scope, written - MARGIN)
        if any(above + path in index.heads for path in self.folders if path):
            raise NotAdopted  # a file and a directory of one name
        self._want_trees(index.cache_tree, above)

    def _sort(self, paths: list[bytes], joined: bytes, skip: int, scope: Scope, latest: int) -> None:
        # Spelled out: this is done for every file that git tracks.
        folders, wanted, pack, modes, upper = self.folders, self.wanted, STAT.pack, self._modes, self._upper
        torn, largest, (since, boot) = set[bytes](), scope.max_file_size, self._unsure
        records = bisect_left(paths, paths[0][:skip] + RECORDS + b"/")
        has_records = records < len(paths) and paths[records][skip:].startswith(RECORDS + b"/")
        leaves_out = scope.leaves_out if scope.has_excludes or has_records else None
        rows: Any = _ENTRY.iter_unpack(joined)
        for path, (ctime, cns, mtime, mns, _, ino, mode, _, _, size, oid, _) in zip(paths, rows, strict=True):
            above, _, name = (path[skip:] if skip else path).rpartition(b"/")
            folder = folders.get(above) or self._folder(above)
            changed, written, full = ctime * _SECOND + cns, mtime * _SECOND + mns, modes.get(mode)
            sure = changed < latest and written < latest and not since <= changed < boot
            if not (full and cns and sure and size <= largest):
                if full or stat.S_ISLNK(mode):  # else a submodule
                    folder.add(name, unproven(full or mode | 0o777), oid)
                continue
            proof = pack(upper | ino, full, size, written, changed)
            plain = folder.is_plain and size > _TINY and is_plain_name(name)
            if not plain or (leaves_out and leaves_out(path[skip:])):
                folder.add(name, proof, oid)
                continue
            folder.names.append(name)
            folder.stats.append(proof)
            folder.oids.append(oid)
            if wanted.setdefault(oid, size) != size:
                torn.add(oid)
        for oid in torn:
            del wanted[oid]  # two sizes for one object: one of them is a lie
        self.torn = torn

    def _folder(self, path: bytes) -> IndexFolder:
        """Returns a directory that is new, with those above it that are; raises Declined where there are too many."""
        found = self._new(path)
        while path:
            path, _, name = path.rpartition(b"/")
            above = self.folders.get(path)
            (above or self._new(path)).dirs.append(name)
            if above is not None:
                break
        return found

    def _new(self, path: bytes) -> IndexFolder:
        self._letters += len(path) + 1
        if self._letters > _PATHS_LIMIT or len(self.folders) > ENTRIES_LIMIT:
            raise NotAdopted
        found = self.folders[path] = IndexFolder(path)
        return found

    def _want_trees(self, tree: CacheTree | None, prefix: bytes) -> None:
        """Asks for the trees that git made of the index: they are probably those that this look will make."""
        for name in prefix.split(b"/")[:-1]:
            tree = tree.children.get(name) if tree is not None else None
        nodes = [tree] if tree is not None else []
        while nodes:
            node = nodes.pop()
            if node.oid is not None:
                self.wanted.setdefault(node.oid, ANY_SIZE)
            nodes += node.children.values()


def guess(root: Directory, count: int, entry: Callable[[int], tuple[bytes, bytes]]) -> tuple[dict[int, int], int]:
    """
    Looks at a few files, for what the index does not say of any; returns all of the mode, by the index's, and the upper half of the inode.

    `entry` tells path and head of one of so many; raises Declined where they are not the files that the index means.
    """
    modes, upper, same, seen = {MODE_FILE: Counter[int](), MODE_EXEC: Counter[int]()}, Counter[int](), 0, 0
    for at in range(0, count, max(1, count // _SAMPLE)):
        path, head = entry(at)
        try:
            st = os.stat(path, dir_fd=root.fd, follow_symlinks=False)
        except OSError:
            continue  # gone: the walk will see
        row = _ENTRY.unpack(head)
        seen += 1
        if row[6] in modes and stat.S_ISREG(st.st_mode):
            modes[row[6]][st.st_mode] += 1
            upper[st.st_ino & ~_LOW] += 1
            same += (st.st_ino & _LOW, st.st_ctime_ns) == (row[5], row[0] * _SECOND + row[1])
    if same * 2 < seen or not same:
        raise NotAdopted  # an index of other files: nothing would be proven
    usual = {mode: next(iter(count.most_common(1)), (mode, 0))[0] for mode, count in modes.items()}
    return usual, upper.most_common(1)[0][0]


def _are_odd(paths: list[bytes]) -> bool:
    """Returns whether paths are not in order, or some of them are none: what git never writes, and records cannot hold."""
    joined = b"/\0/%b/\0/" % b"/\0/".join(paths)
    return b"//" in joined or b"/./" in joined or paths != sorted(paths)


# -- the objects -----------------------------------------------------------------------------------------


class Doubts(NamedTuple):
    """What proves nothing: objects that were not copied, and files by their directory and place in it."""

    oids: frozenset[bytes]
    files: list[tuple[bytes, int]]


def take(root: Directory, repo: Repository, scope: Scope, taker: Taker, expected: Expected) -> Doubts:
    """Copies the objects that are expected to be needed; returns what is not copied, or not to be believed."""
    wanted, files = _judge(root, scope, expected)
    try:
        directory = repo.common.descend(b"objects/pack")
    except OSError:
        raise NotAdopted from None
    with directory:
        taken = take_records(directory, wanted, taker)
    return Doubts(frozenset(wanted.keys() - taken), files)


def _judge(root: Directory, scope: Scope, expected: Expected) -> tuple[dict[bytes, int], list[tuple[bytes, int]]]:
    """Looks at the files whose names do not rule out a secret; returns the objects to be copied, and the files that prove nothing."""
    wanted, doubts = dict(expected.wanted), []
    order = sorted([path for path, folder in expected.folders.items() if folder.unclear], key=depth_first)
    for path, fd in zip(order, descending(root, order), strict=True):
        folder = expected.folders[path]
        for at in folder.unclear:
            proof, oid = STAT.unpack(folder.stats[at]), folder.oids[at]
            harmless = fd >= 0 and _is_harmless(scope, join(path, folder.names[at]), fd, proof)
            if not harmless or wanted.setdefault(oid, proof[2]) != proof[2]:
                doubts.append((path, at))
    return wanted, doubts


def _is_harmless(scope: Scope, path: bytes, fd: int, expected: tuple[int, ...]) -> bool:
    """Looks at a file's name and how it begins, and returns whether it is the file that was expected and no secret."""
    wanted = scope.included(path)
    if expected[2] < 0 or scope.leaves_out(path) or (secret_name(path) and not wanted):
        return False
    try:
        with Directory(fd).reading(path.rpartition(b"/")[2]) as opened:
            same = fields(os.fstat(opened)) == expected
            return same and (wanted or not secret_content(os.pread(opened, _SNIFFED, 0)))
    except OSError:
        return False  # gone, or not to be read: the walk says which
