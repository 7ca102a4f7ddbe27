"""
Three texts into one: what changed from `base` to `ours` and from `base` to `theirs`, both kept.

Changes that touch each other clash, unless both sides made the same one. Lines only; bytes that are no text are never merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mulligan.diff.lines import Block, changed_blocks

LARGEST = 8 << 20
#: How lines are written that clash.
OURS, THEIRS, MARKERS = "ours", "theirs", "markers"


class Piece(NamedTuple):
    """
    Some lines of a merged text; where the sides clash, there are two versions of them.

    `line` is the number of the first line in `ours`, from 1.
    """

    ours: bytes
    theirs: bytes
    base: bytes = b""
    line: int = 0

    @property
    def clashes(self) -> bool:
        """Whether the sides disagree."""
        return self.ours != self.theirs


def merge(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Returns the text with both sides' changes, None where they cannot be told apart."""
    pieces = merge_pieces(base, ours, theirs)
    if pieces is None or any(piece.clashes for piece in pieces):
        return None
    return written(pieces, OURS)


def merge_pieces(base: bytes, ours: bytes, theirs: bytes) -> list[Piece] | None:
    """Returns the merged text in pieces, None where one of the three is no text or too large."""
    if base == ours:
        return [Piece(theirs, theirs)]
    if theirs in (base, ours):
        return [Piece(ours, ours)]
    if any(b"\0" in text or len(text) > LARGEST for text in (base, ours, theirs)):
        return None
    lines, one, other = (text.splitlines(keepends=True) for text in (base, ours, theirs))
    return list(_pieces(lines, one, other))


def written(pieces: Sequence[Piece], how: str, labels: tuple[str, str] = ("now", "before")) -> bytes:
    """Returns the text of some pieces; lines that clash are one side's, or both with markers between them."""
    if how != MARKERS:
        return b"".join(piece.theirs if how == THEIRS else piece.ours for piece in pieces)
    return b"".join(_marked(piece, labels) if piece.clashes else piece.ours for piece in pieces)


def _marked(piece: Piece, labels: tuple[str, str]) -> bytes:
    first, last = (label.encode("utf-8", "surrogateescape") for label in labels)
    end = b"\r\n" if b"\r\n" in piece.ours + piece.theirs else b"\n"
    ours, theirs = (text if not text or text.endswith(b"\n") else text + end for text in piece[:2])
    return b"<<<<<<< %b%b%b=======%b%b>>>>>>> %b%b" % (first, end, ours, end, theirs, last, end)


def _pieces(base: Sequence[bytes], ours: Sequence[bytes], theirs: Sequence[bytes]) -> Iterator[Piece]:
    """Walks both lists of changes together; those that touch each other make one piece."""
    one, other = changed_blocks(base, ours), changed_blocks(base, theirs)
    at, shift, their_shift = 0, 0, 0
    while one or other:
        start = min(blocks[0].old_start for blocks in (one, other) if blocks)
        end, mine, yours = _group(start, one, other)
        one, other = one[len(mine) :], other[len(yours) :]
        if at < start:
            same = b"".join(base[at:start])
            yield Piece(same, same)
        first, their_first = start + shift, start + their_shift
        shift, their_shift = shift + _growth(mine), their_shift + _growth(yours)
        left, right = b"".join(ours[first : end + shift]), b"".join(theirs[their_first : end + their_shift])
        if not yours or not mine:
            left = right = left if mine else right
        yield Piece(left, right, b"".join(base[start:end]), first + 1)
        at = end
    rest = b"".join(base[at:])
    yield Piece(rest, rest)


def _group(end: int, one: list[Block], other: list[Block]) -> tuple[int, list[Block], list[Block]]:
    """Returns the first changes of both sides that touch each other, and the line of the base that they end at."""
    mine, yours = 0, 0
    while True:
        if mine < len(one) and one[mine].old_start <= end:
            end, mine = max(end, one[mine].old_end), mine + 1
        elif yours < len(other) and other[yours].old_start <= end:
            end, yours = max(end, other[yours].old_end), yours + 1
        else:
            return end, one[:mine], other[:yours]


def _growth(blocks: Sequence[Block]) -> int:
    return sum((block.new_end - block.new_start) - (block.old_end - block.old_start) for block in blocks)
