"""
Directories of a watched workspace that hold what they held, but for the contents of some files.

That is most of what happens between two checkpoints. Such a directory needs no walk: what was remembered of it stays, but for
the stat fields and ids of the files that were written to, and its tree differs by as many ids. Whatever is not as plain as
that (a name that came or went, another mode, other rules, a record that may not be trusted, an error) is left to the walk,
which alone decides and reports; so is every directory above one that was left. Each file is looked at and read as ever.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import NamedTuple

from mulligan.errors import PlanStale
from mulligan.model.checkpoint import SECRET
from mulligan.model.objects import MODE_DIR, MODE_TEXT, TREE
from mulligan.model.paths import join, parent_of
from mulligan.safefs.descent import descending
from mulligan.safefs.directory import Directory
from mulligan.scan.cache import Cache
from mulligan.scan.frame import same_names
from mulligan.scan.glance import depth_first
from mulligan.scan.ignore import Rules
from mulligan.scan.intake import Intake
from mulligan.scan.reading import Unreadable, fields, ignores_in, names_in
from mulligan.scan.record import NO_DIRECTORY, Packed, Stat, git_mode, modes_in
from mulligan.scan.result import Edit, Patch, Scan
from mulligan.scan.scope import Scope
from mulligan.scan.trees import Held, add, spliced, tree_of

Own = tuple[int, int, int]
Found = list[tuple[bytes, Stat, bytes]]  # names, their stat fields, their objects
_NONE: list[Edit] = []


class Place(NamedTuple):
    """
    Where to look: at which names, and which of them were written to.

    `moved` says that some of those may have come or gone, `whole` that the directory changed in a way that names do not tell.
    """

    names: frozenset[bytes]
    written: frozenset[bytes]
    moved: bool
    whole: bool


class Doing(NamedTuple):
    """How a walk remembers: a file's stat fields, a directory's own, and files with more than one name."""

    remember: Callable[[bytes, bytes, Stat], bytes]
    remember_own: Callable[[Own], Own]
    note_names: Callable[[bytes, Iterable[tuple[bytes, os.stat_result]]], None]


class _Seen(NamedTuple):
    """What became of a directory that was looked at: as it is on the disk, as it is remembered, and its files."""

    disk: Own
    own: Own
    entries: list[tuple[int, bytes, bytes]]  # positions, their stat fields, their objects
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
        held: Held,
    ) -> None:
        self.made: dict[bytes, tuple[bytes, bytes]] = {}  # the new trees of directories: id and bytes
        self._root, self._device = root, os.fstat(root.fd).st_dev
        self._scope, self._cache, self._intake, self._doing, self._is_known = scope, cache, intake, doing, is_known
        self._held = held
        self._packed: dict[bytes, Packed] = {}
        self._rules: dict[bytes, tuple[Rules, bytes]] = {}
        self._looked: dict[bytes, _Seen] = {}

    def run(
        self, places: Mapping[bytes, Place], ways: Mapping[bytes, Collection[bytes]], scan: Scan, *, later: bool = False
    ) -> dict[bytes, Own | None]:
        """
        Patches directories and those above them in a scan; returns the ones that are done, as they are on the disk if looked at.

        `ways` are the directories above, each with the names to follow. `later`, where nothing can come between, leaves the
        trees to whoever asks the scan for them.
        """
        order = sorted({b"", *places, *ways}, key=depth_first)
        for path in order:
            self._open(path)
        there = [path for path in order if path in places and path in self._packed]
        for path, fd in zip(there, descending(self._root.fd, there), strict=True):
            if fd < 0 or not self._keep(path, self._look(path, self._packed[path], places[path], fd)):
                del self._packed[path]
        if later and self._is_sure(order):
            edits = [(path, seen.edits) for path, seen in self._looked.items() if seen.edits]
            scan.seal_later(lambda: self._seal_all(order, scan), edits)
            return {path: seen.disk if (seen := self._looked.get(path)) is not None else None for path in order}
        return self._seal(order, scan)

    def _keep(self, path: bytes, seen: _Seen | None) -> bool:
        above = path + b"/" if path else b""
        if seen is None or not all(map(self._is_known, [above + name for name in self._packed[path].dirs])):
            return False
        self._looked[path] = seen
        return True

    # -- which -----------------------------------------------------------------------------------------

    def _open(self, path: bytes) -> None:
        """Reads what is remembered of a directory, if the rules that it was remembered under still hold."""
        held = self._rules.get(parent_of(path)) if path else self._ruled(self._scope.rules)
        if held is None or not self._is_known(path) or self._cache.doubts(path):
            return
        try:
            packed = Packed(self._cache.packed(path))
        except (KeyError, ValueError, struct.error):
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
        if st.st_dev != self._device or not _fits(packed, st.st_mode):
            return None
        try:
            if not place.whole:
                asked: Collection[bytes] = place.names.difference(packed.missed)
                if place.moved:
                    if len(asked) < len(place.names):
                        return None  # what was left out may have gone, or be another kind of thing
                    own = self._doing.remember_own(disk)
                elif own not in (disk, NO_DIRECTORY):
                    return None
                asked = self._lasting(directory, packed, asked)
            else:
                if disk != own and not same_names(directory, packed, names_in(directory)):
                    return None
                own, asked = own if disk == own else self._doing.remember_own(disk), packed.names
            found = self._read(directory, path, packed, asked, place.written)
        except (OSError, Unreadable):
            return None  # something vanished, or cannot be read: the walk says which
        return None if found is None else self._patched(path, packed, found, disk, own)

    @staticmethod
    def _lasting(directory: Directory, packed: Packed, names: Collection[bytes]) -> list[bytes]:
        """Returns some names without those that came and went again, or that the kernel made up for a file without a name."""
        return [name for name in names if packed.find(name) >= 0 or directory.exists(name)]

    def _read(
        self, directory: Directory, path: bytes, packed: Packed, asked: Collection[bytes], written: Container[bytes]
    ) -> Found | None:
        """Returns those of some names that are not as remembered, read; None where more than contents changed."""
        changed = []
        for name in asked:
            at = packed.find(name)
            if at < 0:
                return None
            want, st = packed.stat_at(at), directory.stat(name)
            if st.st_nlink > 1:
                self._doing.note_names(path, [(name, st)])
            # What is remembered of a file that was written to counts for nothing: its stat fields may have been put back.
            if name in written or fields(st) != want:
                if st.st_mode != want[1] or st.st_size > self._scope.max_file_size:
                    return None
                changed.append((name, st))
        return [self._capture(directory, path, name, st) for name, st in changed]

    def _capture(self, directory: Directory, path: bytes, name: bytes, st: os.stat_result) -> tuple[bytes, Stat, bytes]:
        oid, seen = self._intake.capture(directory, path, name, st)
        if self._intake.leans(path, (name,)):
            raise Unreadable(SECRET, "the record must say that the git index decides")
        return name, seen, oid

    def _patched(self, path: bytes, packed: Packed, found: Found, disk: Own, own: Own) -> _Seen | None:
        """Returns a directory with what was read in it; None where more than contents changed."""
        entries, edits = list[tuple[int, bytes, bytes]](), list[Edit]()
        most, remember = self._scope.max_file_size, self._doing.remember
        for name, seen, oid in found:
            at = packed.find(name)
            if at < 0 or seen.size > most or packed.stat_at(at)[1] != seen.mode:
                return None
            entries.append((at, remember(path, name, seen), oid))
            before = packed.oid_at(at)
            if before != oid:
                edits.append((name, git_mode(seen.mode), before, oid))
        return _Seen(disk, own, entries, edits)

    # -- trees -----------------------------------------------------------------------------------------

    def _is_sure(self, order: list[bytes]) -> bool:
        """
        Returns whether the new tree of every directory can be made, of one that is held and holds what changes in it.

        With that, what is remembered of those files is what the tree holds that the cache is about: trees that are held were
        made here, and each is found by its id in the one above it.
        """
        below, texts = dict[bytes, list[Edit]](), MODE_TEXT
        for path in reversed(order):
            packed, seen, edits = self._packed.get(path), self._looked.get(path), below.pop(path, _NONE)
            if packed is None:
                return False
            if seen is not None and seen.edits:
                edits = [*edits, *seen.edits]
            if not edits:
                continue
            tree = packed.tree
            held = self._held.get(path, tree)
            if held is None:
                return False
            for name, mode, before, _ in edits:
                if held.count(b"%b %b\0%b" % (texts[mode], name, before)) != 1:
                    return False
            above, _, name = path.rpartition(b"/")
            beside = below.get(above)
            if beside is None:
                below[above] = [(name, MODE_DIR, tree, tree)]
            else:
                beside.append((name, MODE_DIR, tree, tree))
        return self._packed[b""].tree == self._cache.root_tree

    def _seal_all(self, order: list[bytes], scan: Scan) -> None:
        """Gives every directory its new tree, of which `_is_sure` said that it can be had."""
        if len(self._seal(order, scan)) < len(order):
            # Only where the id of a new file spells an entry of the tree around it; half of a tree must not be saved.
            raise PlanStale(
                "What changed cannot be told from what is remembered. Nothing was changed.", hint="mulligan save"
            )

    def _seal(self, order: list[bytes], scan: Scan) -> dict[bytes, Own | None]:
        """Gives every directory its new tree, those below first; returns the ones that are done."""
        done: dict[bytes, Own | None] = {}
        below: dict[bytes, list[Edit] | None] = {}  # what became of the directories in one; None: some were left
        for path in reversed(order):
            above, _, name = path.rpartition(b"/")
            packed, seen, edits = self._packed.get(path), self._looked.get(path), below.pop(path, _NONE)
            if packed is None or edits is None:
                below[above] = None
                continue
            if seen is not None and seen.edits:
                edits = [*edits, *seen.edits]
            before = tree = packed.tree
            if edits:
                data = self._tree(path, packed, before, edits)
                if data is None:
                    below[above] = None
                    continue
                tree = add(TREE, data, scan.objects)
                self.made[path], scan.inside[tree] = (tree, data), edits[0][3]
                beside = below.setdefault(above, [])
                if beside is not None:
                    beside.append((name, MODE_DIR, before, tree))
            if seen is not None:
                patched = packed.patched(seen.own, tree, seen.entries)
                if edits or patched != self._cache.packed(path):
                    scan.patches[path] = Patch(patched, seen.edits)
            elif edits:
                scan.patches[path] = Patch(packed.patched(packed.own, tree), [])
            done[path] = seen.disk if seen is not None else None
        return done

    def _tree(self, path: bytes, packed: Packed, before: bytes, edits: list[Edit]) -> bytes | None:
        """Returns the bytes of a directory's new tree, in which some entries have other ids; None where they are not known."""
        known = self._held.get(path, before)
        made = spliced(known, edits) if known is not None else None
        if made is not None:
            return made
        ids = {name: after for name, _, _, after in edits}
        children = []
        for name in packed.dirs:
            tree = ids.get(name) or self._cache.tree_of(join(path, name))
            if tree is None:
                return None
            children.append((name, tree))
        oids = bytearray(packed.oids)
        for name, mode, _, after in edits:
            if mode != MODE_DIR:
                at = packed.find(name) * 20
                oids[at : at + 20] = after
        return tree_of(packed.names, modes_in(packed.stats), bytes(oids), children)


def _fits(packed: Packed, mode: int) -> bool:
    """Whether contents may be all that changed in a directory with this mode."""
    return packed.trusted and not packed.grouped and packed.perm == mode & 0o7777
