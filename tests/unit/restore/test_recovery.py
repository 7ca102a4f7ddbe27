"""After a crash: the next writing command finishes the restore or takes it back, whatever happened meanwhile."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import mulligan
from faults import ActsAt, Killed, KilledAt
from mulligan.safefs import syscalls
from scenes import NEW, OLD, Scene, left_lying, state_of
from tree import put


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


class KilledAfter(KilledAt):
    """The process dies before the n-th call of one name."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(10**9)
        self.name, self.left = name, number

    def meet(self, name: str) -> None:
        if name == self.name and self.count < self.number:
            self.left -= 1
            if not self.left:
                self.number = self.count + 1
        super().meet(name)


def crash(scene: Scene, call: str, number: int = 1) -> Any:
    """A restore to `new`, killed before the n-th call of one name; returns the workspace as the next process has it."""
    ws = scene.reset()
    with pytest.raises(Killed), syscalls.using(KilledAfter(call, number)):
        ws.restore("new")
    ws.close()
    return scene.open()


def packs(scene: Scene) -> set[Path]:
    return set((scene.store / "objects/pack").iterdir())


def test_reading_commands_only_report_what_was_cut_short(scene):
    ws = crash(scene, "exchange", 2)
    before = state_of(scene.project)
    assert ws.pending()["phase"] == "applying"
    ws.log(), ws.diff(), ws.stats(), ws.status(), ws.check()
    assert state_of(scene.project) == before
    assert ws.pending() is not None
    ws.close()


def test_a_restore_that_had_only_staged_is_taken_back(scene):
    ws = crash(scene, "rename_new", 1)
    assert ws.pending() is not None
    ws.save("after")
    assert state_of(scene.project) in (OLD, NEW)
    assert ws.pending() is None and left_lying(scene.project) == []
    ws.close()
    ws = crash(scene, "symlink", 2)
    assert ws.pending()["phase"] == "staging"
    ws.save("after")
    assert "rolled back" in ws.last_recovery
    assert state_of(scene.project) == OLD
    ws.close()


@pytest.mark.parametrize(
    "point", [("rename_new", 3), ("rmdir", 2), ("mkdir", 1), ("mkdir", 2), ("exchange", 1), ("chmod", 1)]
)
def test_a_restore_that_had_begun_is_finished_and_can_be_undone(scene, point):
    ws = crash(scene, *point)
    ws.save("after")
    assert "was finished." in ws.last_recovery
    assert state_of(scene.project) == NEW
    ws.undo()
    assert state_of(scene.project) == OLD
    assert left_lying(scene.project) == []
    ws.close()


def test_the_position_is_the_target_once_it_is_finished(scene):
    ws = crash(scene, "exchange")
    target = ws.get("new").id
    assert ws.position() != target
    assert ws.save(if_changed=True) is None
    assert ws.position() == target
    ws.close()


@pytest.mark.parametrize("point", [("rmdir", 2), ("mkdir", 2), ("exchange", 1), ("exchange", 2)])
def test_what_somebody_did_since_the_crash_stays_and_does_not_block_the_store(scene, point):
    """Edited, removed, moved and swapped paths: each is left alone and listed, the rest is finished."""
    ws = crash(scene, *point)
    put(scene.project, "modified", "edited since")
    shutil.rmtree(scene.project / "dir_bits")
    for path in ("file_to_dir", "link_to_dir"):
        place = scene.project / path
        if place.is_dir() and not place.is_symlink():
            place.rename(scene.project / (path + "_moved"))
    ws.save("after")
    assert ws.pending() is None
    assert (scene.project / "modified").read_text() == "edited since"
    assert not (scene.project / "dir_bits").exists()
    assert state_of(scene.project)["dir_to_file"] == NEW["dir_to_file"]
    assert "Kept: modified" in ws.last_recovery
    assert [path for path in left_lying(scene.project) if ".mulligan-" in path] == []
    ws.save("once more")
    ws.close()


def test_an_emptied_workspace_does_not_block_the_store(scene):
    ws = crash(scene, "exchange", 2)
    for path in scene.project.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    ws.save("after")
    assert ws.pending() is None
    ws.close()


def test_another_directory_in_the_same_place_is_not_drawn_into_it(scene):
    """The project was moved away and another one cloned: the restore was never about that one."""
    ws = crash(scene, "exchange", 2)
    scene.project.rename(scene.project.with_name("moved"))
    scene.project.mkdir()
    put(scene.project, "readme", "another project")
    ws.save("after")
    assert [path.name for path in scene.project.iterdir()] == ["readme"]
    assert ws.pending() is None
    ws.close()


@pytest.mark.parametrize("point", [("rmdir", 2), ("mkdir", 2), ("exchange", 1), ("exchange", 2)])
def test_a_restore_that_cannot_be_finished_is_taken_back(scene, point):
    """The target's objects are gone: what was changed comes back from the safety checkpoint."""
    ws = scene.reset()
    with ws:
        lost = max(packs(scene), key=lambda path: path.stat().st_size).stem
    ws = crash(scene, *point)
    for path in packs(scene):
        if path.stem == lost:
            path.unlink()
    with ws.bench.writing("anything"):
        pass
    wrong = {path for path, node in state_of(scene.project).items() if OLD.get(path) != node}
    assert "rolled back" in ws.last_recovery
    assert all(f"Kept: {path} (damaged in the store)" in ws.last_recovery for path in wrong)
    assert ws.pending() is None and left_lying(scene.project) == []
    ws.close()


def test_unplanned_bytes_in_a_temporary_are_put_in_sight(scene):
    """A writer replaced a file in the moment of the exchange, and the process died before it looked."""
    ws = scene.reset()

    class Unlucky(KilledAfter):
        def meet(self, name: str) -> None:
            if name == "exchange" and self.count < self.number:
                for path in ("modified", "file_to_link"):
                    put(scene.project, path, "mine")
            super().meet(name)

    with pytest.raises(Killed), syscalls.using(Unlucky("exchange", 10**9)) as lie:
        real = lie.exchange

        def once(*args: Any, **kwargs: Any) -> None:
            real(*args, **kwargs)
            lie.number = 0

        lie.exchange = once  # type: ignore[method-assign]
        ws.restore("new")
    ws.close()
    ws = scene.open()
    ws.save("after")
    contents = [content for _, _, content in state_of(scene.project).values()]
    assert contents.count(b"mine") == 2
    assert [path for path in left_lying(scene.project) if ".mulligan-" in path] == []
    ws.close()


def test_a_damaged_journal_is_reported_and_nothing_is_touched(scene):
    ws = crash(scene, "exchange", 2)
    before = state_of(scene.project)
    assert ws.log()
    with ws.bench.store.database.transaction():
        ws.bench.store.database.run("UPDATE journal SET plan=?", b"not a plan")
    with pytest.raises(mulligan.StoreDamaged, match="journal"):
        ws.save("after")
    assert state_of(scene.project) == before
    ws.close()


def test_paths_of_the_journal_cannot_leave_the_workspace(scene):
    """A journal that somebody tampered with is refused by its paths."""
    import json
    import zlib

    ws = crash(scene, "exchange", 2)
    assert ws.log()
    database = ws.bench.store.database
    plain = json.loads(zlib.decompress(database.row("SELECT plan FROM journal")[0]))
    plain["actions"][0][0] = "../outside"
    with database.transaction():
        database.run("UPDATE journal SET plan=?", zlib.compress(json.dumps(plain).encode()))
    with pytest.raises(mulligan.MulliganError):
        ws.save("after")
    assert not os.path.lexists(scene.project.parent / "outside")
    ws.close()


@pytest.mark.parametrize(("call", "state"), [("symlink", OLD), ("rename_new", NEW), ("exchange", NEW), ("chmod", NEW)])
def test_an_interrupt_leaves_nothing_half_done(scene, call, state):
    """Control-C while files are staged takes back; while they are put in place, it waits for the end."""
    ws = scene.reset()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), syscalls.using(ActsAt(call, 1, interrupt)):
        ws.restore("new")
    assert state_of(scene.project) == state
    assert left_lying(scene.project) == []
    assert ws.pending() is None
    ws.close()
