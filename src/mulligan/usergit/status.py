"""
Which files are dirty, as `git status --porcelain --untracked-files=all` would name them.

The work tree comes from a scan that mulligan made anyway: path, mode and object id of what it captured. Compared are raw
bytes, the way the scan read them. No file of the work tree is opened here.

LIMIT: submodules are left out, and so are files below one. A tracked file that was not captured (a secret, one too large) is
left out unless it is gone; an untracked one that was not captured is not known here at all.
LIMIT: settings are not read: where `core.fileMode` is off, git does not care for the executable bit and mulligan does; where a
filter or `autocrlf` rewrites content, a file that git calls clean differs, unless the caller can tell by its times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from mulligan.model.objects import MODE_DIR, MODE_EXEC, MODE_FILE, MODE_LINK
from mulligan.model.paths import ancestors, to_text
from mulligan.usergit.index import Index, RawIndex
from mulligan.usergit.index_format import IndexEntry, root_oid
from mulligan.usergit.objects import GITLINK, Entry, Objects
from mulligan.usergit.repository import Repository
from mulligan.usergit.staged import nothing_staged, staged_paths

_MODES = {mode: mode.to_bytes(4, "big") for mode in (MODE_FILE, MODE_EXEC, MODE_LINK)}
# From so many changed paths on, one reading of the whole index is cheaper than looking each of them up.
_MANY = 300

CleanByStat = Callable[[bytes, IndexEntry], bool]
Ignored = Callable[[bytes], bool]


def dirty_files(
    repo: Repository,
    captured: Iterable[tuple[bytes, int, bytes]],
    *,
    not_captured: Callable[[bytes], bool],
    clean_by_stat: CleanByStat | None = None,
    is_ignored: Ignored | None = None,
) -> tuple[str, ...]:
    """
    Returns the dirty files of the workspace, relative to it, sorted.

    Args:
        repo: the repository the workspace belongs to.
        captured: path, git mode and object id of every file the scan captured.
        not_captured: whether a path that was not captured is there all the same; it is not taken for deleted then.
        clean_by_stat: whether a file whose bytes differ is what git last saw, by size and times.
        is_ignored: whether an untracked path was captured although git ignores it.
    """
    index = repo.index()
    if index is None:
        return ()
    scan = _Worktree(repo, index, clean_by_stat, is_ignored)
    with repo.objects() as objects:
        dirty = scan.compare(captured, objects)
    dirty |= scan.deleted(not_captured)
    return tuple(sorted(map(to_text, dirty | staged_paths(repo))))


def update_dirty(
    repo: Repository,
    previous: Collection[str],
    changed: Mapping[bytes, tuple[int, bytes] | None],
    *,
    clean_by_stat: CleanByStat | None = None,
    is_ignored: Ignored | None = None,
) -> tuple[str, ...]:
    """
    Returns the dirty files after some paths changed, judging only those; None stands for a path that is gone.

    Valid while `Repository.state_key` is what it was when `previous` was computed.
    """
    lookup = _Lookup(repo, len(changed))
    if not lookup.readable:
        return tuple(previous)
    dirty = set(previous)
    for path, now in changed.items():
        text = to_text(path)
        if lookup.differs(path, now, clean_by_stat, is_ignored) or (text in dirty and lookup.is_staged(path)):
            dirty.add(text)
        else:
            dirty.discard(text)
    return tuple(sorted(dirty))


class _Worktree:
    """The captured files against the index."""

    def __init__(
        self, repo: Repository, index: Index, clean_by_stat: CleanByStat | None, is_ignored: Ignored | None
    ) -> None:
        self._index, self._clean_by_stat, self._is_ignored = index, clean_by_stat, is_ignored
        self._directory = repo.prefix + b"/" if repo.prefix else b""
        self._sparse_checkout = repo.sparse_checkout()
        self._present: set[bytes] = set()

    def compare(self, captured: Iterable[tuple[bytes, int, bytes]], objects: Objects) -> set[bytes]:
        """Returns the captured paths that differ from the index or are not in it."""
        dirty: set[bytes] = set()
        heads, directory, seen, modes = self._index.heads, self._directory, self._present.add, _MODES
        for path, mode, oid in captured:
            full = directory + path
            seen(full)
            head = heads.get(full)
            if head is None:
                if mode != MODE_DIR and self._is_untracked(full, (mode, oid), objects):
                    dirty.add(path)
            elif (head[40:60] != oid or head[24:28] != modes.get(mode)) and self._is_modified(path, full):
                dirty.add(path)
        return dirty

    def deleted(self, not_captured: Callable[[bytes], bool]) -> set[bytes]:
        """Returns tracked paths that are gone, and those that are dirty whatever the work tree holds."""
        index, skip = self._index, len(self._directory)
        quiet = index.links | index.sparse | index.assume_valid | index.skip_worktree
        gone = {path[skip:] for path in index.below(self._directory) if path not in self._present and path not in quiet}
        always = {path[skip:] for path in index.unmerged | index.intent_to_add if path.startswith(self._directory)}
        return {path for path in gone if not not_captured(path)} | always

    def _is_modified(self, path: bytes, full: bytes) -> bool:
        index = self._index
        if full in index.links or full in index.assume_valid:
            return False
        if full in index.skip_worktree and not self._sparse_checkout:
            return False
        entry = index.get(full)
        return entry is None or self._clean_by_stat is None or not self._clean_by_stat(path, entry)

    def _is_untracked(self, full: bytes, now: tuple[int, bytes], objects: Objects) -> bool:
        index = self._index
        if full in index.unmerged or index.inside_link(full):
            return False
        directory = index.sparse_directory(full)
        if directory is not None:
            entry = _find(objects, index.heads[directory][40:60], full[len(directory) :])
            if entry is not None:
                return (entry.mode, entry.oid) != now
        return self._is_ignored is None or not self._is_ignored(full[len(self._directory) :])


def _find(objects: Objects, tree: bytes, path: bytes) -> Entry | None:
    found: Entry | None = None
    for name in path.split(b"/"):
        found = next((entry for entry in objects.read_tree(tree) or () if entry.name == name), None)
        if found is None:
            return None
        tree = found.oid
    return found


class _Lookup:
    """Single entries of the index, from its bytes where that is enough."""

    def __init__(self, repo: Repository, count: int) -> None:
        self._repo = repo
        self._raw: RawIndex | None = repo.raw_index() if count < _MANY else None
        self._index = repo.index() if self._raw is None else None
        self._directory = repo.prefix + b"/" if repo.prefix else b""
        self._clean: bool | None = None
        self.readable = self._raw is not None or self._index is not None

    def find(self, full: bytes) -> IndexEntry | None:
        """Returns an entry by its path in the work tree; unmerged ones have a stage."""
        if self._raw is not None:
            return self._raw.find(full)
        if self._index is None:
            return None
        if full in self._index.unmerged:
            return IndexEntry(full, MODE_FILE, bytes(20), 1, 0, 0, 0, 0)
        return self._index.get(full)

    def differs(
        self,
        path: bytes,
        now: tuple[int, bytes] | None,
        clean_by_stat: CleanByStat | None,
        is_ignored: Ignored | None,
    ) -> bool:
        """Returns whether the work tree and the index disagree about a path."""
        full = self._directory + path
        entry = self.find(full)
        if entry is None:
            return now is not None and self._is_untracked(path, full, now, is_ignored)
        if entry.stage or entry.intent_to_add:
            return True
        if entry.mode == GITLINK or entry.assume_valid:
            return False
        if entry.skip_worktree and (now is None or not self._repo.sparse_checkout()):
            return False
        if now is None:
            return True
        return (entry.mode, entry.oid) != now and not (clean_by_stat is not None and clean_by_stat(path, entry))

    def _is_untracked(self, path: bytes, full: bytes, now: tuple[int, bytes], is_ignored: Ignored | None) -> bool:
        if now[0] == MODE_DIR:
            return False
        for above in ancestors(full):
            entry = self.find(above)
            if entry is not None and entry.mode == GITLINK:
                return False
        directory = self._index.sparse_directory(full) if self._index is not None else None
        if directory is not None and self._index is not None:
            with self._repo.objects() as objects:
                found = _find(objects, self._index.heads[directory][40:60], full[len(directory) :])
            if found is not None:
                return (found.mode, found.oid) != now
        return is_ignored is None or not is_ignored(path)

    def is_staged(self, path: bytes) -> bool:
        """Returns whether the index and HEAD disagree about a path."""
        if self._clean is None:
            tree = root_oid(self._raw.extensions.get(b"TREE", b"")) if self._raw is not None else None
            self._clean = nothing_staged(self._repo, tree)
        return not self._clean and path in staged_paths(self._repo)
