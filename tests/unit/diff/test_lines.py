from __future__ import annotations

import random
from itertools import pairwise

import pytest

from mulligan.diff import lines
from mulligan.diff.lines import Block, changed_blocks, find_anchors


def numbered(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def applied(old: list[bytes], new: list[bytes], blocks: list[Block]) -> list[bytes]:
    """The old text with each block replaced, which must be the new text."""
    result, at = [], 0
    for block in blocks:
        result += old[at : block.old_start] + new[block.new_start : block.new_end]
        at = block.old_end
    return result + old[at:]


def size(blocks: list[Block]) -> int:
    return sum(b.old_end - b.old_start + b.new_end - b.new_start for b in blocks)


def test_equal_texts_have_no_blocks() -> None:
    assert changed_blocks([], []) == []
    assert changed_blocks(numbered(1, 2, 2), numbered(1, 2, 2)) == []


def test_an_insertion_and_a_deletion_are_found_where_they_are() -> None:
    old, new = numbered(1, 2, 3, 4, 5, 6), numbered(1, 9, 2, 3, 4, 6)
    assert changed_blocks(old, new) == [Block(1, 1, 1, 2), Block(4, 5, 5, 5)]


def test_anchors_keep_functions_whole() -> None:
    """An inserted function is one block, although its braces and blank lines match elsewhere."""
    one = [b"void a()", b"{", b"  x();", b"}", b""]
    two = [b"void b()", b"{", b"  y();", b"}", b""]
    three = [b"void c()", b"{", b"  z();", b"}", b""]
    assert changed_blocks(one + three, one + two + three) == [Block(5, 5, 5, 10)]


def test_repetitive_stretches_are_still_compared_line_by_line() -> None:
    """Where no line is unique, the shortest edit is found."""
    old = numbered(*[1, 2] * 40)
    new = [*old[:20], b"9", b"9", *old[20:50], *old[51:]]
    assert size(changed_blocks(old, new)) == 3


@pytest.mark.parametrize("seed", range(30))
def test_blocks_turn_the_old_text_into_the_new(seed: int) -> None:
    """Whatever the budget: a small one gives longer blocks, never wrong ones."""
    rng = random.Random(seed)
    letters = rng.choice([2, 5, 60])
    old = numbered(*(rng.randrange(letters) for _ in range(rng.randrange(80))))
    new = numbered(*(rng.randrange(letters) for _ in range(rng.randrange(80))))
    for budget in (0, 100, 1000, lines.BUDGET):
        blocks = changed_blocks(old, new, budget=budget)
        assert applied(old, new, blocks) == new
        assert all(b.old_end < c.old_start and b.new_end < c.new_start for b, c in pairwise(blocks))


@pytest.mark.parametrize("seed", range(30))
def test_without_unique_lines_the_edit_is_the_shortest(seed: int) -> None:
    """Checked against the textbook table."""
    rng = random.Random(seed)
    old = numbered(*(rng.randrange(3) for _ in range(30))) * 2
    new = [line for line in old if rng.random() > 0.1] + numbered(7, 7)
    assert size(changed_blocks(old, new)) == len(old) + len(new) - 2 * common(old, new)


def common(old: list[bytes], new: list[bytes]) -> int:
    row = [0] * (len(new) + 1)
    for line in old:
        before = row
        row = [0]
        for at, other in enumerate(new):
            row.append(before[at] + 1 if line == other else max(before[at + 1], row[at]))
    return row[-1]


def nested(levels: int) -> list[bytes]:
    """A text whose gaps show a unique line only after the gap around them was cut: one level of search each."""
    text = [b"p0", b"q"]
    for number in range(1, levels):
        text += [b"p%d" % number, b"p%d" % (number - 1)]
    return text


RULER = [b"%d" % (n & -n).bit_length() for n in range(1, 1 << 14)]
HOSTILE = {
    "all equal": ([b"x"] * 50_000, [b"y"] + [b"x"] * 40_000 + [b"z"]),
    "all different": ([b"a%d" % n for n in range(50_000)], [b"b%d" % n for n in range(50_000)]),
    "reversed": ([b"a%d" % n for n in range(50_000)], [b"a%d" % n for n in reversed(range(50_000))]),
    "two letters": ([b"xy"[n % 7 % 2 :] for n in range(50_000)], [b"xy"[n % 5 % 2 :] for n in range(50_000)]),
    "a ruler": (RULER, [b"new", *RULER[:999], b"middle", *RULER[999:], b"end"]),
    "nested": (nested(20_000), [b"new", *(line for line in nested(20_000) if line != b"p77"), b"end"]),
    "long lines": (
        [b"x" * 1000 + b"%d" % n for n in range(1000)],
        [b"x" * 1000 + b"%d" % n for n in range(999, -1, -1)],
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_come_to_an_end(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """And in silence: a diff may be made inside somebody's program."""
    old, new = HOSTILE[name]
    assert applied(old, new, changed_blocks(old, new)) == new
    assert capfd.readouterr() == ("", "")


def test_the_budget_bounds_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that takes one search per line, each over all the rest, is given up after a fixed number of visits."""
    searched: list[int] = []

    def counting(old: list[int], new: list[int]) -> list[tuple[int, int]]:
        searched.append(len(old) + len(new))
        return find_anchors(old, new)

    monkeypatch.setattr(lines, "find_anchors", counting)
    old = [part for number, line in enumerate(nested(400)) for part in (line, b"old %d" % number)]
    new = [part for number, line in enumerate(nested(400)) for part in (line, b"new %d" % number)]
    assert size(changed_blocks(old, new)) == 1600
    assert len(searched) > 300 and sum(searched) > 300_000
    searched.clear()
    blocks = changed_blocks(old, new, budget=50_000)
    assert applied(old, new, blocks) == new
    assert sum(searched) <= 50_000


@pytest.mark.parametrize("seed", range(30))
def test_anchors_are_the_longest_run_of_lines_that_occur_once(seed: int) -> None:
    """Checked against the textbook table, over the lines that may be anchors."""
    rng = random.Random(seed)
    old = [rng.randrange(40) for _ in range(rng.randrange(40))]
    new = [rng.randrange(40) for _ in range(rng.randrange(40))]
    anchors = find_anchors(old, new)
    assert all(old[i] == new[j] and old.count(old[i]) == new.count(new[j]) == 1 for i, j in anchors)
    assert all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(anchors))
    single = {line for line in old if old.count(line) == new.count(line) == 1}
    may = [numbered(*(line for line in text if line in single)) for text in (old, new)]
    assert len(anchors) == common(*may)


def test_a_moved_line_does_not_cost_the_others_their_anchors() -> None:
    assert find_anchors([1, 2, 3, 4, 5], [4, 1, 2, 3, 5]) == [(0, 1), (1, 2), (2, 3), (4, 4)]
    assert find_anchors([1, 2, 2, 3], [3, 2, 1]) == [(0, 2)]
    assert find_anchors([], [1]) == find_anchors([1, 1], [1]) == []
