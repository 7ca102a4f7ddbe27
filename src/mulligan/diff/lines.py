"""
Which lines of one text are in the other.

Patience first: lines that occur once on both sides are anchors, and each gap between anchors is treated the same way.
A gap without anchors goes to Myers' shortest edit, as far as the budget allows; what is left is replaced as a whole,
which is longer than need be and never wrong. The budget counts line visits, not seconds, so equal inputs give equal
output on every machine.

Why no library does this: docs/decisions/0005-own-line-matcher.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

BUDGET = 4_000_000
MAX_EDITS = 256
#: As many lines that stay are shown around a change.
CONTEXT = 3
_SNIFFED = 8000  # where git looks for a NUL


def is_binary(data: bytes) -> bool:
    """Returns whether git would call these bytes binary."""
    return data.find(b"\0", 0, _SNIFFED) >= 0


class Block(NamedTuple):
    """Lines `old_start:old_end` of the old text give way to lines `new_start:new_end` of the new."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


class _Gap(NamedTuple):
    """A stretch of both texts that is not matched yet."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int

    @property
    def size(self) -> int:
        return self.old_end - self.old_start + self.new_end - self.new_start


def changed_blocks(old: Sequence[bytes], new: Sequence[bytes], *, budget: int = BUDGET) -> list[Block]:
    """Returns the smallest number of changed blocks it can find within the budget, in order and never touching."""
    names: dict[bytes, int] = {}
    one = [names.setdefault(line, len(names)) for line in old]
    other = [names.setdefault(line, len(names)) for line in new]
    return _Matcher(one, other, budget).blocks()


#: Some blocks that are one hunk, in order.
Group = tuple[Block, ...]


def group_blocks(blocks: Iterable[Block]) -> list[Group]:
    """Returns the blocks in groups whose contexts touch: one hunk each."""
    groups: list[list[Block]] = []
    for block in blocks:
        if groups and block.old_start - groups[-1][-1].old_end <= 2 * CONTEXT:
            groups[-1].append(block)
        else:
            groups.append([block])
    return [tuple(group) for group in groups]


def extent_of(group: Group, old: Sequence[bytes]) -> Block:
    """Returns the lines that a hunk shows on both sides, with its context."""
    first, last = group[0], group[-1]
    before, after = min(CONTEXT, first.old_start), min(CONTEXT, len(old) - last.old_end)
    return Block(first.old_start - before, last.old_end + after, first.new_start - before, last.new_end + after)


def lines_of(group: Group, old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yields the lines of a hunk, each with its tag: ` ` stays, `-` goes, `+` comes."""
    shown = extent_of(group, old)
    at = shown.old_start
    for block in group:
        yield from ((b" ", line) for line in old[at : block.old_start])
        yield from ((b"-", line) for line in old[block.old_start : block.old_end])
        yield from ((b"+", line) for line in new[block.new_start : block.new_end])
        at = block.old_end
    yield from ((b" ", line) for line in old[at : shown.old_end])


class _Matcher:
    """One comparison, on line numbers instead of lines so that long lines cost nothing, with its budget."""

    def __init__(self, old: list[int], new: list[int], budget: int) -> None:
        self._old = old
        self._new = new
        self._budget = budget

    def blocks(self) -> list[Block]:
        """Returns the changed blocks, neighbours joined."""
        found: list[Block] = []
        pending = [_Gap(0, len(self._old), 0, len(self._new))]
        while pending:
            gap = self._trim(pending.pop())
            if gap.old_start == gap.old_end or gap.new_start == gap.new_end:
                found += [Block(*gap)] if gap.size else []
            else:
                inner = self._split(gap)
                if inner is None:
                    found += self._edits(gap)
                else:
                    pending += inner
        return _joined(sorted(found))

    def _trim(self, gap: _Gap) -> _Gap:
        old, new = self._old, self._new
        i, i_end, j, j_end = gap
        while i < i_end and j < j_end and old[i] == new[j]:
            i += 1
            j += 1
        while i < i_end and j < j_end and old[i_end - 1] == new[j_end - 1]:
            i_end -= 1
            j_end -= 1
        return _Gap(i, i_end, j, j_end)

    def _split(self, gap: _Gap) -> list[_Gap] | None:
        """Returns the gaps between the anchors of a gap, or None if it has none or the budget is spent."""
        self._budget -= gap.size
        if self._budget < 0:
            return None
        anchors = find_anchors(self._old[gap.old_start : gap.old_end], self._new[gap.new_start : gap.new_end])
        return list(_between(gap, anchors)) if anchors else None

    def _edits(self, gap: _Gap) -> list[Block]:
        limit = min(MAX_EDITS, self._budget // (gap.size + 1))
        if limit <= abs((gap.old_end - gap.old_start) - (gap.new_end - gap.new_start)):
            return [Block(*gap)]
        old, new = self._old[gap.old_start : gap.old_end], self._new[gap.new_start : gap.new_end]
        if set(old).isdisjoint(new):
            return [Block(*gap)]
        script = _shortest_edit(old, new, limit)
        self._budget -= gap.size * (len(script) if script else limit)
        if not script:
            return [Block(*gap)]
        i, j = gap.old_start, gap.new_start
        return [Block(b.old_start + i, b.old_end + i, b.new_start + j, b.new_end + j) for b in script]


def _between(gap: _Gap, anchors: list[tuple[int, int]]) -> Iterator[_Gap]:
    i, j = gap.old_start, gap.new_start
    for old_offset, new_offset in anchors:
        old_at, new_at = gap.old_start + old_offset, gap.new_start + new_offset
        if old_at > i or new_at > j:
            yield _Gap(i, old_at, j, new_at)
        i, j = old_at + 1, new_at + 1
    if i < gap.old_end or j < gap.new_end:
        yield _Gap(i, gap.old_end, j, gap.new_end)


def _joined(blocks: Iterable[Block]) -> list[Block]:
    joined: list[Block] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if last and last.old_end == block.old_start and last.new_end == block.new_start:
            joined[-1] = Block(last.old_start, block.old_end, last.new_start, block.new_end)
        else:
            joined.append(block)
    return joined


def _shortest_edit(old: list[int], new: list[int], limit: int) -> list[Block]:
    """Returns the fewest single-line edits as blocks (Myers 1986, greedy); nothing if that is more than `limit`."""
    n, m = len(old), len(new)
    reach = [0] * (2 * limit + 3)
    trace: list[list[int]] = []
    middle = limit + 1
    for edits in range(limit + 1):
        trace.append(reach[middle - edits - 1 : middle + edits + 2])
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach[middle + k - 1] < reach[middle + k + 1])
            x = reach[middle + k + 1] if down else reach[middle + k - 1] + 1
            y = x - k
            while x < n and y < m and old[x] == new[y]:
                x += 1
                y += 1
            reach[middle + k] = x
            if x >= n and y >= m:
                return _walk_back(trace, n, m)
    return []


def _walk_back(trace: list[list[int]], x: int, y: int) -> list[Block]:
    """Returns the edits that led to the end; `trace[d]` holds how far each diagonal reached before edit d."""
    blocks: list[Block] = []
    for edits in range(len(trace) - 1, 0, -1):
        reach, k = trace[edits], x - y
        at = k + edits + 1  # diagonal k in this row, whose first element is diagonal -edits - 1
        down = k == -edits or (k != edits and reach[at - 1] < reach[at + 1])
        if down:
            x = reach[at + 1]
            y = x - (k + 1)
            blocks.append(Block(x, x, y, y + 1))
        else:
            x = reach[at - 1]
            y = x - (k - 1)
            blocks.append(Block(x, x + 1, y, y))
    return blocks[::-1]


def find_anchors(old: Sequence[int], new: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the longest increasing run of pairs of lines that occur once on both sides."""
    places = _once(old)
    pairs = [(places[line], j) for line, j in _once(new).items() if line in places]
    tails: list[int] = []
    ends: list[int] = []
    back: list[int] = []
    for at, (i, _) in enumerate(pairs):
        if not tails or i > tails[-1]:  # most lines did not move, so most pairs need no search
            back.append(ends[-1] if ends else -1)
            tails.append(i)
            ends.append(at)
        else:
            length = bisect_left(tails, i)
            back.append(ends[length - 1] if length else -1)
            tails[length], ends[length] = i, at
    chain, at = [], ends[-1] if ends else -1
    while at >= 0:
        chain.append(pairs[at])
        at = back[at]
    return chain[::-1]


def _once(lines: Sequence[int]) -> dict[int, int]:
    """Returns the position of every line that occurs exactly once, in order."""
    places: dict[int, int] = {}
    for at, line in enumerate(lines):
        places[line] = -1 if line in places else at
    return {line: at for line, at in places.items() if at >= 0}
