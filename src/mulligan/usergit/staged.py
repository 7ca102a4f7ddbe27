"""
What is staged: the index against HEAD's tree, and which staged deletions are renames.

Directories whose tree the index knows (its cache-tree) and HEAD has too are not read at all, so a clean index costs one
commit object. Trees are untrusted: the walk has a budget, and what cannot be read counts as not staged.

Renames are judged as `git status` judges them: first equal content, then equal names with similar content, then similar
content. Similarity is git's own measure: the share of bytes in lines (or pieces of 64 bytes) that both files have, half at least.
LIMIT: beyond ten thousand pairs, or for files over one mebibyte, only equal content counts; git goes further, and lists
the new name alone where mulligan lists both.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from mulligan.model.objects import TreeEntry
from mulligan.usergit.index import Index
from mulligan.usergit.index_format import GITLINK, CacheTree, root_oid
from mulligan.usergit.objects import UserObjects
from mulligan.usergit.repository import Repository

# Names looked at in HEAD's trees before the walk gives up: more than real projects need, less than a tree bomb.
BUDGET = 1_000_000
_DIRECTORY = 0o040000
_LONGEST = 4096


def staged_paths(repo: Repository) -> frozenset[bytes]:
    """Returns the workspace's paths whose index entry differs from HEAD, old names of renames left out."""
    return repo.keep("staged", lambda: frozenset() if _is_heads_tree(repo) else _staged(repo))


def _is_heads_tree(repo: Repository) -> bool:
    """Whether the index as a whole is known to be HEAD's tree, without taking it apart."""
    head, raw = repo.head(), repo.raw_index()
    tree = root_oid(raw.extensions.get(b"TREE", b"")) if raw is not None and head.commit else None
    if tree is None:
        return False
    with repo.objects() as objects:
        return objects.read_commit_tree(bytes.fromhex(head.commit)) == tree


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

    def __init__(self, index: Index, objects: UserObjects) -> None:
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

    def _compare_file(self, path: bytes, entry: TreeEntry) -> None:
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

    def _tree(self, oid: bytes) -> list[TreeEntry] | None:
        entries = self._objects.read_tree(oid)
        self._left -= 1 + len(entries or ())
        if self._left < 0:
            raise _TooMuch
        return entries

    def _blob(self, oid: bytes) -> bytes | None:
        found = self._objects.read(oid)
        return found[1] if found is not None and found[0] == b"blob" else None


PAIRS_LIMIT = 10_000
BLOB_LIMIT = 1 << 20
TOTAL_LIMIT = 64 << 20
WORK_LIMIT = 5_000_000

_HALF, _SAME_NAME = 0.5, 0.75
_PIECE = re.compile(rb"[^\n]{0,63}\n|[^\n]{1,64}")

Files = Mapping[bytes, tuple[int, bytes]]  # path → (mode, object id)


class _IndexPieces(NamedTuple):
    size: int
    counts: dict[bytes, int]


def renamed(deleted: Files, added: Files, read_blob: Callable[[bytes], bytes | None]) -> set[bytes]:
    """Returns the deleted paths that are the old names of added ones."""
    sources, targets = dict(deleted), dict(added)
    found = _equal(sources, targets)
    if 0 < len(sources) * len(targets) <= PAIRS_LIMIT:
        similarity = _Similarity(read_blob)
        found |= _same_names(sources, targets, similarity)
        found |= _similar(sources, targets, similarity)
    return found


def _base(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _kind(mode: int) -> int:
    return mode & 0o170000


def _equal(sources: dict[bytes, tuple[int, bytes]], targets: dict[bytes, tuple[int, bytes]]) -> set[bytes]:
    by_content: dict[tuple[int, bytes], list[bytes]] = defaultdict(list)
    for path, (mode, oid) in sorted(sources.items()):
        by_content[_kind(mode), oid].append(path)
    used: set[bytes] = set()
    for target, (mode, oid) in sorted(targets.items()):
        candidates = by_content.get((_kind(mode), oid))
        if candidates:
            source = next((path for path in candidates if _base(path) == _base(target)), candidates[0])
            candidates.remove(source)
            _pair(source, target, sources, targets, used)
    return used


def _pair(
    source: bytes,
    target: bytes,
    sources: dict[bytes, tuple[int, bytes]],
    targets: dict[bytes, tuple[int, bytes]],
    used: set[bytes],
) -> None:
    del sources[source], targets[target]
    used.add(source)


class _Similarity:
    """Compares blobs; each is read once."""

    def __init__(self, read_blob: Callable[[bytes], bytes | None]) -> None:
        self._read, self._left, self._work = read_blob, TOTAL_LIMIT, WORK_LIMIT
        self._known: dict[bytes, _IndexPieces | None] = {}

    def __call__(self, old: tuple[int, bytes], new: tuple[int, bytes]) -> float:
        if _kind(old[0]) != 0o100000 or _kind(new[0]) != 0o100000:
            return 0.0
        one, other = self._pieces(old[1]), self._pieces(new[1])
        if one is None or other is None or not other.size:
            return 0.0
        if min(one.size, other.size) < _HALF * max(one.size, other.size):
            return 0.0
        few, many = sorted((one.counts, other.counts), key=len)
        self._work -= len(few)
        if self._work < 0:
            return 0.0
        return sum([min(size, many.get(piece, 0)) for piece, size in few.items()]) / max(one.size, other.size)

    def _pieces(self, oid: bytes) -> _IndexPieces | None:
        if oid not in self._known:
            data = self._read(oid) if self._left > 0 else None
            self._left -= len(data or b"")
            self._known[oid] = _pieces(data) if data is not None and len(data) <= BLOB_LIMIT else None
        return self._known[oid]


def _pieces(data: bytes) -> _IndexPieces:
    text = data if b"\0" in data[:8000] else data.replace(b"\r\n", b"\n")
    counts: dict[bytes, int] = {}
    for piece in _PIECE.findall(text):
        counts[piece] = counts.get(piece, 0) + len(piece)
    return _IndexPieces(len(data), counts)


def _same_names(
    sources: dict[bytes, tuple[int, bytes]], targets: dict[bytes, tuple[int, bytes]], similarity: _Similarity
) -> set[bytes]:
    """Pairs names that are unique on both sides."""
    used: set[bytes] = set()
    by_base = {_base(path): path for path in targets}
    old, new = Counter(map(_base, sources)), Counter(map(_base, targets))
    for source in sorted(sources):
        base = _base(source)
        if old[base] == 1 and new[base] == 1 and similarity(sources[source], targets[by_base[base]]) >= _SAME_NAME:
            _pair(source, by_base[base], sources, targets, used)
    return used


def _similar(
    sources: dict[bytes, tuple[int, bytes]], targets: dict[bytes, tuple[int, bytes]], similarity: _Similarity
) -> set[bytes]:
    used: set[bytes] = set()
    pairs: list[tuple[float, bool, bytes, bytes]] = []
    for target in sorted(targets):
        for source in sorted(sources):
            score = similarity(sources[source], targets[target])
            if score >= _HALF:
                pairs.append((-score, _base(source) != _base(target), target, source))
    for _, _, target, source in sorted(pairs):
        if source in sources and target in targets:
            _pair(source, target, sources, targets, used)
    return used
