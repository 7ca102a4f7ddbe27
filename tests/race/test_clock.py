"""A clock that jumps by years, steps back and stands still: order is ancestry, nothing is lost, retention never empties history."""

from __future__ import annotations

import random

import pytest

import mulligan
from checker import judge
from mulligan.model.policy import Retention
from mulligan.settings import resolve
from tools import sweep
from tree import contents, put

YEAR = 365 * 86_400 * 10**9
START = 1_790_000_000 * 10**9
#: What 64 bits of nanoseconds can say ends in the year 2262; a clock may say more.
_LAST = 2**64


class Clock:
    """Time as it comes: each look is where the last one was, or far from it."""

    def __init__(self, seed: int, jumps: tuple[int, ...]) -> None:
        self._rng, self._jumps, self.now = random.Random(seed), jumps, START

    def __call__(self) -> int:
        self.now = min(max(-YEAR, self.now + self._rng.choice(self._jumps)), _LAST)
        return self.now


CLOCKS = {
    "stands still": (0,),
    "steps back": (-1, -(10**9), -86_400 * 10**9),
    "jumps by years": (YEAR, -YEAR, 0, 1),
    "only ahead": (YEAR,),
    "beyond 2262": (100 * YEAR, 200 * YEAR, 1),
    "before 1970": (-100 * YEAR, 1),
    "all at once": (YEAR, -YEAR, -(10**6), 0, 0, 10**6, 40 * YEAR, -40 * YEAR),
}


def workspace(project, store, clock, **retention):
    settings = resolve(project, store=store)
    return mulligan.Workspace(settings._replace(retention=Retention(**retention)), now_ns=clock)


@pytest.mark.parametrize("jumps", CLOCKS.values(), ids=CLOCKS)
def test_order_is_ancestry_whatever_the_clock_says(project, store, jumps):
    """Reliability row 23."""
    states, ids = [], []
    with workspace(project, store, Clock(1, jumps)) as ws:
        for number in range(sweep(20)):
            put(project, "a", "x" * (number + 1))
            put(project, f"d/f{number % 5}", f"{number}" * (number + 1))
            ids.append(ws.save(f"n{number}").id)
            states.append(contents(project))
        log = ws.log(limit=None)
        assert [cp.id for cp in log] == ids[::-1]
        assert [cp.parent for cp in log] == [*ids[-2::-1], None]
        assert ws.get("latest").id == ids[-1]
        assert ws.get("latest~3").id == ids[-4]
        for number in (0, len(ids) // 2, len(ids) - 1):
            ws.restore(ids[number])
            assert contents(project) == states[number]
        ws.undo()
        assert contents(project) == states[len(ids) // 2]
        ws.redo()
        assert contents(project) == states[-1]
        ws.prune()
        assert {cp.id for cp in ws.log(limit=None)} >= set(ids)
    assert judge(store, project, with_fsck=False) == []


@pytest.mark.parametrize("jumps", CLOCKS.values(), ids=CLOCKS)
def test_retention_never_empties_history(project, store, jumps):
    """The newest of each kind stay, by the order in which they were saved; what a person asked to keep stays always."""
    saved: dict[str, list[str]] = {"step": [], "automatic": [], "manual": []}
    rng = random.Random(2)
    with workspace(project, store, Clock(3, jumps), step=6, automatic=4, step_days=7) as ws:
        for number in range(sweep(30)):
            put(project, "a", "x" * (number + 1))
            kind = rng.choice(list(saved))
            saved[kind].append(ws.save(f"n{number}", kind=kind).id)
            there = {cp.id for cp in ws.log(limit=None)}
            assert set(saved["manual"]) <= there
            assert set(saved["step"][-3:]) <= there, "half of the steps stay, however old the clock makes them"
            assert set(saved["automatic"][-4:]) <= there
            assert len([name for name in saved["step"] if name in there]) <= 6
            assert ws.cat("latest", "a") == b"x" * (number + 1)
    assert judge(store, project, with_fsck=False) == []
