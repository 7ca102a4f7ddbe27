"""
Three texts into one: what changed from `base` to `ours` and from `base` to `theirs`, both kept.

Changes that touch each other are a conflict, and then there is no result: half a merge would be neither side's work. Lines only;
bytes that are no text are never merged.
"""

from __future__ import annotations

from collections.abc import Sequence

from mulligan.diff.lines import Block, changed_blocks

LARGEST = 8 << 20


def merge(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Returns the text with both sides' changes, None where they cannot be told apart."""
    if base == ours:
        return theirs
    if theirs in (base, ours):
        return ours
    if any(b"\0" in text or len(text) > LARGEST for text in (base, ours, theirs)):
        return None
    lines, one, other = (text.splitlines(keepends=True) for text in (base, ours, theirs))
    return _merged(lines, (one, changed_blocks(lines, one)), (other, changed_blocks(lines, other)))


Side = tuple[Sequence[bytes], list[Block]]


def _merged(base: Sequence[bytes], one: Side, other: Side) -> bytes | None:
    """Walks both lists of changes together; a change that overlaps or touches one of the other side is a conflict."""
    made: list[bytes] = []
    at, i, j = 0, 0, 0
    while i < len(one[1]) or j < len(other[1]):
        mine = one[1][i] if i < len(one[1]) else None
        yours = other[1][j] if j < len(other[1]) else None
        if mine is not None and yours is not None and _touch(mine, yours):
            if not _same(mine, one[0], yours, other[0]):
                return None
            i, j = i + 1, j + 1
            block, lines = mine, one[0]
        elif yours is None or (mine is not None and mine.old_start < yours.old_start):
            assert mine is not None  # noqa: S101 - one of the two is there, or the loop had ended
            i, block, lines = i + 1, mine, one[0]
        else:
            j, block, lines = j + 1, yours, other[0]
        made += base[at : block.old_start]
        made += lines[block.new_start : block.new_end]
        at = block.old_end
    return b"".join([*made, *base[at:]])


def _touch(one: Block, other: Block) -> bool:
    return one.old_start <= other.old_end and other.old_start <= one.old_end


def _same(one: Block, ours: Sequence[bytes], other: Block, theirs: Sequence[bytes]) -> bool:
    return (one.old_start, one.old_end) == (other.old_start, other.old_end) and (
        ours[one.new_start : one.new_end] == theirs[other.new_start : other.new_end]
    )
