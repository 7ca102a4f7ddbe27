"""Tidying up while nobody waits: the store levels off, saves come in between, and nothing that is needed goes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import mulligan
from checker import judge
from mulligan.engine import watching
from mulligan.model.policy import Retention
from mulligan.settings import resolve
from mulligan.store import gc
from mulligan.timeline import pruning
from tree import put

STEPS = 6


def noise(number: int, size: int = 3000) -> bytes:
    return random.Random(number).randbytes(size)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Little is enough to be worth it, and every portion is small."""
    monkeypatch.setattr(pruning, "_GROWN", 1)
    monkeypatch.setattr(gc, "PORTION", 10_000)
    monkeypatch.setattr(pruning, "_AT_A_TIME", 1)


def open_again(project: Path, store: Path) -> mulligan.Workspace:
    return mulligan.Workspace(resolve(project, store=store)._replace(retention=Retention(step=STEPS)))


@pytest.fixture
def ws(project, store):
    with open_again(project, store) as workspace:
        yield workspace


def step(ws, project, number: int) -> mulligan.Checkpoint:
    put(project, f"d{number % 3}/f{number % 4}", noise(number))
    return ws.save(f"n{number}", kind="step")


def size(store: Path) -> int:
    return sum(path.stat().st_size for path in (store / "objects" / "pack").iterdir())


def test_a_store_that_is_tidied_up_levels_off(ws, project, store):
    sizes = []
    for number in range(80):
        step(ws, project, number)
        while ws.tidy():
            pass
        sizes.append(size(store))
    assert max(sizes[40:]) <= 1.5 * max(sizes[STEPS : 2 * STEPS])
    before = size(store)
    ws.prune()
    assert before - size(store) <= before / 3
    for number in range(80 - STEPS, 80):
        assert ws.cat(f"n{number}", f"d{number % 3}/f{number % 4}") == noise(number)
    assert judge(store, project) == []


def test_where_nothing_was_let_go_nothing_is_looked_for(ws, project, store, monkeypatch):
    for number in range(STEPS):
        step(ws, project, number)
    monkeypatch.setattr(ws.bench.store, "writing", None)  # nothing here may ask for the lock
    assert ws.tidy() is False


def test_what_was_looked_at_is_not_looked_at_again_until_packs_have_grown(ws, project, monkeypatch):
    for number in range(20):
        step(ws, project, number)
    assert ws.tidy()
    while ws.tidy():
        pass
    monkeypatch.setattr(ws.bench.store, "writing", None)
    assert ws.tidy() is False
    monkeypatch.undo()
    monkeypatch.setattr(pruning, "_GROWN", 1 << 20)
    for number in range(20, 25):
        step(ws, project, number)
    assert ws.tidy() is False


def test_after_gc_there_is_nothing_left_to_free(ws, project):
    for number in range(20):
        step(ws, project, number)
    ws.prune()
    assert ws.tidy() is False


def test_what_a_user_deletes_is_freed_too(ws, project, store):
    put(project, "large", noise(1, 100_000))
    ws.save("large")
    (project / "large").unlink()
    ws.save("small")
    ws.prune()
    before = size(store)
    assert ws.tidy() is False
    ws.delete("large")
    while ws.tidy():
        pass
    assert size(store) < before - 90_000
    assert judge(store, project) == []


def test_a_save_between_any_two_portions_finds_everything_it_leans_on(tmp_path):
    """What was dead when somebody looked is saved again, by this process or another, before it could go."""
    for moment in range(1, 400, 3):
        here, there, portions = tmp_path / f"p{moment}", tmp_path / f"s{moment}", 0
        here.mkdir()
        with open_again(here, there) as ws, open_again(here, there) as other:
            for number in range(16):
                step(ws, here, number)
            while ws.tidy():
                portions += 1
                if portions == moment:
                    for number in (1, 2, 3):  # the same bytes as long ago
                        step(other if moment % 2 else ws, here, number)
            if portions < moment:
                break
            for number in (1, 2, 3):
                assert ws.cat("@", f"d{number % 3}/f{number % 4}") == noise(number)
        assert judge(there, here) == [], moment
    assert portions > 10


@pytest.mark.parametrize("what", ["gc", "close", "delete", "restore"])
def test_whatever_happens_between_two_portions_the_store_stays_whole(tmp_path, what):
    for moment in range(1, 50, 5):
        here, there = tmp_path / f"p{moment}", tmp_path / f"s{moment}"
        here.mkdir()
        with open_again(here, there) as ws, open_again(here, there) as other:
            for number in range(16):
                step(ws, here, number)
            portions = 0
            while ws.tidy():
                portions += 1
                if portions == moment and what == "gc":
                    other.prune()
                elif portions == moment and what == "close":
                    ws.close()
                elif portions == moment and what == "delete":
                    other.delete("n12")
                elif portions == moment:
                    other.restore("n11")
            assert ws.cat("n11", f"d{11 % 3}/f{11 % 4}") == noise(11)
        assert judge(there, here) == [], moment


def test_a_save_after_it_looks_at_no_more_than_before(ws, project):
    """Objects went, and none of them is remembered: the watched workspace is not looked at anew."""
    with ws.watch():
        for number in range(20):
            step(ws, project, number)
        looks, epoch = ws.bench.scanner.watcher.full_looks, ws.bench.store.epoch()
        while ws.tidy():
            pass
        assert ws.bench.store.epoch() > epoch
        step(ws, project, 21)
        assert ws.bench.scanner.watcher.full_looks == looks


@pytest.mark.parametrize("tidies", ["the one who remembers", "another"])
def test_what_is_remembered_counts_no_more_when_no_checkpoint_holds_it(ws, project, store, tidies):
    """Another, who does not capture a file, saves until the last checkpoint that held it is let go; it does not change."""
    settings = ws.settings._replace(capture=ws.settings.capture._replace(exclude=("kept",)))
    with ws.watch(), mulligan.Workspace(settings) as other:
        put(project, "kept", noise(77))
        ws.save("with it", kind="step")
        for number in range(20):
            step(other, project, number)
        while (other if tidies == "another" else ws).tidy():
            pass
        ws.save("again")
        assert ws.cat("again", "kept") == noise(77)
    assert judge(store, project) == []


def test_a_store_in_use_is_not_waited_for_twice_and_the_work_goes_on(ws, project, store):
    for number in range(20):
        step(ws, project, number)
    watching.patience(ws.bench, 0.0)
    before = size(store)
    with open_again(project, store) as other:
        with other.bench.writing("save"), pytest.raises(mulligan.Busy):
            while ws.tidy():
                pass
        assert size(store) == before
        while ws.tidy():
            pass
    assert size(store) < before
    assert judge(store, project) == []


def test_packs_that_cannot_be_joined_are_not_tried_again_and_again(ws, project, monkeypatch):
    monkeypatch.setattr(pruning, "MANY_PACKS", 2)
    tried = []
    monkeypatch.setattr("mulligan.timeline.pruning.merge_small", lambda _: tried.append(1))
    for number in range(4):
        step(ws, project, number)
    while ws.tidy():
        pass
    assert ws.tidy() is False
    assert len(tried) == 1
