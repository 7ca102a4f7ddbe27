"""Files replaced step by step, where no two names can be exchanged: no byte is lost, whoever writes and whenever it ends."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from faults import Counting, Killed, KilledAt
from mulligan.safefs import syscalls
from scenes import NEW, OLD, Scene, left_lying, state_of
from tree import put, snapshot

LACKING = ("exchange", "rename_new")


class InSteps(Counting):
    """A system that cannot exchange names; another program acts before the n-th call."""

    def __init__(self, number: int = 0, act: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.number, self.act = number, act

    def meet(self, name: str) -> None:
        super().meet(name)
        if self.count == self.number:
            self.act()
        if name in LACKING:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


class KilledInSteps(KilledAt):
    """The same system; the process dies before its n-th call."""

    def meet(self, name: str) -> None:
        super().meet(name)
        if name in LACKING:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def append(place: Path) -> None:
    with place.open("a") as opened:
        opened.write("mine")


def replace(place: Path) -> None:
    place.with_name("outside").write_text("mine")
    place.with_name("outside").rename(place)


def make_directory(place: Path) -> None:
    place.unlink(missing_ok=True)
    place.mkdir()
    (place / "inner").write_text("mine")


def holds_mine(project: Path) -> bool:
    return any(b"mine" in entry.content for entry in snapshot(project).values())


@pytest.mark.parametrize("intrude", [append, replace, make_directory])
def test_without_an_exchange_no_byte_is_lost_whenever_another_program_writes(ws, project, intrude):
    put(project, "a", "old")
    ws.save("old")
    rounds, met = 0, True
    while met:
        rounds += 1
        put(project, "a", "new")
        system = InSteps(rounds, lambda: intrude(project / "a"))
        with syscalls.using(system):
            ws.restore("old")
        met = system.count >= rounds
        if met and not holds_mine(project):
            ws.undo()  # it was written before the safety checkpoint, which holds it
            assert holds_mine(project), f"call {rounds}: {system.seen[rounds - 1]}"
        assert not [path for path in left_lying(project) if ".mulligan-" in path]
        for path in project.iterdir():
            if path.is_dir():
                (path / "inner").unlink()
                path.rmdir()
            else:
                path.unlink()
    assert rounds > 10


def test_killed_at_any_step_without_an_exchange_the_next_command_leaves_no_name_missing(tmp_path):
    scene, number = Scene(tmp_path), 0
    ended = False
    while not ended:
        number += 1
        ws = scene.reset()
        try:
            with syscalls.using(KilledInSteps(number)):
                ws.restore("new")
            ended = True
        except Killed:
            pass
        finally:
            ws.close()
        with scene.open() as ws, syscalls.using(InSteps()):
            ws.save("after")
        assert state_of(scene.project) in (OLD, NEW), f"killed at call {number}"
        assert left_lying(scene.project) == []
