"""Shows the hunks of a change, which are those of a patch, and applies some of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mulligan.diff.lines import Group, lines_of
from mulligan.steps.hunk import HunkLine


def split_lines(text: bytes) -> list[bytes]:
    """Returns the lines of a text with their ends; only a line feed ends one."""
    return [line + b"\n" for line in text.split(b"\n")[:-1]] + ([last] if (last := text.rpartition(b"\n")[2]) else [])


def hunk_lines(group: Group, old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[HunkLine]:
    """Yields the lines of a hunk, with its context."""
    for tag, line in lines_of(group, old, new):
        yield HunkLine(tag.decode(), line.removesuffix(b"\n").decode("utf-8", "surrogateescape"))
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
