"""
Which version of a text each of its lines comes from.

Pure. Versions come newest first. A line that a version has and the one before it has not was written by that version.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from mulligan.diff.lines import changed_blocks

K = TypeVar("K")


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
        for block in reversed(changed_blocks(earlier, lines)):  # from the end, so that numbers before it stay true
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
    for block in changed_blocks(split_lines(old), lines):
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
