"""
A first look that begins with what git knows.

Where the workspace is a git repository, its index holds name, stat fields and object id of every tracked file, and its
packs hold the objects. From the index records are made as if an earlier scan had remembered them, and the objects are copied
(`git.records`). Then the workspace is looked at as ever: what is remembered is
compared with the disk, name by name, and whatever differs, or is not proven, is decided and read by the walk. So no rule
has a second spelling here: a file is taken over because its stat fields are, now, those that git noted when it read it
(`git.belief` says when that may be believed), and every directory is listed for names that git does not know.

A record says too little rather than too much. An entry proves itself only if git noted it well before it wrote the
index, if its object was copied, and if nothing about it could be a secret: its name is that of source code or of a document, or
its first bytes were looked at. A directory is trusted only if it holds exactly what the index says and each name is in scope.

LIMIT: a private key in a file that is named like source code, which git tracked at the first look and does not any more, stays
in the plain until the file changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mulligan.model.paths import join, parent_of
from mulligan.safefs.clock import booted_at
from mulligan.safefs.descent import depth_first, descending
from mulligan.safefs.directory import Directory
from mulligan.scan.cache import Cache
from mulligan.scan.expected import Declined, Expected, Folder
from mulligan.scan.git.belief import ATTRIBUTES, attributes_in, believable_index, may_rewrite
from mulligan.scan.git.repository import Repository
from mulligan.scan.ignore import Rules
from mulligan.scan.reading import HashOnly, Sink, Unreadable, capture, fields, ignores_in
from mulligan.scan.record import Record, can_be_remembered, modes_in, unproven, without_proof
from mulligan.scan.scope import CAPTURE, IGNORE_FILE, TRACKED, Scope
from mulligan.scan.secrets import is_plain_place
from mulligan.scan.taking import Doubts, take
from mulligan.scan.trees import Defaults, Objects, Sealed, seal

# Fewer files are read in the time that this takes.
LEAST = 500
_ENTRY_LEAST = 64  # bytes of an entry in the index
# How many files are read to see whether git is right about them: of so many one, but no fewer and no more than these. And how long they may be.
_TRIED_OF, _TRIED_LEAST, _TRIED_MOST = 50, 40, 200
_LONGEST_TRIED = 1 << 20
_IGNORES, _ATTRIBUTES = os.fsdecode(IGNORE_FILE), os.fsdecode(ATTRIBUTES)
_JOURNALS = (b"-wal", b"-shm", b"-journal")
# Rules, and what decisions by them depend on.
Ruled = tuple[Rules, bytes]


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


def adopt(ground: Ground, sink: Sink) -> Adopted | None:
    """Returns a memory made from git's index, its objects given to the sink; None where everything is to be read."""
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
        changed = making.doubt(take(ground.root, ground.repo, ground.scope, sink, expected))
        making.try_some(changed)
    except Declined:
        return None
    cache = Cache()
    cache.suppose(making.packed())
    cache.suppose((path, record.encode()) for path, record in changed.items())
    return Adopted(cache, making.objects)


class _Making:
    """Makes a record of each directory that the index knows, and their trees."""

    def __init__(self, ground: Ground, expected: Expected) -> None:
        self._root, self._scope, self._started = ground.root, ground.scope, ground.started
        self._defaults, self._expected = ground.defaults, expected
        self._device = os.fstat(ground.root.fd).st_dev
        self._records: dict[bytes, Record] = {}
        self._rules: dict[bytes, Ruled] = {}
        # Without patterns of the user's own and ignore rules, a plain name is in scope.
        self._is_simple, self._of_tracked = ground.scope.is_simple, ground.scope.of_tracked()
        self.objects: Objects = {}

    def run(self) -> None:
        """Lists every directory and makes its record."""
        order = sorted(self._expected.folders, key=depth_first)
        for path, fd in zip(order, descending(self._root.fd, order), strict=True):
            self._records[path] = self._record(path, fd, self._expected.folders[path])
        for path in reversed(order):
            self._seal(path, self._records[path])

    def packed(self) -> Iterator[tuple[bytes, bytes]]:
        """Yields the records as they are remembered."""
        for path, record in self._records.items():
            yield path, record.encode()

    def doubt(self, doubts: Doubts) -> dict[bytes, Record]:
        """Returns the records in which something proves nothing after all, as they are then."""
        names: dict[bytes, set[bytes]] = {}
        folders, refused = self._expected.folders, doubts.oids | self._expected.torn
        for path, at in doubts.files:
            names.setdefault(path, set()).add(folders[path].names[at])
        for path, folder in folders.items() if refused else ():
            if not refused.isdisjoint(folder.oids):
                found = [name for name, oid in zip(folder.names, folder.oids, strict=True) if oid in refused]
                names.setdefault(path, set()).update(found)
        return {path: without_proof(self._records[path], found) for path, found in names.items()}

    def try_some(self, changed: dict[bytes, Record]) -> None:
        """Reads a few files after all: where git is wrong about one of them, it is believed in nothing."""
        records = [(path, changed.get(path, record)) for path, record in self._records.items() if record.names]
        count = sum(len(record.names) for _, record in records)
        for _ in range(min(_TRIED_MOST, max(_TRIED_LEAST, count // _TRIED_OF))):
            path, record = records[_any_of(len(records))]
            if self._is_wrong(path, record, _any_of(len(record.names))):
                raise Declined

    def _is_wrong(self, path: bytes, record: Record, at: int) -> bool:
        """Reads a file, and returns whether it is not what git says although its stat fields are."""
        try:
            with self._root.descend(path) as directory:
                st = directory.stat(record.names[at])
                if record.stat_at(at) != fields(st) or st.st_size > _LONGEST_TRIED:
                    return False
                found, seen = capture(directory, record.names[at], st, HashOnly(), check_secrets=False)
                return seen == fields(st) and found != record.oid_at(at)
        except (OSError, Unreadable):
            return False  # it came or went: the walk will see

    def _record(self, path: bytes, fd: int, folder: Folder) -> Record:
        record = Record()
        record.names, record.dirs, record.oids = folder.names, sorted(folder.dirs), b"".join(folder.oids)
        record.trusted = False
        rules = self._rules.get(parent_of(path)) if path else base_rules(self._scope)
        st = os.fstat(fd) if fd >= 0 else None
        if st is None or rules is None or st.st_dev != self._device:
            record.stats = b"".join([unproven(mode) for mode in modes_in(b"".join(folder.stats))])
            return record
        record.perm = st.st_mode & 0o7777
        names = self._names(fd)
        record.has_ignores = _IGNORES in names
        if record.has_ignores:
            rules = entered(self._scope, path, Directory(fd), rules)
        record.key, self._rules[path] = rules[1], rules
        self._look_for_attributes(fd, names, record)
        # One text for all, since what the system says comes as text.
        record.trusted = names == set(os.fsdecode(b"/".join((*record.names, *record.dirs))).split("/"))
        self._decide(path, record, rules[0], folder)
        record.stats = b"".join(folder.stats)
        if record.trusted and can_be_remembered(st.st_mtime_ns, st.st_ctime_ns, self._started):
            record.stat = (st.st_ino, st.st_mtime_ns, st.st_ctime_ns)
        return record

    def _names(self, fd: int) -> set[str]:
        try:
            return set(Directory(fd).texts())
        except OSError:
            return set()  # the walk says why

    def _look_for_attributes(self, fd: int, names: set[str], record: Record) -> None:
        at = record.find(ATTRIBUTES)
        tracked = record.oid_at(at) if at >= 0 else b""
        check_attributes(Directory(fd) if _ATTRIBUTES in names else None, tracked)

    def _decide(self, path: bytes, record: Record, rules: Rules, folder: Folder) -> None:
        """Decides over each name that rules could mean, or that is not simply captured, and says so in the record."""
        names, dirs = folder.names, record.dirs
        if self._is_simple and is_plain_place(path):
            names = [names[at] for at in folder.unclear]
            dirs = [name for name in dirs if not self._scope.is_plain_directory(name)]
            if not rules.are_empty:
                of_files, of_dirs = rules.hints()
                names = [*{*names, *of_files.meant(path, folder.names)}]
                dirs = [*{*dirs, *of_dirs.meant(path, record.dirs)}]
        is_clear, leans = decided(self._of_tracked, path, rules, names, dirs)
        record.trusted, record.leans = record.trusted and is_clear, leans

    def _seal(self, path: bytes, record: Record) -> None:
        modes = modes_in(record.stats)
        children = [(name, self._records[join(path, name)]) for name in record.dirs]
        seal(Sealed(record, modes, children), self._defaults, self.objects)


def base_rules(scope: Scope) -> Ruled:
    """Returns the rules over the root."""
    return scope.rules, scope.key(scope.rules, only_tracked=False)


def entered(scope: Scope, path: bytes, directory: Directory, rules: Ruled) -> Ruled:
    """Returns the rules in a directory that has some of its own."""
    found = rules[0].enter(path, ignores_in(directory)[0])
    return found, scope.key(found, only_tracked=False)


def check_attributes(directory: Directory | None, tracked: bytes) -> None:
    """Raises Declined where attributes in a directory, None for one that has none, may turn bytes into others; `tracked` is git's."""
    # Gone from the disk, they are in force all the same.
    if tracked if directory is None else may_rewrite(attributes_in(directory), tracked):
        raise Declined


def decided(
    scope: Scope, path: bytes, rules: Rules, names: Iterable[bytes], dirs: Iterable[bytes]
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
