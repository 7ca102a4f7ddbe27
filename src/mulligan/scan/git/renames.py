"""
Which staged deletions are renames, judged as `git status` judges them.

First equal content, then equal names with similar content, then similar content. Similarity is git's own measure: the share
of bytes in lines (or pieces of 64 bytes) that both files have, half at least.
LIMIT: beyond ten thousand pairs, or for files over one mebibyte, only equal content counts; git goes further, and lists
the new name alone where mulligan lists both.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

PAIRS_LIMIT = 10_000
BLOB_LIMIT = 1 << 20
TOTAL_LIMIT = 64 << 20
WORK_LIMIT = 5_000_000

_HALF, _SAME_NAME = 0.5, 0.75
_PIECE = re.compile(rb"[^\n]{0,63}\n|[^\n]{1,64}")

Files = Mapping[bytes, tuple[int, bytes]]  # path → (mode, object id)


class _Pieces(NamedTuple):
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
        self._known: dict[bytes, _Pieces | None] = {}

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

    def _pieces(self, oid: bytes) -> _Pieces | None:
        if oid not in self._known:
            data = self._read(oid) if self._left > 0 else None
            self._left -= len(data or b"")
            self._known[oid] = _pieces(data) if data is not None and len(data) <= BLOB_LIMIT else None
        return self._known[oid]


def _pieces(data: bytes) -> _Pieces:
    text = data if b"\0" in data[:8000] else data.replace(b"\r\n", b"\n")
    counts: dict[bytes, int] = {}
    for piece in _PIECE.findall(text):
        counts[piece] = counts.get(piece, 0) + len(piece)
    return _Pieces(len(data), counts)


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
