"""What a restore displaced is removed, if not at once: when the store is closed, and by whoever frees the disk."""

from __future__ import annotations

import errno
import os

import pytest

import mulligan
from faults import Counting
from mulligan.safefs import syscalls


@pytest.fixture
def displaced(ws, project, store):
    """A restore has just displaced one file and removed another."""
    (project / "a").write_text("1")
    ws.save("one")
    (project / "a").write_text("2")
    (project / "b").write_text("secret")
    ws.restore("one")
    return lambda: sorted((store / "tmp").iterdir())


def test_what_was_displaced_is_gone_when_the_workspace_is_closed(ws, project, displaced):
    assert {path.read_text() for path in displaced()} == {"2", "secret"}
    assert sorted(os.listdir(project)) == ["a"]
    ws.close()
    assert displaced() == []


def test_a_save_or_a_restore_does_not_wait_for_it(ws, displaced):
    before = displaced()
    ws.save("two")
    ws.undo()
    assert set(before) <= set(displaced())


@pytest.mark.parametrize("free", [lambda ws: ws.prune(), lambda ws: ws.forget("b"), lambda ws: ws.doctor()])
def test_whoever_frees_the_disk_frees_this_too(ws, displaced, free):
    free(ws)
    assert displaced() == []


def test_the_next_process_removes_what_a_dead_one_left(ws, project, store, displaced):
    with mulligan.open(project, store=store) as other:
        other.save("two")
        assert displaced() == []


def test_a_large_file_and_a_store_on_another_disk_are_removed_at_once(ws, project, store):
    class Elsewhere(Counting):
        def meet(self, name: str) -> None:
            if name == "rename" and "exchange" in self.seen:
                raise OSError(errno.EXDEV, "another file system")
            super().meet(name)

    (project / "a").write_text("1")
    (project / "large").write_text("1")
    ws.save("one")
    (project / "large").write_bytes(b"x" * ((1 << 20) + 1))
    ws.restore("one")
    assert os.listdir(store / "tmp") == []
    (project / "a").write_text("2")
    with syscalls.using(Elsewhere()):
        ws.restore("one")
    assert os.listdir(store / "tmp") == []
    assert (project / "a").read_text() == "1"


def test_a_workspace_that_is_dropped_after_a_restore_gives_its_descriptors_back(project, store):
    (project / "f").write_text("1")

    def use() -> None:
        ws = mulligan.open(project, store=store)
        ws.save("one")
        (project / "f").write_text("22")
        ws.restore("one")

    use()
    before = os.listdir("/proc/self/fd")
    use()
    assert os.listdir("/proc/self/fd") == before
