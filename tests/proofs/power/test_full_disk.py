"""
Full disks, exhausted processes, read-only places and immutable files, for real; `full_disk.py` beside it is the long version.

Reliability rows 13 to 16, sampled, and 56: an engine that takes what did not fit for written is caught.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import disks
from walls import WALLS, fill

import mulligan
from checker import judge
from scenes import OLD, state_of, write_state
from tools import plain_environment, sweep
from tree import put

SCRIPT = Path(__file__).parent / "full_disk.py"
WHY = disks.why_not("ext4")
pytestmark = pytest.mark.skipif(bool(WHY), reason=f"{WHY}: THE TESTS OF FULL DISKS DO NOT RUN")


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script."""
    command = [sys.executable, SCRIPT, "--seed", "1", *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("wall", WALLS)
def test_an_operation_that_meets_a_wall_says_so_and_nothing_is_half_done(wall: str) -> None:
    """One level each for some operations, another choice of them for each wall."""
    names = ["save-first", "save-second", "restore", "restore-git", "undo", "gc", "forget", "doctor-index"]
    at = list(WALLS).index(wall)
    chosen = [*names[at:], *names[:at]][:4]
    options = [word for name in chosen for word in ("--operation", name)]
    done = run("--wall", wall, *options, "--size", str(sweep(8)))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("build", "operation"), [("forgets-the-wall", "save-streamed"), ("leaves-half", "restore-streamed")]
)
def test_an_engine_that_does_not_see_the_wall_is_caught(build: str, operation: str) -> None:
    done = run("--wall", "bytes-tmpfs", "--operation", operation, "--build", build, "--size", "40", "--enough", "1")
    assert (done.returncode, "BROKEN" in done.stdout) == (1, True), done.stdout + done.stderr


def test_a_doctor_whose_disk_runs_full_leaves_no_empty_log_beside_what_it_put_aside() -> None:
    """SQLite began one to read the damaged timeline, and could not remove it."""
    done = run("--wall", "bytes-tmpfs", "--operation", "doctor-record", "--size", str(sweep(24)))
    assert done.returncode == 0, done.stdout + done.stderr


# -- one disk, looked at closely ------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small ext4 disk; other processes may see it, so it is let go of whatever happens."""
    image, point = tmp_path / "image", tmp_path / "disk"
    point.mkdir()
    disks.make("ext4", image, 16 << 20)
    subprocess.run(["tune2fs", "-m", "0", image], check=True, capture_output=True, env=disks.environment())
    disks.mount(image, point)
    try:
        yield point
    finally:
        subprocess.run(["chattr", "-R", "-i", point], capture_output=True, check=False)
        subprocess.run(["umount", "--lazy", point], check=True)


@pytest.fixture
def saved(disk: Path) -> Iterator[Any]:
    """A workspace on the disk, with one checkpoint."""
    write_state(put(disk, "project/x").parent, OLD)
    with mulligan.open(disk / "project", store=disk / "store") as ws:
        ws.save("one")
        yield ws


def test_commands_that_read_work_on_a_disk_without_a_free_byte(saved: Any, disk: Path) -> None:
    put(disk / "project", "modified", "edited")
    saved.close()
    held, left = fill(disk, 0)
    assert left < 4096
    try:
        assert [cp.name for cp in saved.log()] == ["one"]
        assert saved.cat("one", "modified") == b"old"
        assert saved.status()["unsaved"]["modified"] == 1
        assert saved.plan("one").actions
    finally:
        for handle in held:
            os.close(handle)
    saved.restore("one")
    assert state_of(disk / "project") == OLD


def test_a_command_that_needs_room_says_how_much_and_how_much_there_is(saved: Any, disk: Path) -> None:
    put(disk / "project", "large", os.urandom(700_000))
    for left, needed in ((100_000, 256 << 10), (500_000, 700_000)):
        held, _ = fill(disk, left)
        try:
            with pytest.raises(mulligan.NoRoom, match=r"needs \d+ KiB and the disk has") as caught:
                saved.save("two")
        finally:
            for handle in held:
                os.close(handle)
        told = int(str(caught.value).partition("needs ")[2].partition(" KiB")[0]) << 10
        assert needed <= told < 2 * needed
        assert [cp.name for cp in saved.log()] == ["one"]
    saved.save("two")
    saved.close()
    assert judge(disk / "store", disk / "project") == []


def test_the_disk_can_be_freed_when_it_is_full(saved: Any, disk: Path) -> None:
    put(disk / "project", "large", os.urandom(3_000_000))
    saved.save("large")
    (disk / "project/large").unlink()
    saved.save("three")
    held, _ = fill(disk, 64 << 10)
    try:
        saved.delete("large")
        assert saved.prune() > 2_900_000
    finally:
        for handle in held:
            os.close(handle)
    assert saved.check().ok


def test_a_read_only_store_can_be_read_and_nothing_is_changed_with_it(disk: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    put(project, "a", "one")
    with mulligan.open(project, store=disk / "store") as ws:
        ws.save("one")
    put(project, "a", "two")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    with mulligan.open(project, store=disk / "store") as ws:
        assert ws.cat("one", "a") == b"one"
        assert ws.log() and ws.status()["unsaved"]["modified"] == 1
        for verb in (lambda: ws.save("two"), lambda: ws.restore("one"), ws.undo, ws.prune, lambda: ws.forget("a")):
            with pytest.raises(mulligan.MulliganError):
                verb()
    assert (project / "a").read_text() == "two"
    assert os.listdir(project) == ["a"]


def test_a_read_only_workspace_is_saved_and_refused_to_be_restored(disk: Path, tmp_path: Path) -> None:
    project = disk / "project"
    put(project, "a", "one")
    with mulligan.open(project, store=tmp_path / "store") as ws:
        ws.save("one")
        put(project, "a", "two")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        assert ws.save("two").complete
        with pytest.raises(mulligan.UserError):
            ws.restore("one")
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        assert (project / "a").read_text() == "two"
        ws.restore("one")
    assert (project / "a").read_text() == "one"
    assert judge(tmp_path / "store", project) == []


def test_an_immutable_file_is_kept_and_listed_and_the_rest_is_exact(saved: Any, disk: Path) -> None:
    project = disk / "project"
    put(project, "modified", "edited")
    put(project, "bits", "edited")
    subprocess.run(["chattr", "+i", project / "modified"], check=True)
    report = saved.restore("one")
    assert [keep.path for keep in report.kept if keep.failed] == ["modified"] and not report.complete
    assert state_of(project) == OLD | {"modified": ("file", 0o644, b"edited")}
    subprocess.run(["chattr", "-i", project / "modified"], check=True)
    assert saved.restore("one").complete
    assert state_of(project) == OLD


def test_an_immutable_directory_stops_a_restore_before_the_first_change(saved: Any, disk: Path) -> None:
    project = disk / "project"
    put(project, "modified", "edited")
    put(project, "dir_bits/kept", "edited")
    before = state_of(project)
    subprocess.run(["chattr", "+i", project / "dir_bits"], check=True)
    with pytest.raises(mulligan.UserError):
        saved.restore("one")
    assert state_of(project) == before
    subprocess.run(["chattr", "-i", project / "dir_bits"], check=True)
    saved.restore("one")
    assert state_of(project) == OLD


def test_an_immutable_store_is_refused_in_our_words(saved: Any, disk: Path) -> None:
    put(disk / "project", "modified", "edited")
    saved.close()
    subprocess.run(["chattr", "-R", "+i", disk / "store"], check=True)
    for verb in (lambda: saved.save("two"), lambda: saved.restore("one"), saved.prune):
        with pytest.raises(mulligan.MulliganError):
            verb()
    assert (disk / "project/modified").read_text() == "edited"
    subprocess.run(["chattr", "-R", "-i", disk / "store"], check=True)
    saved.save("two")
    assert saved.check().ok
