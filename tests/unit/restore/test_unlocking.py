"""Directories that their owner may not write to are no obstacle, and are the same again afterwards."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import mulligan
from faults import FailsAt, Killed, KilledAt
from mulligan.safefs import syscalls
from scenes import State, file, folder, left_lying, state_of, write_state

SOMEBODY_ELSE = 1234
LOCKED: State = {
    "locked": folder(0o555),
    "locked/a": file("1"),
    "locked/deep": folder(0o500),
    "locked/deep/b": file("1"),
}
CHANGED: State = LOCKED | {"locked/a": file("2"), "locked/new": file("2"), "locked/deep/b": file("2")}
EMPTY: State = {"only": file("1")}

_DAC_OVERRIDE, _DAC_READ_SEARCH = 1 << 1, 1 << 2


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@pytest.fixture(autouse=True)
def permission_bits_count() -> Iterator[None]:
    """Root gives up the right to ignore them, for the length of a test."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = _Header(0x20080522, 0), (_Sets * 2)()
    assert libc.capget(ctypes.byref(header), sets) == 0
    had = sets[0].effective
    sets[0].effective &= ~(_DAC_OVERRIDE | _DAC_READ_SEARCH)
    assert libc.capset(ctypes.byref(header), sets) == 0
    try:
        yield
    finally:
        sets[0].effective = had
        assert libc.capset(ctypes.byref(header), sets) == 0


@pytest.fixture
def scene(project: Path, ws: mulligan.Workspace) -> Iterator[mulligan.Workspace]:
    """Checkpoints `empty`, `changed` and `locked`; the workspace stands at the last."""
    for name, state in (("empty", EMPTY), ("changed", CHANGED), ("locked", LOCKED)):
        open_all(project)
        write_state(project, state)
        ws.save(name)
    yield ws
    open_all(project)


def open_all(project: Path) -> None:
    project.chmod(0o755)
    for place in ("locked", "locked/deep"):
        if (project / place).exists():
            (project / place).chmod(0o755)


def test_permission_bits_do_count_here(project):
    (project / "d").mkdir(mode=0o500)
    with pytest.raises(PermissionError):
        (project / "d" / "f").write_text("x")


def test_a_restore_and_its_undo_go_through_read_only_directories(scene, project):
    for name, state in (("empty", EMPTY), ("changed", CHANGED), ("empty", EMPTY), ("locked", LOCKED)):
        before = state_of(project)
        assert scene.restore(name).kept == []
        assert state_of(project) == state
        scene.undo()
        assert state_of(project) == before
        scene.redo()


def test_an_undo_leaves_a_read_only_workspace_one(scene, project):
    scene.restore("empty")
    project.chmod(0o555)
    scene.undo()
    assert state_of(project) == LOCKED
    assert project.stat().st_mode & 0o7777 == 0o555


def test_some_paths_below_a_read_only_directory_are_restored_and_undone(scene, project):
    scene.restore("changed", paths=["locked/deep"])
    assert state_of(project) == LOCKED | {"locked/deep/b": CHANGED["locked/deep/b"]}
    scene.undo()
    assert state_of(project) == LOCKED


def test_a_directory_closed_since_the_position_stops_a_restore_of_it_alone_with_nothing_changed(scene, project):
    """It was closed on purpose; the error says how to go on, and an undo is not stopped."""
    scene.restore("empty")
    (project / "d").mkdir()
    (project / "d/f").write_text("1")
    scene.save("open")
    (project / "d/f").write_text("2")
    (project / "d").chmod(0o555)
    before = state_of(project)
    with pytest.raises(mulligan.UserError, match="Can't write to d") as refusal:
        scene.restore("open")
    assert "chmod" in refusal.value.hint
    assert state_of(project) == before
    scene.undo()
    assert (project / "d/f").read_text() == "1"


@pytest.mark.parametrize("lie", [KilledAt, FailsAt])
def test_no_failure_and_no_kill_leaves_a_directory_open(scene, project, store, lie):
    number, through = 0, False
    while not through:
        number += 2
        # Written, not restored: where a fault kept a save from reading a directory, a restore deletes nothing of it afterwards.
        open_all(project)
        write_state(project, LOCKED)
        scene.save("locked")
        report, calls = None, lie(number)
        with suppress(Killed, mulligan.MulliganError), syscalls.using(calls):
            report = scene.restore("changed")
        scene.close()
        with scene.bench.writing("recovery"):
            pass
        now = state_of(project)
        assert left_lying(project) == [], number
        if report is None:
            assert now in (LOCKED, CHANGED), (number, scene.last_recovery)
        opened = {path for path in ("locked", "locked/deep") if now[path] != LOCKED[path]}
        assert opened <= {kept.path for kept in (report.kept if report else ())}, number
        through = report is not None and not getattr(calls, "failed", "")
    assert number > 20


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_a_directory_of_another_user_is_named_before_anything_changes(scene, project):
    scene.restore("changed")
    for place in (project / "locked", project / "locked/deep"):
        place.chmod(0o755)
        os.chown(place, SOMEBODY_ELSE, SOMEBODY_ELSE)
    before = state_of(project)
    with pytest.raises(mulligan.UserError, match=f"owned by {SOMEBODY_ELSE}") as refusal:
        scene.restore("locked")
    assert "sudo chown" in refusal.value.hint
    assert state_of(project) == before
    assert scene.pending() is None


def test_bits_of_a_linked_file_come_back_in_a_read_only_directory_and_no_temporary_stays(project, scene, tmp_path):
    """Such a file is put in place anew, so its directory is closed again only after that."""
    os.link(project / "locked/a", tmp_path / "elsewhere")
    before = state_of(project)
    (project / "locked/a").chmod(0o600)
    report = scene.restore("locked")
    assert (report.modified, report.kept) == (["locked/a"], [])
    assert state_of(project) == before
    report = scene.undo()
    assert (report.modified, report.kept) == (["locked/a"], [])
    assert left_lying(project) == []
    assert (project / "locked/a").stat().st_mode & 0o777 == 0o600
