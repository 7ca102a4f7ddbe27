"""The search finds the state that broke something, in as few runs as promised; pure."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from mulligan.forks.search import BAD, GOOD, SKIP, galloping, narrowed, next_state, verdict_of


def search(states, judge):
    """Plays a search; returns the range and how many states were tried besides the ends."""
    verdicts = {states[0]: GOOD, states[-1]: BAD}
    tried = 0
    while (at := next_state(states, verdicts)) is not None:
        verdicts[states[at]] = judge(at)
        tried += 1
    return narrowed(states, verdicts), tried


@given(st.integers(2, 600), st.data())
def test_a_planted_step_is_found_in_log2_tries(count, data):
    broken = data.draw(st.integers(1, count - 1))
    states = [str(at) for at in range(count)]
    found, tried = search(states, lambda at: BAD if at >= broken else GOOD)
    assert found == (broken - 1, broken)
    assert tried <= math.ceil(math.log2(count))


@given(st.lists(st.integers(0, 5), min_size=2, max_size=60), st.data())
def test_states_that_come_back_are_tried_once(marks, data):
    states = ["good", *(f"s{mark}" for mark in marks), "bad"]
    bad = data.draw(st.sets(st.sampled_from([f"s{mark}" for mark in marks])))
    (good, first_bad), tried = search(states, lambda at: BAD if states[at] in bad else GOOD)
    assert tried <= len(set(states)) - 2
    assert first_bad == good + 1 and states[good] not in bad and states[first_bad] in {*bad, "bad"}


@given(st.integers(2, 80), st.data())
def test_skipped_states_are_named_and_never_taken_for_the_answer(count, data):
    broken = data.draw(st.integers(1, count - 1))
    skipped = data.draw(st.sets(st.integers(1, max(1, count - 2))))
    states = [str(at) for at in range(count)]

    def judge(at):
        return SKIP if at in skipped else BAD if at >= broken else GOOD

    (good, bad), _ = search(states, judge)
    assert good < broken <= bad
    assert all(at in skipped for at in range(good + 1, bad))


def test_exit_codes_mean_what_they_mean_to_git():
    assert [verdict_of(code) for code in (0, 1, 2, 124, 125, 126, 127, 128, 255, -9)] == [
        *(GOOD, BAD, BAD, BAD, SKIP, BAD, BAD, None, None, None)
    ]


def test_without_a_good_end_newer_states_are_tried_in_doubling_steps():
    assert galloping(2) == []
    assert galloping(20) == [18, 17, 15, 11, 3]
