"""
A recovery that has git to move, on a system that refuses one call of it: a repository that cannot be looked at for a
moment is not one that is gone, also where it lies elsewhere, as that of a linked worktree does.
"""

from __future__ import annotations

import errno
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from kill_operations import KILLED
from operations import Stage

import mulligan
from faults import FailsAt, Killed, KilledAt
from mulligan.safefs import syscalls
from scenes import state_of
from tools import sweep
from tree import wipe
from users_repository import expect_whole, seen


class CutShort:
    """A restore of git that was killed while its files changed, to be ended again and again."""

    def __init__(self, base: Path, operation: str, back: int) -> None:
        self.stage = Stage(base, KILLED[operation])
        self.home, self.kept = self.stage.place.home, base / "kept"
        self.project = self.stage.place.project
        counting = self._run(10_000)
        self.new = seen(self.project), state_of(self.project)
        self.stage.reset().close()
        self.old = seen(self.project), state_of(self.project)
        self._run(counting.count - back)
        shutil.copytree(self.home, self.kept, symlinks=True)

    def _run(self, number: int) -> KilledAt:
        killing = KilledAt(number)
        with self.stage.reset() as ws, suppress(Killed), syscalls.using(killing):
            self.stage.operation.act(ws, self.stage.place)
        return killing

    def again(self) -> None:
        """Puts everything back to the kill."""
        for path in self.home.iterdir():
            wipe(path) if path == self.project else shutil.rmtree(path)
        shutil.copytree(self.kept, self.home, symlinks=True, dirs_exist_ok=True)


@pytest.mark.parametrize("operation", ["restore-worktree", "restore-git"])
@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.EMFILE], ids=errno.errorcode.get)
def test_a_recovery_that_is_refused_a_call_is_ended_by_the_next_command(
    tmp_path: Path, operation: str, code: int
) -> None:
    scene, step = CutShort(tmp_path, operation, back=30), 1 if sweep(1) > 3 else 41
    for number in range(1 + code % step, 10_000, step):
        scene.again()
        lie = FailsAt(number, code)
        with scene.stage.place.open() as ws, syscalls.using(lie), suppress(mulligan.MulliganError):
            ws.log()
            ws.doctor()
            ws.save("now")
        with scene.stage.place.open() as ws:
            ws.save("after")
            assert ws.pending() is None
        at = f"call {number} ({lie.failed})"
        expect_whole(scene.project)
        assert (seen(scene.project), state_of(scene.project)) in (scene.old, scene.new), at
        if not lie.failed:
            break
    assert number > 50
