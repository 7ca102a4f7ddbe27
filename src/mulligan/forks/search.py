"""
The search for the state that broke something: pure, from verdicts to the next state to try.

States stand in order, the first is good, the last is bad. A state that is the same as an earlier one has the same verdict, and
is never tried twice. Without skipped states, n states need at most ⌈log₂ n⌉ tries besides the two ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

GOOD, BAD, SKIP = "good", "bad", "skip"


class Range(NamedTuple):
    """The last state that is known to be good, and the first after it that is known to be bad."""

    good: int
    bad: int


def narrowed(states: Sequence[str], verdicts: Mapping[str, str]) -> Range:
    """Returns the range that is left, of states whose first is good and whose last is bad."""
    good, bad = 0, len(states) - 1
    for at in range(1, len(states) - 1):
        if verdicts.get(states[at]) == BAD:
            bad = at
            break
        if verdicts.get(states[at]) == GOOD:
            good = at
    return Range(good, bad)


def next_state(states: Sequence[str], verdicts: Mapping[str, str]) -> int | None:
    """Returns the state to try: the untried one nearest to the middle of what is left; None when the search is over."""
    good, bad = narrowed(states, verdicts)
    middle = (good + bad) // 2
    left = [at for at in range(good + 1, bad) if states[at] not in verdicts]
    return min(left, key=lambda at: abs(at - middle)) if left else None


def galloping(count: int) -> list[int]:
    """Returns states to try for a good one when the oldest is bad: back from the newest, in steps that double."""
    found, step = [], 1
    while count - 1 - step > 0:
        found.append(count - 1 - step)
        step *= 2
    return found


def verdict_of(code: int) -> str | None:
    """Returns what an exit code says, by git's rules: 0 good, 125 skip, up to 127 bad; None for more: stop."""
    if code == 0:
        return GOOD
    if code == 125:
        return SKIP
    return BAD if 0 < code <= 127 else None
