"""
What a scan found: the workspace as trees, and what is not in them.

The trees that no earlier checkpoint holds are kept in memory (`objects`), so that a scan can be compared with any
checkpoint before anything is stored. Of a watched workspace in which only contents changed, what changed is known before
any tree is made: those are made when somebody asks for them, so that a restore can be planned and begun meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from mulligan.model.checkpoint import INCOMPLETE, MOVING, NotCaptured, pack_paths
from mulligan.model.objects import MODE_DIR, TREE, TreeEntry, encode_tree, object_id
from mulligan.model.paths import ancestors, join, parent_of, to_text
from mulligan.scan.cache import Cache
from mulligan.scan.record import STAT, Missed, Record, Stat, decode, differing, git_mode, names_of, tree_in

if TYPE_CHECKING:
    from mulligan.model.sealed import Sealed, Secrets

Entry = tuple[int, bytes]  # git mode and object id
Edit = tuple[bytes, int, bytes, bytes]  # name, git mode, object ids before and after


class Patch(NamedTuple):
    """A directory whose files have other contents, and nothing else: its record as it is written, and what changed."""

    packed: bytes
    edits: list[Edit]


class Defaults(NamedTuple):
    """The permission bits that most files, programs and directories have; only others are written down."""

    file: int = 0o644
    executable: int = 0o755
    directory: int = 0o755


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


def entries(record: Record) -> Iterator[tuple[bytes, int, bytes]]:
    """Yields name, git mode and object id of what is captured in one directory."""
    oids, at = record.oids, 0
    for name, (_, mode, _, _, _) in zip(record.names, STAT.iter_unpack(record.stats), strict=True):
        yield name, git_mode(mode), oids[at : at + 20]
        at += 20


def _changes(directory: bytes, old: Record, new: Record) -> Iterator[tuple[bytes, Entry | None, Entry | None]]:
    above = directory + b"/" if directory else b""
    places = differing(old, new)
    if places is not None:
        for at in places:
            before, after = _entry(old, at), _entry(new, at)
            if before != after:  # else bits that git's modes do not say
                yield above + new.names[at], before, after
        return
    there = {name: (mode, oid) for name, mode, oid in entries(old)}
    for name, mode, oid in entries(new):
        then = there.pop(name, None)
        if then != (mode, oid):
            yield above + name, then, (mode, oid)
    for name, entry in there.items():
        yield above + name, entry, None


def _entry(record: Record, at: int) -> Entry:
    return git_mode(record.stat_at(at).mode), record.oid_at(at)


class Scan:
    """One look at the workspace."""

    def __init__(self, defaults: Defaults, cache: Cache) -> None:
        self._tree = b""
        self.modes = bytes(20)
        self.defaults = defaults
        self.cache = cache
        self.is_adopted = False  # whether what is remembered is what git's index says, and no checkpoint's
        self.made: dict[bytes, tuple[bytes, bytes]] = {}  # the new trees that are there so far
        self._inside: dict[bytes, bytes] = {}
        self.records: dict[bytes, Record] = {}
        # No directory is in both.
        self._patches: dict[bytes, Patch] = {}
        self._sealing: tuple[Callable[[], object], list[tuple[bytes, list[Edit]]]] | None = None
        self._unlike: set[bytes] = set()
        self.gone: list[bytes] = []
        self.missed: dict[bytes, Missed] = {}
        self.secrets: Secrets | None = None  # those that were sealed; None where secrets are not looked at
        self.observed: dict[bytes, Stat] = {}
        # What earlier looks observed of files that were too young then, and that nothing has happened to since.
        self.observed_before: Mapping[bytes, Stat] = {}
        self.files = 0
        self.read = 0  # how many of them had to be read
        self._seen_trees: dict[bytes, tuple[bytes, Record, bool]] = {}
        self._patched_trees: dict[bytes, tuple[bytes, bool]] | None = None  # made when somebody asks
        self.visited: Container[bytes] = ()
        self.taken: object = None
        self.is_wanted: Callable[[bytes], bool] = lambda _: False
        self._last: tuple[bytes, Record | None] = (b"", None)

    # -- what is made when somebody asks ---------------------------------------------------------------

    def seal_later(self, seal: Callable[[], object], edits: list[tuple[bytes, list[Edit]]]) -> None:
        """Says that contents of files are all that changed, by directory, and how the trees are made: that cannot fail for what is there."""
        self._sealing = (seal, edits)

    def edits(self) -> list[tuple[bytes, list[Edit]]] | None:
        """Returns what changed, by directory, where that is known without the trees; None where those are there already."""
        return self._sealing[1] if self._sealing is not None else None

    def settle(self) -> None:
        """Makes what was left for later; again is harmless."""
        if self._sealing is not None:
            sealing, self._sealing = self._sealing, None
            try:
                sealing[0]()
            except BaseException:
                self._sealing = sealing  # half of the trees are none: whoever asks again has them made again
                raise
            root = self._patches.get(b"")
            self._tree = tree_in(root.packed) if root is not None else self._tree

    @property
    def tree(self) -> bytes:
        """The tree of the workspace."""
        self.settle()
        return self._tree

    @tree.setter
    def tree(self, tree: bytes) -> None:
        self._tree = tree

    @property
    def objects(self) -> dict[bytes, tuple[bytes, bytes]]:
        """The new trees: kind and bytes."""
        self.settle()
        return self.made

    @property
    def inside(self) -> dict[bytes, bytes]:
        """Of some of these trees, something in them that was not there before."""
        self.settle()
        return self._inside

    @property
    def patches(self) -> dict[bytes, Patch]:
        """The directories of which nothing but contents changed."""
        self.settle()
        return self._patches

    def is_unlike(self, tree: bytes) -> None:
        """Notes that the workspace was found to differ from a tree."""
        self._unlike.add(tree)

    def has_tree(self, tree: bytes) -> bool:
        """Returns whether the workspace is exactly what a tree holds."""
        if self._sealing is not None and tree == self.cache.root_tree:
            return not self._sealing[1]
        return tree not in self._unlike and self.tree == tree

    def record(self, directory: bytes) -> Record | None:
        """Returns what was seen of a directory."""
        found = self.records.get(directory)
        if found is not None:
            return found
        if self._last[1] is None or self._last[0] != directory:
            # Decoding a directory of 100,000 names for each of them would take hours.
            patch = self.patches.get(directory)
            self._last = (directory, decode(patch.packed) if patch is not None else self.cache.get(directory))
        return self._last[1]

    def seen_records(self) -> Iterator[tuple[bytes, Record]]:
        """Yields every directory that is not what the cache remembers, with its record."""
        yield from self.records.items()
        for path, patch in self.patches.items():
            yield path, decode(patch.packed)

    def packed(self) -> Iterator[tuple[bytes, bytes]]:
        """Yields the same records as they are written."""
        for path, record in self.records.items():
            yield path, record.encode()
        for path, patch in self.patches.items():
            yield path, patch.packed

    def tree_of(self, directory: bytes) -> bytes | None:
        """Returns the tree of a directory as it was seen, None if it was not."""
        record, patch = self.records.get(directory), self.patches.get(directory)
        if record is not None:
            return record.tree
        return tree_in(patch.packed) if patch is not None else self.cache.tree_of(directory)

    def entry(self, path: bytes) -> tuple[Stat, bytes] | None:
        """Returns the stat fields and object id of a captured file or link."""
        record = self.record(parent_of(path))
        at = record.find(path.rpartition(b"/")[2]) if record else -1
        if record is None or at < 0:
            return None
        return self._stat(path, record, at), record.oid_at(at)

    def _stat(self, path: bytes, record: Record, at: int) -> Stat:
        found = self.observed.get(path)
        if found is None:
            found = record.stat_at(at)
            if found.is_unproven:
                found = self.observed_before.get(path, found)
        return found

    def captured(self) -> Iterator[tuple[bytes, int, bytes]]:
        """Yields path, git mode and object id of every captured file and link, in no promised order."""
        for directory in {*self.cache.paths(), *self.records, *self.patches} - set(self.gone):
            record = self.record(directory)
            above = directory + b"/" if directory else b""
            for name, mode, oid in entries(record) if record is not None else ():
                yield above + name, mode, oid

    def paths(self) -> list[bytes]:
        """Returns the path of every captured file and link, sorted."""
        found: list[bytes] = []
        for directory in {*self.cache.paths(), *self.records, *self.patches} - set(self.gone):
            record, patch = self.records.get(directory), self.patches.get(directory)
            packed = patch.packed if patch is not None else self.cache.packed(directory) if record is None else b""
            names = record.names if record is not None else names_of(packed)
            found += [directory + b"/" + name for name in names] if directory else names
        found.sort()
        return found

    def packed_paths(self) -> bytes:
        """Returns the same as a checkpoint holds it."""
        return pack_paths(b"\0".join(self.paths()))

    def changes(self) -> Iterator[tuple[bytes, Entry | None, Entry | None]]:
        """Yields path, before and after of every file and link that is not what the cache remembers, in no promised order."""
        for directory, record in self.records.items():
            yield from _changes(directory, self._remembered(directory), record)
        for directory, patch in self.patches.items():
            above = directory + b"/" if directory else b""
            for name, mode, before, after in patch.edits:
                yield above + name, (mode, before), (mode, after)
        for directory in self.gone:
            yield from _changes(directory, self._remembered(directory), Record())

    def _remembered(self, directory: bytes) -> Record:
        tree = self.cache.tree_of(directory)
        known = self._seen_trees.get(tree) if tree is not None else None
        if known is not None and known[0] == directory:
            return known[1]
        return self.cache.get(directory) or Record()

    # -- trees without reading them: what a directory held is known, before and now ---------------------

    def remember_trees(self, path: bytes, old: Record, new: Record) -> None:
        """Notes that a directory's records can stand for its trees."""
        self._seen_trees[old.tree] = (path, old, False)
        self._seen_trees[new.tree] = (path, new, True)

    def forget_trees(self) -> None:
        """Drops what `remember_trees` noted, because the cache moves on."""
        self._seen_trees.clear()
        self._patched_trees = {}

    def tree_entries(self, oid: bytes) -> list[TreeEntry] | None:
        """Returns the entries of a tree that this scan, or the cache it started from, knows by its record."""
        found = self._seen_trees.get(oid) or self._patched_tree(oid)
        if found is None:
            return None
        path, record, is_new = found
        make = tuple.__new__  # as `TreeEntry(*entry)` does, in a third of the time
        found_entries = [make(TreeEntry, entry) for entry in entries(record)]
        for name in record.dirs:
            below = join(path, name)
            tree = self.tree_of(below) if is_new else self.cache.tree_of(below)
            if tree is None:
                return None
            found_entries.append(TreeEntry(name, MODE_DIR, tree))
        # What a plan is made from must be what the checkpoint holds: a record that is not, is not used.
        return found_entries if is_new or object_id(TREE, encode_tree(found_entries)) == oid else None

    def _patched_tree(self, oid: bytes) -> tuple[bytes, Record, bool] | None:
        if self._patched_trees is None:
            then = {self.cache.tree_of(path) or b"": (path, False) for path in self.patches}
            self._patched_trees = then | {tree_in(patch.packed): (path, True) for path, patch in self.patches.items()}
        path, is_new = self._patched_trees.get(oid, (b"", None))
        record = self.record(path) if is_new else self.cache.get(path) if is_new is not None else None
        return None if record is None else (path, record, bool(is_new))

    def memory_of(self, path: bytes) -> tuple[Stat | None, Stat | None]:
        """Returns the stat fields that a captured file had, and again where they prove it unchanged: it was not too young for that."""
        young = self.observed.get(path)
        if young is not None:
            return young, None
        found = self.entry(path)
        if found is None:
            return None, None
        stat = found[0]
        return stat, None if stat.is_unproven or path in self.observed_before else stat

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
        return self.is_wanted(path) and all(above in self.visited for above in ancestors(path) if above in self.missed)
