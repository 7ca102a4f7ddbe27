"""What the rules let go: by count, by age, never what is pinned, and never everything."""

from __future__ import annotations

import pytest

from mulligan.model.checkpoint import Checkpoint, moment
from mulligan.model.policy import Retention
from mulligan.timeline.commits import Entry
from mulligan.timeline.retention import eviction_order, expired_checkpoints

DAY = 86_400 * 10**9
NOW = 1000 * DAY


def entry(number: int, kind: str = "step", *, age: int = 0) -> Entry:
    created = NOW - age * DAY
    checkpoint = Checkpoint(
        id=str(number),
        name="",
        description="",
        kind=kind,
        created_at=moment(created),
        parent=None,
        complete=True,
        commit="",
    )
    return Entry(checkpoint, created, bytes(20))


def gone(
    entries: list[Entry], kind: str = "step", pinned: tuple[str, ...] = (), now: int = NOW, **limits: int
) -> list[str]:
    return [e.id for e in expired_checkpoints(entries, kind, Retention(**limits), now_ns=now, pinned=pinned)]


def test_the_oldest_over_the_count_go():
    assert gone([entry(n) for n in range(5)], step=3) == ["3", "4"]
    assert gone([entry(n, "safety", age=8) for n in range(5)], "safety", safety=4) == ["4"]


def test_the_number_alone_never_removes_a_safety_checkpoint_before_it_is_a_week_old():
    assert gone([entry(n, "safety", age=6) for n in range(50)], "safety", safety=4) == []


@pytest.mark.parametrize("kind", ["manual", "feature"])
def test_what_was_asked_for_never_goes(kind):
    many = [entry(n, kind, age=900) for n in range(500)]
    assert gone(many, kind) == [] and eviction_order(many, pinned=()) == []


def test_what_is_pinned_stays():
    assert gone([entry(n) for n in range(5)], step=2, pinned=("3",)) == ["2", "4"]
    assert [e.id for e in eviction_order([entry(1), entry(2)], pinned=("1",))] == ["2"]


def test_old_steps_go_but_a_clock_that_jumped_leaves_half_of_them():
    entries = [entry(n, age=n) for n in range(10)]
    assert gone(entries, step=10, step_days=7) == ["8", "9"]
    assert gone(entries, step=10, now=NOW + 3650 * DAY) == ["5", "6", "7", "8", "9"]
    assert gone(entries, step=10, now=0) == []


def test_the_budget_takes_kinds_in_order_and_the_oldest_first():
    entries = [
        entry(n, kind)
        for n, kind in enumerate(["safety", "manual", "session", "automatic", "step", "step", "automatic"])
    ]
    assert [e.id for e in eviction_order(entries, pinned=())] == ["4", "5", "3", "6", "2", "0"]
