"""
Directories of a watched workspace that hold what they held, but for the contents of some files.

That is most of what happens between two checkpoints. Such a directory needs no walk: what was remembered of it stays, but for
the stat fields and ids of the files that were written to, and its tree differs by as many ids. Whatever is not as plain as
that (a name that came or went, another mode, other rules, a record that may not be trusted, an error) is left to the walk,
which alone decides and reports; so is every directory above one that was left. Each file is looked at and read as ever.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping

from mulligan.model.objects import TREE
from mulligan.model.paths import join, parent_of
from mulligan.model.typed import NamedTuple
from mulligan.safefs.descent import descending
from mulligan.safefs.directory import Directory
from mulligan.scan.cache import Cache
from mulligan.scan.frame import same_names
from mulligan.scan.glance import depth_first
from mulligan.scan.ignore import Rules
from mulligan.scan.intake import Intake
from mulligan.scan.reading import Unreadable, fields, ignores_in, names_in
from mulligan.scan.record import NO_DIRECTORY, STAT, Packed, Stat, git_mode, modes_in
from mulligan.scan.result import Edit, Patch, Scan
from mulligan.scan.scope import Scope
from mulligan.scan.trees import add, tree_of

Own = tuple[int, int, int]
Found = list[tuple[bytes, os.stat_result]]


class Place(NamedTuple):
    """Where to look: at which names, which of them were written to, and whether the directory itself changed."""

    names: frozenset[bytes]
    written: frozenset[bytes]
    whole: bool


class Doing(NamedTuple):
    """How a walk remembers: a file's stat fields, a directory's own, and files with more than one name."""

    remember: Callable[[bytes, bytes, Stat], bytes]
    remember_own: Callable[[os.stat_result], Own]
    note_names: Callable[[bytes, Found], None]


class _Seen(NamedTuple):
    """What became of a directory that was looked at: as it is on the disk, as it is remembered, and its files."""

    disk: Own
    own: Own
    stats: bytes
    oids: bytes
    edits: list[Edit]


class Patching:
    """Patches what can be patched, for one scan; `is_known` tells which directories are watched, and ruled as ever."""

    def __init__(
        self,
        root: Directory,
        scope: Scope,
        cache: Cache,
        intake: Intake,
        doing: Doing,
        is_known: Callable[[bytes], bool],
    ) -> None:
        self._root, self._device = root, os.fstat(root.fd).st_dev
        self._scope, self._cache, self._intake, self._doing, self._is_known = scope, cache, intake, doing, is_known
        self._packed: dict[bytes, Packed] = {}
        self._rules: dict[bytes, tuple[Rules, bytes]] = {}
        self._looked: dict[bytes, _Seen] = {}

    def run(
        self, places: Mapping[bytes, Place], ways: Mapping[bytes, Collection[bytes]], scan: Scan
    ) -> dict[bytes, Own | None]:
        """
        Patches directories and those above them in a scan; returns the ones that are done, as they are on the disk if looked at.

        `ways` are, for each directory above, the names to follow.
        """
        order = sorted({b"", *places, *ways}, key=depth_first)
        for path in order:
            self._open(path)
        there = [path for path in order if path in places and path in self._packed]
        for path, fd in zip(there, descending(self._root.fd, there), strict=True):
            packed = self._packed[path]
            seen = self._look(path, packed, places[path], fd) if fd >= 0 else None
            if seen is not None and all(self._is_known(join(path, name)) for name in packed.dirs):
                self._looked[path] = seen
            else:
                del self._packed[path]
        return self._seal(order, ways, scan)

    # -- which -----------------------------------------------------------------------------------------

    def _open(self, path: bytes) -> None:
        """Reads what is remembered of a directory, if the rules that it was remembered under still hold."""
        held = self._rules.get(parent_of(path)) if path else self._ruled(self._scope.rules)
        if held is None or not self._is_known(path) or self._cache.doubts(path):
            return
        try:
            packed = Packed(self._cache.packed(path))
        except (KeyError, ValueError):
            return  # never seen, or by another version
        if packed.has_ignores:
            try:
                with self._root.descend(path) as directory:
                    content, unruly = ignores_in(directory)
            except OSError:
                return  # gone, or not to be read: the walk says which
            if unruly:
                return
            held = self._ruled(held[0].enter(path, content))
        if held[1] == packed.key:
            self._rules[path], self._packed[path] = held, packed

    def _ruled(self, rules: Rules) -> tuple[Rules, bytes]:
        return rules, self._scope.key(rules, only_tracked=False)

    # -- one directory ---------------------------------------------------------------------------------

    def _look(self, path: bytes, packed: Packed, place: Place, fd: int) -> _Seen | None:
        """Looks at a directory and reads what changed in it; None where that is not enough."""
        st, directory = os.fstat(fd), Directory(fd)
        own, disk = packed.own, (st.st_ino, st.st_mtime_ns, st.st_ctime_ns)
        if st.st_dev != self._device or packed.perm != st.st_mode & 0o7777 or not packed.trusted or packed.grouped:
            return None
        try:
            if not place.whole:
                if own not in (disk, NO_DIRECTORY):
                    return None
                asked = place.names.difference(packed.missed)
                return self._read(directory, path, packed, asked, place.written, disk, own)
            if disk != own:
                if not same_names(directory, packed, names_in(directory)):
                    return None
                own = self._doing.remember_own(st)
            return self._read(directory, path, packed, packed.names, place.written, disk, own)
        except (OSError, Unreadable):
            return None  # something vanished, or cannot be read: the walk says which

    def _read(
        self,
        directory: Directory,
        path: bytes,
        packed: Packed,
        asked: Iterable[bytes],
        written: Collection[bytes],
        disk: Own,
        own: Own,
    ) -> _Seen | None:
        stats, size = bytearray(packed.stats), STAT.size
        places, changed = {name: at for at, name in enumerate(packed.names)}, list[tuple[bytes, os.stat_result]]()
        for name in asked:
            if name not in places:
                return None
            st, want = directory.stat(name), STAT.unpack_from(stats, places[name] * size)
            if st.st_nlink > 1:
                self._doing.note_names(path, [(name, st)])
            # What is remembered of a file that was written to counts for nothing: its stat fields may have been put back.
            if name in written or fields(st) != want:
                if st.st_mode != want[1] or st.st_size > self._scope.max_file_size or stat.S_ISDIR(st.st_mode):
                    return None
                changed.append((name, st))
        oids, edits = bytearray(packed.oids), list[Edit]()
        done = self._intake.many(directory, path, changed)
        for name, st in changed:
            oid, seen = (
                self._intake.capture(directory, path, name, st) if name not in done else (done[name][0], fields(st))
            )
            if seen.mode != st.st_mode:
                return None
            at = places[name]
            old = bytes(oids[at * 20 : at * 20 + 20])
            stats[at * size : (at + 1) * size] = self._doing.remember(path, name, seen)
            if old != oid:
                oids[at * 20 : at * 20 + 20] = oid
                edits.append((name, git_mode(seen.mode), old, oid))
        return _Seen(disk, own, bytes(stats), bytes(oids), edits)

    # -- trees -----------------------------------------------------------------------------------------

    def _seal(self, order: list[bytes], ways: Mapping[bytes, Collection[bytes]], scan: Scan) -> dict[bytes, Own | None]:
        """Gives every directory its new tree, those below first; returns the ones that are done."""
        done: dict[bytes, Own | None] = {}
        trees: dict[bytes, bytes] = {}  # of those that have another one now
        for path in reversed(order):
            packed, seen = self._packed.get(path), self._looked.get(path)
            below = [join(path, name) for name in ways.get(path, ())]
            if packed is None or not done.keys() >= {*below}:
                continue
            tree = packed.tree
            if (seen is not None and seen.edits) or not trees.keys().isdisjoint(below):
                data = self._tree(path, packed, seen, trees)
                if data is None:
                    continue
                tree = trees[path] = add(TREE, data, scan.objects)
            if seen is not None:
                scan.patches[path] = Patch(packed.patched(seen.own, tree, seen.stats, seen.oids), seen.edits)
            elif path in trees:
                scan.patches[path] = Patch(packed.patched(packed.own, tree, packed.stats, packed.oids), [])
            done[path] = seen.disk if seen is not None else None
        return done

    def _tree(self, path: bytes, packed: Packed, seen: _Seen | None, trees: Mapping[bytes, bytes]) -> bytes | None:
        children = []
        for name in packed.dirs:
            each = join(path, name)
            tree = trees.get(each) or self._cache.tree_of(each)
            if tree is None:
                return None
            children.append((name, tree))
        oids = packed.oids if seen is None else seen.oids
        return tree_of(packed.names, modes_in(packed.stats), oids, children)
