"""
A first look that begins with what git knows.

Where the workspace is a git repository, its index holds name, stat fields and object id of every tracked file, and its
packs hold the objects. From the index records are made as if an earlier scan had remembered them, and the objects are copied
(`git.records`), in a second process where there can be one. Then the workspace is looked at as ever: what is remembered is
compared with the disk, name by name, and whatever differs, or is not proven, is decided and read by the walk. So no rule
has a second spelling here: a file is taken over because its stat fields are, now, those that git noted when it read it
(`git.belief` says when that may be believed), and every directory is listed for names that git does not know.

A record says too little rather than too much. An entry proves itself only if git noted it well before it wrote the
index, if its object was copied, and if nothing about it could be a secret: its name is that of source code or of a document, or
its first bytes were looked at. A directory is trusted only if it holds exactly what the index says and each name is in scope.

LIMIT: a private key or a lone token in a file that is named like source code or a document is not looked for in what is taken
over; a file that is read is searched, whatever its name.
"""

from __future__ import annotations

import os
import stat
import struct
from collections import Counter
from collections.abc import Iterable

from mulligan.model.objects import MODE_EXEC, MODE_FILE
from mulligan.model.paths import join, parent_of
from mulligan.model.typed import Any, NamedTuple
from mulligan.safefs import seam
from mulligan.safefs.descent import descending
from mulligan.safefs.directory import READ_FLAGS, Directory
from mulligan.safefs.twin import Twin, can_twin
from mulligan.scan.cache import Cache
from mulligan.scan.git.belief import ATTRIBUTES, attributes_in, believable_index, may_rewrite
from mulligan.scan.git.cache_tree import CacheTree
from mulligan.scan.git.index import Index
from mulligan.scan.git.records import ANY_SIZE, take_records
from mulligan.scan.git.repository import Repository
from mulligan.scan.glance import depth_first
from mulligan.scan.ignore import Rules
from mulligan.scan.reading import HashOnly, Sink, Unreadable, capture, fields, ignores_in
from mulligan.scan.record import STAT, Record, can_be_remembered, mode_at, modes_in, unproven, without_proof
from mulligan.scan.result import Defaults
from mulligan.scan.scope import IGNORE_FILE, TRACKED, Scope
from mulligan.scan.secrets import is_plain_name, is_plain_place, secret_content
from mulligan.scan.trees import Objects, Sealed, seal

# Fewer files are read in the time that this takes.
LEAST = 64
_ENTRY = struct.Struct(">10I20sH")
_SECOND = 1_000_000_000
# An entry that changed so shortly before the index was written may have changed again in the same tick of the clock.
_MARGIN = 40_000_000
_SAMPLE = 64
_SNIFFED = 4096
# A file that is nothing but a token is seldom longer, and so it is looked at, whatever its name.
_TINY = 256
# How many files are read to see whether git is right about them, and how long they may be.
_TRIED = 200
_LONGEST_TRIED = 1 << 20
_LOW = 0xFFFFFFFF
_JOURNALS = (b"-wal", b"-shm", b"-journal")


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


class _Declined(Exception):
    """Git is not to be believed here, or it is not worth it."""


def adopt(ground: Ground, sink: Sink) -> Adopted | None:
    """Returns a memory made from git's index, its objects given to the sink; None where everything is to be read."""
    found = believable_index(ground.repo, *ground.homes)
    if found is None or len(found[0].heads) < LEAST:
        return None
    try:
        known = _Known(ground, *found)
        with _Taking(ground.repo, known.wanted, sink) as taking:
            making = _Making(ground, known)
            making.run()
            taken = taking.end(making.harmless)
        refused = (known.wanted.keys() | making.harmless.keys() | known.torn) - taken
        making.try_some(refused)
    except _Declined:
        return None
    cache = Cache()
    cache.suppose(making.packed(refused))
    return Adopted(cache, making.objects)


# -- what the index says --------------------------------------------------------------------------


class _Folder:
    """What the index says of a directory: names with the stat fields to be expected and ids, and which of them are to be looked at."""

    __slots__ = ("dirs", "has_large", "names", "oids", "stats", "unclear")

    def __init__(self) -> None:
        self.names: list[bytes] = []
        self.stats: list[bytes] = []
        self.oids: list[bytes] = []
        self.unclear: list[int] = []
        self.dirs: list[bytes] = []
        self.has_large = False  # whether something in it is larger than what is captured


class _Known:
    """The index by directories, and the objects, with their sizes, of files that are no secrets by any rule: those are wanted."""

    def __init__(self, ground: Ground, index: Index, written: int) -> None:
        self.folders = {b"": _Folder()}
        self.wanted: dict[bytes, int] = {}
        prefix = ground.repo.prefix + b"/" if ground.repo.prefix else b""
        paths = index.below(prefix) if prefix else list(index.heads)
        heads = [index.heads[path] for path in paths] if prefix else list(index.heads.values())
        joined = b"".join(heads)
        if len(joined) != _ENTRY.size * len(paths) or not paths:
            raise _Declined
        rows = list(_ENTRY.iter_unpack(joined))
        self._guess(ground.root, paths, rows, len(prefix))
        self._largest = ground.scope.max_file_size
        self._sort(paths, rows, len(prefix), written - _MARGIN)
        self._want_trees(index.cache_tree, prefix)

    def _guess(self, root: Directory, paths: list[bytes], rows: list[tuple[Any, ...]], skip: int) -> None:
        """Looks at a few files, for what the index does not say of any: all of the mode, and the upper half of the inode."""
        modes, upper, same, seen = {MODE_FILE: Counter[int](), MODE_EXEC: Counter[int]()}, Counter[int](), 0, 0
        step = max(1, len(paths) // _SAMPLE)
        for path, row in zip(paths[::step], rows[::step], strict=True):
            try:
                st = os.stat(path[skip:], dir_fd=root.fd, follow_symlinks=False)
            except OSError:
                continue  # gone: the walk will see
            seen += 1
            if row[6] in modes and stat.S_ISREG(st.st_mode):
                modes[row[6]][st.st_mode] += 1
                upper[st.st_ino & ~_LOW] += 1
                same += (st.st_ino & _LOW, st.st_ctime_ns) == (row[5], row[0] * _SECOND + row[1])
        if same * 2 < seen or not same:
            raise _Declined  # an index of other files: nothing would be proven
        self._modes = {mode: next(iter(count.most_common(1)), (mode, 0))[0] for mode, count in modes.items()}
        self._upper = upper.most_common(1)[0][0]

    def _sort(self, paths: list[bytes], rows: list[tuple[Any, ...]], skip: int, latest: int) -> None:
        folders, wanted, pack, modes, upper = self.folders, self.wanted, STAT.pack, self._modes, self._upper
        torn, largest = set[bytes](), self._largest
        for path, (ctime, cns, mtime, mns, _, ino, mode, _, _, size, oid, _) in zip(paths, rows, strict=True):
            above, _, name = (path[skip:] if skip else path).rpartition(b"/")
            folder = folders.get(above) or self._folder(above)
            changed, written, full = ctime * _SECOND + cns, mtime * _SECOND + mns, modes.get(mode)
            if full and cns and changed < latest and written < latest:
                proof = pack(upper | ino, full, size, written, changed)
            elif full or stat.S_ISLNK(mode):
                folder.unclear.append(len(folder.names))
                folder.names.append(name)
                folder.stats.append(unproven(full or mode | 0o777))
                folder.oids.append(oid)
                continue
            else:
                continue  # a submodule
            if size <= _TINY or size > largest or not is_plain_name(name):
                folder.unclear.append(len(folder.names))
                folder.has_large |= size > largest
            elif wanted.setdefault(oid, size) != size:
                torn.add(oid)
            folder.names.append(name)
            folder.stats.append(proof)
            folder.oids.append(oid)
        for oid in torn:
            del wanted[oid]  # two sizes for one object: one of them is a lie
        self.torn = torn

    def _folder(self, path: bytes) -> _Folder:
        found = self.folders[path] = _Folder()
        above, _, name = path.rpartition(b"/")
        (self.folders.get(above) or self._folder(above)).dirs.append(name)
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


# -- the objects ----------------------------------------------------------------------------------


class _Taking:
    """Copies objects from the user's packs, in a second process where that is safe; use it with `with`."""

    def __init__(self, repo: Repository, wanted: dict[bytes, int], sink: Sink) -> None:
        self._wanted, self._sink = wanted, sink
        self._done = False
        try:
            self._packs = repo.common.descend(b"objects/pack")
        except OSError:
            raise _Declined from None
        try:
            self._twin = Twin(1, self._part) if can_twin() else None
        except BaseException:
            self._packs.close()
            raise

    def __enter__(self) -> _Taking:
        return self

    def __exit__(self, *_: object) -> None:
        twin, self._twin = self._twin, None
        if twin is not None:
            process = twin.pid
            with twin:
                pass
            if not self._done:
                self._sink.drop_share(process)
        self._packs.close()

    def end(self, more: dict[bytes, int]) -> set[bytes]:
        """Copies some more, waits, and returns what was copied."""
        if self._twin is None:
            return take_records(self._packs, more | self._wanted, self._sink)
        from marshal import loads

        late = {oid: size for oid, size in more.items() if oid not in self._wanted}
        found = take_records(self._packs, late, self._sink) if late else set()
        answer = self._twin.answer()
        if answer is None:
            return found
        # The bytes come from a fork of this very process over a pipe that nobody else holds.
        share, refused = loads(answer)  # noqa: S302
        taken = self._wanted.keys() - {refused[at : at + 20] for at in range(0, len(refused), 20)}
        self._sink.take_over(share, taken)
        self._done = True
        return taken | found

    def _part(self, numbers: Iterable[int]) -> bytes:
        from marshal import dumps

        self._sink.part()
        taken: set[bytes] = set()
        for _ in numbers:
            taken = take_records(self._packs, self._wanted, self._sink)
        return dumps((self._sink.hand_over(), b"".join(self._wanted.keys() - taken)))


# -- the records ----------------------------------------------------------------------------------


class _Making:
    """Makes a record of each directory that the index knows, and their trees."""

    def __init__(self, ground: Ground, known: _Known) -> None:
        self._root, self._scope, self._started = ground.root, ground.scope, ground.started
        self._defaults, self._known = ground.defaults, known
        self._device = os.fstat(ground.root.fd).st_dev
        self._records: dict[bytes, Record] = {}
        self._rules: dict[bytes, tuple[Rules, bytes]] = {}
        # Without patterns of the user's own and ignore rules, a plain name is in scope.
        self._is_simple = ground.scope.is_simple
        self.objects: Objects = {}
        self.harmless: dict[bytes, int] = {}  # objects, with their sizes, of files that were looked at

    def run(self) -> None:
        """Lists every directory and makes its record."""
        order = sorted(self._known.folders, key=depth_first)
        for path, fd in zip(order, descending(self._root.fd, order), strict=True):
            self._records[path] = self._record(path, fd, self._known.folders[path])
        for path in reversed(order):
            self._seal(path, self._records[path])

    def try_some(self, refused: set[bytes]) -> None:
        """Reads a few files after all, nobody knows which: where git is wrong about one of them, it is believed in nothing."""
        folders = [(path, folder) for path, folder in self._known.folders.items() if folder.names]
        for _ in range(_TRIED):
            path, folder = folders[int.from_bytes(os.urandom(4), "little") % len(folders)]
            at = int.from_bytes(os.urandom(4), "little") % len(folder.names)
            try:
                with self._root.descend(path) as directory:
                    st = directory.stat(folder.names[at])
                    if STAT.unpack(folder.stats[at]) == fields(st) and st.st_size <= _LONGEST_TRIED:
                        found, seen = capture(directory, folder.names[at], st, HashOnly(), check_secrets=False)
                        if seen == fields(st) and found != folder.oids[at] and folder.oids[at] not in refused:
                            raise _Declined
            except (OSError, Unreadable):
                continue  # it came or went: the walk will see

    def packed(self, refused: set[bytes]) -> Iterable[tuple[bytes, bytes]]:
        """Yields the records as they are remembered; what was not copied is not proven."""
        for path, record in self._records.items():
            folder = self._known.folders[path]
            if refused and not refused.isdisjoint(folder.oids):
                names = [name for name, oid in zip(folder.names, folder.oids, strict=True) if oid in refused]
                yield path, without_proof(record, names).encode()
            else:
                yield path, record.encode()

    def _record(self, path: bytes, fd: int, folder: _Folder) -> Record:
        record = Record()
        record.names, record.dirs, record.oids = folder.names, sorted(folder.dirs), b"".join(folder.oids)
        record.trusted = False
        rules = self._rules.get(parent_of(path)) if path else self._base()
        st = os.fstat(fd) if fd >= 0 else None
        if st is None or rules is None or st.st_dev != self._device:
            record.stats = b"".join([unproven(mode) for mode in modes_in(b"".join(folder.stats))])
            return record
        record.perm = st.st_mode & 0o7777
        names = self._names(fd)
        record.has_ignores = IGNORE_FILE in names
        if record.has_ignores:
            rules = self._entered(path, Directory(fd), rules)
        record.key, self._rules[path] = rules[1], rules
        self._look_for_attributes(fd, names, record)
        record.trusted = names == {*record.names, *record.dirs}
        self._decide(path, fd, record, rules[0], folder)
        record.stats = b"".join(folder.stats)
        if record.trusted and can_be_remembered(st.st_mtime_ns, st.st_ctime_ns, self._started):
            record.stat = (st.st_ino, st.st_mtime_ns, st.st_ctime_ns)
        return record

    def _names(self, fd: int) -> set[bytes]:
        try:
            return set(Directory(fd).names())
        except OSError:
            return set()  # the walk says why

    def _base(self) -> tuple[Rules, bytes]:
        rules = self._scope.rules
        return rules, self._scope.key(rules, only_tracked=False)

    def _entered(self, path: bytes, directory: Directory, rules: tuple[Rules, bytes]) -> tuple[Rules, bytes]:
        entered = rules[0].enter(path, ignores_in(directory)[0])
        return entered, self._scope.key(entered, only_tracked=False)

    def _look_for_attributes(self, fd: int, names: set[bytes], record: Record) -> None:
        if ATTRIBUTES in names:
            if may_rewrite(attributes_in(Directory(fd))):
                raise _Declined
        elif record.find(ATTRIBUTES) >= 0:
            raise _Declined  # gone from the disk, and in force all the same

    def _decide(self, path: bytes, fd: int, record: Record, rules: Rules, folder: _Folder) -> None:
        """Decides over each name and says so in the record; what may be a secret does not prove itself."""
        if self._is_simple and rules.are_empty and is_plain_place(path):
            unclear, dirs = folder.unclear, [name for name in record.dirs if not self._scope.is_plain_directory(name)]
        else:
            unclear, dirs = list(range(len(folder.names))), record.dirs
        captured = {at for at in unclear if self._rule(path, folder.names[at], record, rules, is_dir=False)}
        for name in dirs:
            self._rule(path, name, record, rules, is_dir=True)
        for at in folder.unclear:
            if at not in captured or not self._is_harmless(path, fd, folder, at):
                folder.stats[at] = unproven(mode_at(folder.stats[at], 0))
        if folder.has_large:
            record.trusted = False

    def _rule(self, above: bytes, name: bytes, record: Record, rules: Rules, *, is_dir: bool) -> bool:
        decision = self._scope.decide(join(above, name), name, rules, is_dir=is_dir)
        record.leans |= decision is TRACKED
        # A database that has its journal beside it is for the walk, too.
        if decision[0] or name.endswith(_JOURNALS):
            record.trusted = False
        return not decision[0]

    def _is_harmless(self, path: bytes, fd: int, folder: _Folder, at: int) -> bool:
        """Looks at how a file begins, and returns whether it is the file that was expected and no secret."""
        name, oid, expected = folder.names[at], folder.oids[at], STAT.unpack(folder.stats[at])
        size = expected[2]
        try:
            opened = seam.calls.open(name, READ_FLAGS, dir_fd=fd)
        except OSError:
            return False
        try:
            if fields(os.fstat(opened)) != expected:
                return False
            if not self._scope.included(join(path, name)) and secret_content(os.pread(opened, _SNIFFED, 0)):
                return False
        except OSError:
            return False
        finally:
            seam.calls.close(opened)
        return bool(self._known.wanted.get(oid, size) == size == self.harmless.setdefault(oid, size))

    def _seal(self, path: bytes, record: Record) -> None:
        modes = modes_in(record.stats)
        children = [(name, self._records[join(path, name)]) for name in record.dirs]
        seal(Sealed(record, modes, children), self._defaults, self.objects)
