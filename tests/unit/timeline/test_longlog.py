"""A log that is as long as it gets: nothing in it is lost, and nothing but its size changes."""

from __future__ import annotations

import os
import signal

import pytest

import mulligan
from checker import judge
from tree import put

LONG = 4 << 20


@pytest.fixture
def watched(ws, project):
    put(project, "f", "0")
    with ws.watch():
        ws.save("first")
        yield ws


def test_the_log_of_a_watched_workspace_is_written_over_and_does_not_grow(watched, project, store):
    log = store / "timeline.db-wal"
    assert log.stat().st_size == LONG
    blocks = log.stat().st_blocks
    for number in range(5):
        put(project, "f", f"then {number}")
        watched.save()
        put(project, "f", f"now {number}")
        watched.restore("@")
    assert (log.stat().st_size, log.stat().st_blocks) == (LONG, blocks)
    watched.prune()
    put(project, "f", "more")
    watched.save("last")
    assert log.stat().st_size == LONG
    watched.close()
    assert not log.exists() and judge(store, project) == []


def test_an_open_workspace_that_nobody_watches_keeps_a_short_log(ws, project, store):
    put(project, "f", "0")
    ws.save()
    assert (store / "timeline.db-wal").stat().st_size < LONG


def test_what_other_processes_write_meanwhile_stays(watched, project, store):
    with mulligan.open(project, store=store) as other:
        for number in range(3):
            put(project, "f", f"other {number}")
            other.save(f"other {number}")
            watched._bench.vault.database._long = False
            put(project, "f", f"mine {number}")
            watched.save(f"mine {number}")
        assert len(other.log()) == len(watched.log()) == 7
    watched.close()
    assert judge(store, project) == []


def test_a_process_that_is_killed_with_a_long_log_loses_nothing(project, store):
    put(project, "f", "0")
    child = os.fork()
    if not child:
        ws = mulligan.open(project, store=store)
        ws.watch()
        for number in range(3):
            put(project, "f", str(number))
            ws.save(str(number))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert (store / "timeline.db-wal").stat().st_size == LONG
    with mulligan.open(project, store=store) as ws:
        assert [cp.name for cp in ws.log()] == ["2", "1", "0"] and ws.check().ok
        put(project, "f", "4")
        ws.save("4")
    assert judge(store, project) == []


def test_the_last_room_of_a_disk_is_not_filled_with_zeros(ws, project, store, monkeypatch):
    monkeypatch.setattr("mulligan.timeline.longlog.free_bytes", lambda _: 8 << 20)
    put(project, "f", "0")
    with ws.watch():
        ws.save("first")
        assert 0 < (store / "timeline.db-wal").stat().st_size < 1 << 20


def test_a_disk_that_has_no_room_for_it_saves_all_the_same(ws, project, store, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mulligan.timeline.longlog.append_at", full)
    put(project, "f", "0")
    with ws.watch():
        ws.save("first")
        put(project, "f", "1")
        ws.save("second")
    assert len(ws.log()) == 2 and judge(store, project) == []
