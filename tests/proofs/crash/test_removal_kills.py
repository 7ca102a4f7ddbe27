"""
The removal of a whole store, killed at every call: it is there, whole, or it is gone, and the next one leaves nothing.

A store that lost its timeline and kept its packs would belong to nobody: no purge could tell whose it was, and its disk
would never come back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import mulligan
from checker import judge
from gate import NO_GATE, gate_works, passed
from mulligan.settings import resolve
from mulligan.timeline import stores
from tree import put

pytestmark = pytest.mark.skipif(not gate_works(), reason=NO_GATE)


def saved(project: Path) -> Path:
    """A project with a small history in the usual place; returns its store."""
    put(project, "a", "1")
    with mulligan.open(project) as ws:
        ws.save("one")
        put(project, "a", "2")
        ws.save("two")
        return Path(ws.store_path)


def deaths(act: Callable[[], object], stage: Callable[[], None]) -> Iterator[int]:
    """Kills something at every call, on a fresh stage each time, until it comes through."""
    number = 1
    while True:
        stage()
        seen = passed(act, die_at=number)
        assert seen.died or seen.code == 0
        yield number
        if not seen.died:
            return
        number += 1


def test_a_purge_that_was_killed_is_ended_by_the_next(tmp_path: Path) -> None:
    project, other = tmp_path / "gone", tmp_path / "kept"
    store, kept = saved(project), saved(other)
    template = tmp_path / "template"
    shutil.copytree(store, template)
    shutil.rmtree(project)
    settings = resolve(other)

    def stage() -> None:
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(template, store)

    count = 0
    for count in deaths(lambda: stores.purge(settings, older_than_days=0), stage):  # noqa: B007
        listed = [Path(row["path"]) for row in stores.stores(settings)]
        assert sorted(listed) == sorted([kept, store] if store.exists() else [kept])
        if store.exists():
            assert judge(store) == []
        stores.purge(settings, older_than_days=0)
        assert os.listdir(settings.stores) == [kept.name]
    assert count > 15
    assert judge(kept, other) == []


def test_a_store_that_was_being_discarded_is_whole_or_gone(tmp_path: Path) -> None:
    project, template = tmp_path / "project", tmp_path / "template"
    store = saved(project)
    shutil.copytree(store, template)
    settings = resolve(project)

    def stage() -> None:
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(template, store)

    seen = set()
    for _ in deaths(lambda: stores.discard(settings), stage):
        with mulligan.open(project) as ws:
            names = [cp.name for cp in ws.log()]
            assert names in (["two", "one"], [])
            ws.save("after")
            assert [cp.name for cp in ws.log()] == ["after", *names]
        assert judge(store, project) == []
        assert os.listdir(settings.stores) == [store.name], "nothing of the old one is left"
        seen.add(len(names))
    assert seen == {0, 2}
