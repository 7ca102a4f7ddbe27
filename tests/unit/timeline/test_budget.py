"""Disk: what pruning frees, what the budget evicts, and that neither takes what a checkpoint needs."""

from __future__ import annotations

import random

import pytest

import mulligan
from checker import judge
from mulligan.gitformat.record import LEVEL, compress
from mulligan.model.policy import Retention
from mulligan.timeline import pruning
from scans import settings_for
from tree import put

KB = 1000
chance = random.Random(7)


def within(project, kilobytes: int) -> mulligan.Workspace:
    """A workspace with room for so much noise, whatever deflating makes of it."""
    besides = 300 * KB  # what a store takes that holds nothing yet, and what a save writes beside its packs
    room = kilobytes * len(compress(noise(100), LEVEL)) // 100 + besides
    return mulligan.Workspace(settings_for(project, retention=Retention(budget=room)))


def noise(kilobytes: int) -> bytes:
    return chance.randbytes(kilobytes * KB)


def test_contents_that_came_back_survive_the_eviction_that_makes_room_for_them(project, store):
    """The store still had them, so they were not written again; the eviction must not take them."""
    ws, again = within(project, 1000), noise(300)
    for name, content in (("first", again), ("second", noise(300)), ("third", noise(100))):
        put(project, "f", content)
        ws.save(name)
    ws.delete("first")
    ws.delete("second")
    put(project, "f", again)
    put(project, "g", noise(450))
    cp = ws.save("fourth")
    assert ws.cat(cp, "f") == again
    ws.close()
    assert judge(store) == []


def test_nothing_is_evicted_in_vain(project, store):
    """A save that cannot fit is refused before anything goes for it."""
    ws = within(project, 1000)
    put(project, "kept", noise(800))
    ws.save("kept", kind="manual")
    for number in range(4):
        put(project, "small", noise(10))
        ws.save(f"s{number}", kind="step")
    before = [cp.id for cp in ws.log()]
    put(project, "large", noise(700))
    with pytest.raises(mulligan.MulliganError, match="budget"):
        ws.save("large")
    assert [cp.id for cp in ws.log()] == before
    ws.close()
    assert judge(store) == []


def test_no_more_is_evicted_than_is_needed(project):
    """Two steps that share their contents free them together; the steps after them stay."""
    ws = within(project, 1000)
    for number in range(3):
        put(project, "f", noise(250))
        for twin in "ab":
            put(project, "twin", twin)
            ws.save(f"{number}{twin}", kind="step")
    put(project, "f", noise(300))
    ws.save("new")
    assert [cp.name for cp in ws.log()] == ["new", "2b", "2a", "1b", "1a"]


def test_kinds_go_in_their_order_and_what_was_asked_for_never_goes(project):
    ws = within(project, 1000)
    for kind in ("manual", "session", "automatic", "step"):
        put(project, "f", noise(150))
        ws.save(kind, kind=kind)
    for name in ("before", "here"):  # an undo needs them
        put(project, "f", name)
        ws.save(name, kind="step")
    put(project, "f", noise(600))
    ws.save("large")
    assert [cp.name for cp in ws.log()] == ["large", "here", "before", "session", "manual"]


def test_a_process_that_dies_while_it_prunes_leaves_nobody_trusting_its_memory(project, store, monkeypatch):
    """Another process still remembers the objects of a checkpoint that was deleted and collected."""
    put(project, "f", noise(1))
    other, ws = (mulligan.Workspace(settings_for(project), now_ns=lambda: 2**62) for _ in range(2))
    other.save("one")
    ws.delete("one")
    real = pruning.pack_refs
    monkeypatch.setattr(pruning, "_MANY_REFS", -1)

    def die(_directory):
        raise KeyboardInterrupt

    monkeypatch.setattr(pruning, "pack_refs", die)
    with pytest.raises(KeyboardInterrupt):
        ws.prune()
    monkeypatch.setattr(pruning, "pack_refs", real)
    other.save("two")
    for each in (ws, other):
        each.close()
    assert judge(store) == []
