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
from typing import TYPE_CHECKING

from mulligan.model.objects import MODE_DIR, MODE_EXEC, MODE_FILE, MODE_LINK, TreeEntry
from mulligan.model.paths import ancestors, to_text
from mulligan.usergit.index import Index, RawIndex
from mulligan.usergit.index_format import GITLINK, IndexEntry
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
    from mulligan.usergit.staged import staged_paths

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
    for path, now in changed.items():
        text = to_text(path)
        if judge.differs(path, now) or (text in dirty and judge.is_staged(path)):
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

    def is_staged(self, path: bytes) -> bool:
        """Returns whether the index and HEAD disagree about a path."""
        from mulligan.usergit.staged import staged_paths

        return path in staged_paths(self._repo)


def _find(objects: UserObjects, tree: bytes, path: bytes) -> TreeEntry | None:
    found: TreeEntry | None = None
    for name in path.split(b"/"):
        found = next((entry for entry in objects.read_tree(tree) or () if entry.name == name), None)
        if found is None:
            return None
        tree = found.oid
    return found
