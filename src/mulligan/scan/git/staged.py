"""
What is staged: the index against HEAD's tree.

Directories whose tree the index knows (its cache-tree) and HEAD has too are not read at all, so a clean index costs one
commit object. Trees come from files that anybody may have written: the walk has a budget, and what cannot be read counts
as not staged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from mulligan.scan.git.cache_tree import CacheTree
from mulligan.scan.git.index import Index
from mulligan.scan.git.objects import GITLINK, Entry, Objects
from mulligan.scan.git.renames import renamed
from mulligan.scan.git.repository import Repository

# Names looked at in HEAD's trees before the walk gives up: more than real projects need, less than a tree bomb.
BUDGET = 1_000_000
_DIRECTORY = 0o040000
_LONGEST = 4096


def staged_paths(repo: Repository) -> frozenset[bytes]:
    """Returns the workspace's paths whose index entry differs from HEAD, old names of renames left out."""
    return repo.keep("staged", lambda: _staged(repo))


def nothing_staged(repo: Repository, known_tree: bytes | None) -> bool:
    """Returns whether the index as a whole is known to be HEAD's tree."""
    head = repo.head()
    if known_tree is None or not head.commit:
        return False
    with repo.objects() as objects:
        return objects.read_commit_tree(bytes.fromhex(head.commit)) == known_tree


def _staged(repo: Repository) -> frozenset[bytes]:
    index, head = repo.index(), repo.head()
    if index is None or not head.known:
        return frozenset()
    directory = repo.prefix + b"/" if repo.prefix else b""
    with repo.objects() as objects:
        comparison = _Comparison(index, objects)
        try:
            if head.commit:
                comparison.run(directory, bytes.fromhex(head.commit))
            else:
                comparison.add_all(index.below(directory))
        except _TooMuch:
            return frozenset()
        found = comparison.paths(directory)
    return frozenset(path[len(directory) :] for path in found)


class _TooMuch(Exception):
    """The budget is used up."""


class _Comparison:
    """One walk over HEAD's trees and the index, side by side."""

    def __init__(self, index: Index, objects: Objects) -> None:
        self._index, self._objects, self._left = index, objects, BUDGET
        self._modified: set[bytes] = set()
        self._deleted: dict[bytes, tuple[int, bytes]] = {}
        self._added: dict[bytes, tuple[int, bytes]] = {}

    def paths(self, directory: bytes) -> set[bytes]:
        """Returns what differs, renames under their new names only, unmerged paths included."""
        old = renamed(self._deleted, self._added, self._blob) if self._deleted and self._added else set()
        unmerged = {path for path in self._index.unmerged if path.startswith(directory)}
        return self._modified | (self._deleted.keys() - old) | self._added.keys() | unmerged

    def run(self, directory: bytes, commit: bytes) -> None:
        """Compares everything below a directory."""
        tree, node = self._objects.read_commit_tree(commit), self._index.cache_tree
        if tree is None:
            return
        for name in directory.split(b"/")[:-1]:
            node = node.children.get(name) if node else None
            inner = next((e for e in self._tree(tree) or () if e.name == name and e.mode == _DIRECTORY), None)
            if inner is None:
                self.add_all(self._index.below(directory))
                return
            tree = inner.oid
        stack: list[tuple[bytes, bytes, CacheTree | None]] = [(directory, tree, node)]
        while stack:
            here, tree, node = stack.pop()
            if node is None or node.oid != tree:
                stack.extend(self._compare(here, tree, node))

    def _compare(
        self, directory: bytes, tree: bytes, node: CacheTree | None
    ) -> Iterator[tuple[bytes, bytes, CacheTree | None]]:
        """Compares one directory and yields those in it that have to be looked at."""
        entries = self._tree(tree)
        if entries is None or len(directory) > _LONGEST:
            return
        known: set[bytes] = set()
        for entry in entries:
            path = directory + entry.name
            if entry.mode != _DIRECTORY:
                known.add(path)
                self._compare_file(path, entry)
                continue
            path += b"/"
            known.add(path)
            if path in self._index.sparse:
                self._compare_sparse(path, entry.oid)
            else:
                yield path, entry.oid, node.children.get(entry.name) if node else None
        self._additions(directory, known)

    def _compare_file(self, path: bytes, entry: Entry) -> None:
        index = self._index
        if entry.mode == GITLINK or path in index.links or path in index.unmerged:
            return
        head = index.heads.get(path)
        if head is None or path in index.intent_to_add:
            self._deleted[path] = entry.mode, entry.oid
        elif head[40:60] != entry.oid or int.from_bytes(head[24:28], "big") != entry.mode:
            self._modified.add(path)

    def _additions(self, directory: bytes, known: set[bytes]) -> None:
        """Notes what the index has in a directory and HEAD has not."""
        paths = self._index.paths
        at = bisect_left(paths, directory)
        end = bisect_left(paths, directory[:-1] + b"0") if directory else len(paths)
        while at < end:
            slash = paths[at].find(b"/", len(directory))
            if slash < 0:
                after, name = at + 1, paths[at]
            else:
                name = paths[at][: slash + 1]
                after = bisect_left(paths, name[:-1] + b"0", at, end)
            if name not in known:
                self.add_all(paths[at:after])
            at = max(after, at + 1)

    def add_all(self, paths: list[bytes]) -> None:
        """Notes paths of the index that HEAD has not."""
        index = self._index
        for path in paths:
            head = index.heads[path]
            if path in index.sparse:
                self._added.update(self._files(path, head[40:60]))
            elif path not in index.links and path not in index.intent_to_add:
                self._added[path] = int.from_bytes(head[24:28], "big"), head[40:60]

    def _compare_sparse(self, directory: bytes, tree: bytes) -> None:
        own = self._index.heads[directory][40:60]
        if own == tree:
            return
        old, new = dict(self._files(directory, tree)), dict(self._files(directory, own))
        self._modified.update(path for path in old.keys() & new.keys() if old[path] != new[path])
        self._deleted.update((path, old[path]) for path in old.keys() - new.keys())
        self._added.update((path, new[path]) for path in new.keys() - old.keys())

    def _files(self, directory: bytes, tree: bytes) -> Iterator[tuple[bytes, tuple[int, bytes]]]:
        stack = [(directory, tree)]
        while stack:
            here, tree = stack.pop()
            for entry in self._tree(tree) or ():
                path = here + entry.name
                if entry.mode == _DIRECTORY and len(path) < _LONGEST:
                    stack.append((path + b"/", entry.oid))
                elif entry.mode not in (GITLINK, _DIRECTORY):
                    yield path, (entry.mode, entry.oid)

    def _tree(self, oid: bytes) -> list[Entry] | None:
        entries = self._objects.read_tree(oid)
        self._left -= 1 + len(entries or ())
        if self._left < 0:
            raise _TooMuch
        return entries

    def _blob(self, oid: bytes) -> bytes | None:
        found = self._objects.read(oid)
        return found[1] if found is not None and found[0] == b"blob" else None
