"""
Which of the files that went and came are one file under a new name.

A guess about intent, with limits on what it reads; past them a rename is shown as a deletion and an addition, which is as
true. How much of one text is in another is counted as git does: a text is a bag of lines, lines longer than 64 bytes cut into
pieces, and the similarity is the bytes found in both over the bytes of the larger. Order does not count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mulligan.diff.compare import UNREADABLE
from mulligan.diff.lines import is_binary
from mulligan.model.objects import EMPTY_BLOB, MODE_DIR, MODE_LINK, MODE_SEALED, Change, TreeEntry

SIMILAR = 50  # per cent, git's default for -M
SIMILAR_SAME_NAME = 75  # a unique equal file name is taken without looking further only when this similar, as in git
MAX_PAIRS = 40_000
MAX_FILE = 1 << 20
MAX_READ = 16 << 20  # fingerprints need about six times the text in memory
LEAST_READ = 4096  # what the smallest read counts, so that their number has a bound too
MAX_STEPS = 5_000_000
_PIECE = re.compile(rb"[^\n]{0,64}\n?")


class Fingerprint(NamedTuple):
    """The pieces of a text and how often each occurs."""

    chunks: Counter[bytes]
    size: int


def fingerprint(data: bytes) -> Fingerprint:
    """Returns the bag of pieces of a text."""
    return Fingerprint(Counter(_PIECE.findall(data)), len(data))


def score(one: Fingerprint, other: Fingerprint) -> int:
    """Returns the similarity of two texts in whole per cent, rounded down; 100 only means that all pieces agree."""
    few, many = (one, other) if len(one.chunks) <= len(other.chunks) else (other, one)
    count = many.chunks.get
    shared = sum(len(piece) * min(times, count(piece, 0)) for piece, times in few.chunks.items())
    return shared * 100 // max(one.size, other.size, 1)


class _Side(NamedTuple):
    """A deleted or added file that may be half of a rename."""

    change: Change
    entry: TreeEntry

    @property
    def name(self) -> bytes:
        return self.change.path.rpartition(b"/")[2]

    @property
    def is_link(self) -> bool:
        return self.entry.mode == MODE_LINK


def find_renames(
    changes: Sequence[Change], read_blob: Callable[[bytes], bytes], size_of: Callable[[bytes], int]
) -> list[tuple[Change, Change]]:
    """
    Returns the (deleted, added) pairs that are one file under a new name, sorted by the new path.

    Equal contents pair first, then text that is at least half the same. Empty files pair with nothing, nor do a link
    and a file. A blob that cannot be read is left out.
    """
    gone = [_Side(c, c.old) for c in changes if c.new is None and c.old is not None and _may_move(c.old)]
    made = [_Side(c, c.new) for c in changes if c.old is None and c.new is not None and _may_move(c.new)]
    if not gone or not made:
        return []
    pairs = _pair_equal(gone, made)
    gone, made = _without(gone, pairs, 0), _without(made, pairs, 1)
    if gone and made:
        pairs += _Similar(read_blob, size_of).pair(gone, made)
    return sorted(((old.change, new.change) for old, new in pairs), key=lambda pair: pair[1].path)


def _may_move(entry: TreeEntry) -> bool:
    return entry.mode not in (MODE_DIR, MODE_SEALED) and entry.oid != EMPTY_BLOB


def _without(sides: list[_Side], pairs: list[tuple[_Side, _Side]], which: int) -> list[_Side]:
    taken = {pair[which].change.path for pair in pairs}
    return [side for side in sides if side.change.path not in taken]


def _pair_equal(gone: list[_Side], made: list[_Side]) -> list[tuple[_Side, _Side]]:
    """Pairs equal contents, those with the same file name first."""
    pairs: list[tuple[_Side, _Side]] = []
    for with_name in (True, False):
        free: dict[tuple[bytes, bool, bytes], list[_Side]] = {}
        for side in reversed(_without(gone, pairs, 0)):
            free.setdefault(_content_key(side, with_name=with_name), []).append(side)
        for side in _without(made, pairs, 1):
            sources = free.get(_content_key(side, with_name=with_name))
            if sources:
                pairs.append((sources.pop(), side))
    return pairs


def _content_key(side: _Side, *, with_name: bool) -> tuple[bytes, bool, bytes]:
    return side.entry.oid, side.is_link, side.name if with_name else b""


class _Similar:
    """One search for similar files, with what it has read and may still spend."""

    def __init__(self, read_blob: Callable[[bytes], bytes], size_of: Callable[[bytes], int]) -> None:
        self._read_blob = read_blob
        self._size_of = size_of
        self._prints: dict[bytes, Fingerprint | None] = {}
        self._sizes: dict[bytes, int] = {}
        self._may_read = MAX_READ
        self._steps = MAX_STEPS

    def pair(self, gone: list[_Side], made: list[_Side]) -> list[tuple[_Side, _Side]]:
        """Pairs similar text: by unique file name first, then the most similar of all."""
        gone = [side for side in gone if not side.is_link]
        made = [side for side in made if not side.is_link]
        pairs = [(old, new) for old, new in _unique_names(gone, made) if self._score(old, new) >= SIMILAR_SAME_NAME]
        gone, made = _without(gone, pairs, 0), _without(made, pairs, 1)
        if len(gone) * len(made) <= MAX_PAIRS:
            pairs += self._best(gone, made)
        return pairs

    def _best(self, gone: list[_Side], made: list[_Side]) -> list[tuple[_Side, _Side]]:
        ranked = []
        for new_at, new in enumerate(made):
            for old_at, old in enumerate(gone):
                percent = self._score(old, new)
                if percent >= SIMILAR:
                    ranked.append((-percent, old.name != new.name, new_at, old_at))
        pairs, used_old, used_new = [], set(), set()
        for _, _, new_at, old_at in sorted(ranked):
            if new_at not in used_new and old_at not in used_old:
                used_new.add(new_at)
                used_old.add(old_at)
                pairs.append((gone[old_at], made[new_at]))
        return pairs

    def _score(self, old: _Side, new: _Side) -> int:
        small, large = sorted((self._size(old), self._size(new)))
        if not small or large > MAX_FILE or small * 100 < large * SIMILAR or self._steps <= 0:
            return 0
        one, other = self._print(old), self._print(new)
        if one is None or other is None:
            return 0
        self._steps -= min(len(one.chunks), len(other.chunks))
        return score(one, other)

    def _size(self, side: _Side) -> int:
        oid = side.entry.oid
        if oid not in self._sizes:
            self._sizes[oid] = self._ask_size(oid)
        return self._sizes[oid]

    def _ask_size(self, oid: bytes) -> int:
        try:
            return self._size_of(oid)
        except UNREADABLE:
            return 0

    def _print(self, side: _Side) -> Fingerprint | None:
        oid = side.entry.oid
        if oid not in self._prints:
            self._prints[oid] = self._read(oid, self._size(side))
        return self._prints[oid]

    def _read(self, oid: bytes, size: int) -> Fingerprint | None:
        cost = max(size, LEAST_READ)
        if cost > self._may_read:
            return None
        self._may_read -= cost
        try:
            data = self._read_blob(oid)
        except UNREADABLE:
            return None
        return None if is_binary(data) else fingerprint(data)


def _unique_names(gone: Iterable[_Side], made: Iterable[_Side]) -> list[tuple[_Side, _Side]]:
    """Returns the pairs whose file name occurs exactly once on each side."""
    gone, made = list(gone), list(made)
    old_names, new_names = Counter(side.name for side in gone), Counter(side.name for side in made)
    by_name = {side.name: side for side in gone if old_names[side.name] == 1}
    return [(by_name[side.name], side) for side in made if side.name in by_name and new_names[side.name] == 1]
