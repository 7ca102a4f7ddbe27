"""
Which files are dirty, as `git status --porcelain --untracked-files=all` would name them.

The work tree comes from a scan that mulligan made anyway: path, mode and object id of what it captured. Compared are raw
bytes, the way the scan read them. No file of the work tree is opened here.

What is staged is the index against HEAD's tree. Directories whose tree the index knows (its cache-tree) and HEAD has too are not
read at all, so a clean index costs one commit object. Trees are untrusted: what cannot be read counts as not staged.

LIMIT: submodules are left out, and so are files below one. A tracked file that was not captured (a secret, one too large) is
left out unless it is gone; an untracked one that was not captured is not known here at all.
LIMIT: settings are not read: where `core.fileMode` is off, git does not care for the executable bit and mulligan does; where a
filter or `autocrlf` rewrites content, a file that git calls clean differs, unless the caller can tell by its times.
LIMIT: a staged rename is listed under both names where the file is empty, binary and changed, or over a mebibyte, or where there
are more than forty thousand pairs of names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from mulligan.model.objects import EMPTY_TREE, MODE_DIR, MODE_EXEC, MODE_FILE, MODE_LINK, Change, TreeEntry
from mulligan.model.paths import ancestors, to_text
from mulligan.usergit.index import GITLINK, Index, IndexEntry, RawIndex
from mulligan.usergit.repository import Repository

if TYPE_CHECKING:
    from mulligan.usergit.objects import UserObjects

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
    judge = _Judge(repo, index, clean_by_stat, is_ignored)
    directory, heads, modes = judge.directory, index.heads, _MODES
    present, dirty = set[bytes](), set[bytes]()
    for path, mode, oid in captured:
        full = directory + path
        present.add(full)
        head = heads.get(full)
        if head is not None and head[40:60] == oid and head[24:28] == modes.get(mode):
            continue  # as nearly all
        if judge.differs(path, (mode, oid)):
            dirty.add(path)
    gone = [path[len(directory) :] for path in index.below(directory) if path not in present]
    dirty.update(path for path in gone if judge.differs(path, None) and not not_captured(path))
    always = index.unmerged | index.intent_to_add
    dirty.update(path[len(directory) :] for path in always if path.startswith(directory))
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
    found = (repo.raw_index() if len(changed) < _MANY else None) or repo.index()
    if found is None:
        return tuple(previous)
    judge = _Judge(repo, found, clean_by_stat, is_ignored)
    dirty = set(previous)
    staged: frozenset[bytes] | None = None
    for path, now in changed.items():
        text = to_text(path)
        if not (differs := judge.differs(path, now)) and text in dirty:
            staged = staged_paths(repo) if staged is None else staged
            differs = path in staged
        if differs:
            dirty.add(text)
        else:
            dirty.discard(text)
    return tuple(sorted(dirty))


class _Judge:
    """Says of single paths whether the work tree and the index disagree."""

    def __init__(
        self,
        repo: Repository,
        index: Index | RawIndex,
        clean_by_stat: CleanByStat | None,
        is_ignored: Ignored | None,
    ) -> None:
        self.directory = repo.prefix + b"/" if repo.prefix else b""
        self._repo, self._index = repo, index
        self._clean_by_stat, self._is_ignored = clean_by_stat, is_ignored

    def differs(self, path: bytes, now: tuple[int, bytes] | None) -> bool:
        """Returns whether a path is not what the index says, or not in it; None stands for one that is gone."""
        full = self.directory + path
        entry = self._index.find(full)
        if entry is None:
            return now is not None and now[0] != MODE_DIR and self._is_untracked(path, full, now)
        if entry.stage or entry.intent_to_add:
            return True
        if entry.mode in (GITLINK, MODE_DIR) or entry.assume_valid:
            return False
        if entry.skip_worktree and (now is None or not self._repo.sparse_checkout()):
            return False
        if now is None:
            return True
        return (entry.mode, entry.oid) != now and not (self._clean_by_stat and self._clean_by_stat(path, entry))

    def _is_untracked(self, path: bytes, full: bytes, now: tuple[int, bytes]) -> bool:
        index = self._index
        if any((entry := index.find(above)) is not None and entry.mode == GITLINK for above in ancestors(full)):
            return False
        directory = index.sparse_directory(full) if isinstance(index, Index) else None
        if directory is not None and isinstance(index, Index):
            with self._repo.objects() as objects:
                found = _find(objects, index.heads[directory][40:60], full[len(directory) :])
            if found is not None:
                return (found.mode, found.oid) != now
        return self._is_ignored is None or not self._is_ignored(path)


def _find(objects: UserObjects, tree: bytes, path: bytes) -> TreeEntry | None:
    found: TreeEntry | None = None
    for name in path.split(b"/"):
        found = next((entry for entry in objects.read_tree(tree) or () if entry.name == name), None)
        if found is None:
            return None
        tree = found.oid
    return found


# -- the index against HEAD -----------------------------------------------------------------------------

_Files = dict[bytes, tuple[int, bytes]]


def staged_paths(repo: Repository) -> frozenset[bytes]:
    """Returns the workspace's paths whose index entry differs from HEAD, old names of renames left out."""
    head, raw = repo.head(), repo.raw_index()
    if not head.known:
        return frozenset()
    with repo.objects() as objects:
        tree = objects.read_commit_tree(bytes.fromhex(head.commit)) if head.commit else EMPTY_TREE
        # Git notes the tree of the whole index: where it is HEAD's, the index is not taken apart.
        if tree is None or (raw is not None and raw.root_tree() == tree):
            return frozenset()
        index, directory = repo.index(), repo.prefix + b"/" if repo.prefix else b""
        return _compared(index, objects, tree, directory) if index is not None else frozenset()


def _compared(index: Index, objects: UserObjects, tree: bytes, directory: bytes) -> frozenset[bytes]:
    from mulligan.diff.renames import find_renames
    from mulligan.usergit.objects import read_committed

    committed = read_committed(objects, tree, index.cache_tree, below=directory)
    now: _Files = {}
    for path in committed.others(index.below(directory)):
        head = index.heads[path]
        if path in index.sparse:
            inner = read_committed(objects, head[40:60], None, top=path)
            now |= {below: (entry.mode, entry.oid) for below, entry in inner.files.items()}
        elif path not in index.intent_to_add:
            now[path] = int.from_bytes(head[24:28], "big"), head[40:60]
    then = {path: (entry.mode, entry.oid) for path, entry in committed.files.items() if path not in index.unmerged}
    changes = [
        Change(path, _entry(path, then.get(path)), _entry(path, now.get(path)))
        for path in sorted(then.keys() | now.keys())
        if then.get(path) != now.get(path) and GITLINK not in (then.get(path, _NO)[0], now.get(path, _NO)[0])
    ]
    old = {gone.path for gone, _ in find_renames(changes, objects.read_blob, lambda oid: len(objects.read_blob(oid)))}
    found = {change.path for change in changes} - old | {path for path in index.unmerged if path.startswith(directory)}
    return frozenset(path[len(directory) :] for path in found)


_NO = (0, b"")


def _entry(path: bytes, found: tuple[int, bytes] | None) -> TreeEntry | None:
    return TreeEntry(path.rpartition(b"/")[2], *found) if found is not None else None
