"""
Which version of a text each of its lines comes from.

Pure. Versions come newest first. A line that a version has and the one before it has not was written by that version. Lines
are matched in small windows around each change, so a long file with many small changes costs little more than reading it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from mulligan.diff.lines import Block, changed_blocks

K = TypeVar("K")
#: Lines that are compared at once at first, that must agree before a window is taken for whole, and in one comparison.
_WINDOW, _SURE, _STEP = 128, 16, 256


class LinePlace(NamedTuple, Generic[K]):
    """A line of a version: the key of the version, and the number of the line there, from 0."""

    key: K
    line: int


def attribute(newest: tuple[K, bytes], older: Iterable[tuple[K, bytes]]) -> list[LinePlace[K]]:
    """Returns, for each line of the newest version, the line of the version that wrote it."""
    key, lines = newest[0], split_lines(newest[1])
    # For each line of the version at hand, which line of the newest it still is.
    now: list[int | None] = list(range(len(lines)))
    owners, left = [LinePlace(key, 0)] * len(lines), len(lines)
    for before, text in older:
        earlier = split_lines(text)
        for block in reversed(changed_lines(earlier, lines)):  # from the end, so that numbers before it stay true
            for at in range(block.new_start, block.new_end):
                if (line := now[at]) is not None:
                    owners[line] = LinePlace(key, at)
                    left -= 1
            now[block.new_start : block.new_end] = [None] * (block.old_end - block.old_start)
        key, lines = before, earlier
        if not left:
            break
    for at, line in enumerate(now):
        if line is not None:
            owners[line] = LinePlace(key, at)
    return owners


def common_lines(old: bytes, new: bytes) -> set[int]:
    """Returns the numbers of the new text's lines that the old one has too."""
    lines = split_lines(new)
    kept = set(range(len(lines)))
    for block in changed_lines(split_lines(old), lines):
        kept.difference_update(range(block.new_start, block.new_end))
    return kept


def split_lines(data: bytes) -> list[bytes]:
    r"""Returns the lines of a text. Only `\n` ends a line, as in git; a last line without it differs from one that has it."""
    lines = data.split(b"\n")
    if lines[-1]:
        lines[-1] += b"\n"  # no line holds this letter
    else:
        lines.pop()
    return lines


def changed_lines(old: list[bytes], new: list[bytes]) -> list[Block]:
    """Returns the changed blocks of two texts, searched in windows that grow until both sides agree again."""
    found: list[Block] = []
    i = j = 0
    while True:
        same = _common(old, i, new, j)
        i, j = i + same, j + same
        if i == len(old) and j == len(new):
            return found
        blocks, old_size, new_size = _window(old, i, new, j)
        found += [Block(b.old_start + i, b.old_end + i, b.new_start + j, b.new_end + j) for b in blocks]
        i, j = i + old_size, j + new_size


def _window(old: list[bytes], i: int, new: list[bytes], j: int) -> tuple[list[Block], int, int]:
    """Returns the blocks up to where both sides are sure to agree again, and how many lines of each that was."""
    size = _WINDOW
    while i + size < len(old) or j + size < len(new):
        one, two = old[i : i + size], new[j : j + size]
        blocks = changed_blocks(one, two)
        # What touches the end of the window may go on behind it.
        inner = [block for block in blocks if block.old_end < len(one) and block.new_end < len(two)]
        if inner:
            rest = blocks[len(inner)].old_start if len(inner) < len(blocks) else len(one)
            if rest - inner[-1].old_end >= _SURE:
                return inner, inner[-1].old_end, inner[-1].new_end
        size *= 4
    one, two = old[i:], new[j:]
    return changed_blocks(one, two), len(one), len(two)


def _common(old: list[bytes], i: int, new: list[bytes], j: int) -> int:
    """Returns how many lines are equal from two places on."""
    at, most = 0, min(len(old) - i, len(new) - j)
    while at < most and old[i + at : i + at + _STEP] == new[j + at : j + at + _STEP]:
        at += _STEP
    while at < most and old[i + at] == new[j + at]:
        at += 1
    return min(at, most)
