"""
Cuts the change from one text to another into hunks, and applies some of them.

The hunks are those of a patch: changes with so little between them that their context would overlap are one hunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mulligan.diff.lines import Block, changed_blocks
from mulligan.steps.hunk import HunkLine

CONTEXT = 3

#: Some changes that are one hunk, in order.
Group = tuple[Block, ...]


def split_lines(text: bytes) -> list[bytes]:
    """Returns the lines of a text with their ends; only a line feed ends one."""
    return [line + b"\n" for line in text.split(b"\n")[:-1]] + ([last] if (last := text.rpartition(b"\n")[2]) else [])


def group_blocks(old: Sequence[bytes], new: Sequence[bytes], context: int = CONTEXT) -> list[Group]:
    """Returns the changes between two texts, those together that make one hunk."""
    groups: list[list[Block]] = []
    for block in changed_blocks(old, new):
        if groups and block.old_start - groups[-1][-1].old_end <= 2 * context:
            groups[-1].append(block)
        else:
            groups.append([block])
    return [tuple(group) for group in groups]


def extent_of(group: Group, old: Sequence[bytes], context: int = CONTEXT) -> Block:
    """Returns the lines that a hunk shows on both sides."""
    before = min(context, group[0].old_start)
    after = min(context, len(old) - group[-1].old_end)
    return Block(
        group[0].old_start - before, group[-1].old_end + after, group[0].new_start - before, group[-1].new_end + after
    )


def lines_of(group: Group, old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[HunkLine]:
    """Yields the lines of a hunk, with its context."""
    shown = extent_of(group, old)
    at = shown.old_start
    for block in group:
        yield from _tagged(" ", old[at : block.old_start])
        yield from _tagged("-", old[block.old_start : block.old_end])
        yield from _tagged("+", new[block.new_start : block.new_end])
        at = block.old_end
    yield from _tagged(" ", old[at : shown.old_end])


def _tagged(tag: str, lines: Iterable[bytes]) -> Iterator[HunkLine]:
    for line in lines:
        yield HunkLine(tag, line.removesuffix(b"\n").decode("utf-8", "surrogateescape"))
        if not line.endswith(b"\n"):
            yield HunkLine("\\", "No newline at end of file")


def apply_groups(old: Sequence[bytes], new: Sequence[bytes], groups: Iterable[Group]) -> bytes:
    """Returns the old text with some of the changes to the new one."""
    made: list[bytes] = []
    at = 0
    for block in (block for group in groups for block in group):
        made += [*old[at : block.old_start], *new[block.new_start : block.new_end]]
        at = block.old_end
    return b"".join([*made, *old[at:]])
