"""Applying a plan while others write, on file systems that lack calls, and on paths that refuse."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from faults import ActsAt, ActsWhenStaged, Counting, FailsAt
from mulligan.safefs import syscalls
from scenes import NEW, OLD, Scene, file, left_lying, state_of
from tree import put, snapshot

LONG = "n" * 254


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


def write_file(place: Path) -> None:
    place.unlink(missing_ok=True)
    place.write_text("mine")


def write_directory(place: Path) -> None:
    place.unlink(missing_ok=True)
    place.mkdir()
    (place / "inner").write_text("mine")


def write_link(place: Path) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to("mine")


def append(place: Path) -> None:
    with place.open("a") as file:
        file.write(" and mine")


@pytest.mark.parametrize("intrude", [write_file, write_directory, write_link, append])
@pytest.mark.parametrize("call", ["exchange", "rename_new"])
def test_bytes_written_in_the_very_moment_stay_and_are_listed(ws, project, call, intrude):
    """Replaced or removed files alike, with names so long that nothing can be appended to them."""
    put(project, LONG + "a", "1")
    put(project, LONG + "b", "1")
    put(project, "left in peace", "1")
    ws.save("one")
    put(project, "left in peace", "2")
    paths = [LONG + "a", LONG + "b"] if call == "exchange" else [LONG + "c", LONG + "d"]
    for path in paths:
        put(project, path, "2")

    def act() -> None:
        for path in paths:
            intrude(project / path)

    with syscalls.using(ActsAt(call, 1, act)):
        report = ws.restore("one")
    assert {kept.path for kept in report.kept if kept.failed} == set(paths)
    assert report.modified == ["left in peace"]
    mine = [path for path, entry in snapshot(project).items() if b"mine" in entry.content]
    assert sorted(path.split("/")[0] for path in mine) == paths
    assert left_lying(project) == []


def test_two_writes_in_one_moment_are_both_kept(ws, project):
    """One has the place, the other stands beside it under a name that is not too long."""
    put(project, LONG + "a", "1")
    ws.save("one")
    put(project, LONG + "a", "2")

    class EachTime(Counting):
        def meet(self, name: str) -> None:
            super().meet(name)
            if name == "exchange":
                write_file(project / (LONG + "a"))
                (project / (LONG + "a")).write_text(f"mine {self.seen.count('exchange')}")

    with syscalls.using(EachTime()):
        report = ws.restore("one")
    found = snapshot(project)
    assert sorted(entry.content for entry in found.values()) == [b"mine 1", b"mine 2"]
    assert [kept.path for kept in report.kept] == [LONG + "a"]
    assert report.kept[0].detail.rpartition(" ")[2] in found


def test_something_new_in_a_directory_that_should_go_stays(ws, project):
    put(project, "a", "1")
    ws.save("one")
    put(project, "d/f", "2")
    with syscalls.using(ActsAt("rmdir", 1, lambda: put(project, "d/new", "mine"))):
        report = ws.restore("one")
    assert [(kept.path, kept.reason) for kept in report.kept] == [("d", "not empty")]
    assert (project / "d/new").read_text() == "mine"


@pytest.mark.parametrize("act", [lambda p: (p / "d").rename(p / "moved"), lambda p: shutil.rmtree(p / "d")])
def test_a_directory_that_leaves_while_files_are_staged_is_planned_again(ws, project, act):
    put(project, "d/f", "1")
    ws.save("one")
    put(project, "d/f", "2")
    put(project, "d/g", "2")
    with syscalls.using(ActsWhenStaged(lambda: act(project))):
        report = ws.restore("one")
    assert (project / "d/f").read_text() == "1" and not (project / "d/g").exists()
    assert report.complete and not [path for path in left_lying(project) if not path.startswith("moved")]


class Lacking(Counting):
    """A file system without some calls: no rename with flags, perhaps no hard links."""

    def __init__(self, code: int, *missing: str) -> None:
        super().__init__()
        self.code, self.missing = code, missing

    def meet(self, name: str) -> None:
        super().meet(name)
        if name in self.missing:
            code = errno.EPERM if name == "link" else self.code
            raise OSError(code, os.strerror(code))


@pytest.mark.parametrize("missing", [("exchange",), ("exchange", "rename_new"), ("exchange", "rename_new", "link")])
@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_file_systems_without_the_newer_calls_are_restored_to_all_the_same(scene, missing, code):
    """NFS, 9p and older FUSE servers know no flags, some no hard links either."""
    with syscalls.using(Lacking(code, *missing)), scene.reset() as ws:
        report = ws.restore("new")
        assert state_of(scene.project) == NEW
        assert report.kept == [] and report.complete
        ws.undo()
        assert state_of(scene.project) == OLD
    assert left_lying(scene.project) == []


def test_without_flags_a_file_that_appears_is_not_replaced(ws, project):
    put(project, "a", "1")
    ws.save("one")
    (project / "a").unlink()

    class NoFlags(Counting):
        def meet(self, name: str) -> None:
            if name == "rename_new":
                write_file(project / "a")
                raise OSError(errno.EINVAL, "no flags")

    with syscalls.using(NoFlags()):
        report = ws.restore("one")
    assert (project / "a").read_text() == "mine"
    assert [kept.path for kept in report.kept] == ["a"]
    assert left_lying(project) == []


@pytest.mark.parametrize("call", ["exchange", "rename_new", "unlink", "rmdir", "mkdir", "chmod"])
@pytest.mark.parametrize("code", [errno.EPERM, errno.EBUSY, errno.EIO])
def test_a_path_that_refuses_is_listed_and_the_rest_is_exact(scene, call, code):
    """Whatever cannot be changed keeps its old state; nothing is left beside it."""
    ws = scene.reset()

    class Once(FailsAt):
        def meet(self, name: str) -> None:
            if name == "rename" and call == "unlink" and "rename_new" in self.seen:
                raise OSError(errno.EXDEV, "the store is on another file system")
            if name == call and not self.failed and (name != "unlink" or "rename_new" in self.seen):
                self.failed = name
                raise OSError(code, os.strerror(code))
            Counting.meet(self, name)

    with syscalls.using(Once(0)) as once:
        report = ws.restore("new")
    ws.close()
    assert once.failed
    assert left_lying(scene.project) == []
    now, listed = state_of(scene.project), {kept.path for kept in report.kept}
    wrong = {path for path in now.keys() | NEW.keys() if now.get(path) != NEW.get(path)}
    assert all(any(path == k or path.startswith(k + "/") or k.startswith(path + "/") for k in listed) for path in wrong)
    assert bool(wrong) == (not report.complete)


def test_a_restore_of_permission_bits_alone_is_made_durable(ws, project):
    """Bits are in no directory, so syncing directories would not do."""
    put(project, "a", "1", perm=0o600)
    ws.save("one")
    (project / "a").chmod(0o644)
    with syscalls.using(Counting()) as calls:
        ws.restore("one")
    assert calls.seen[::-1].index("syncfs") < calls.seen[::-1].index("chmod")


def test_a_directory_that_cannot_be_opened_to_be_synced_is_synced_with_its_file_system(ws, project):
    (project / "d").mkdir()
    ws.save("one")
    (project / "d").rmdir()

    class NotYours(Counting):
        def open(self, path, *args, **kwargs):
            if path == b"d" and "chmod" in self.seen:
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
            return super().open(path, *args, **kwargs)

    with syscalls.using(NotYours()) as calls:
        ws.restore("one")
    assert "syncfs" in calls.seen[calls.seen.index("chmod") :]


def test_without_an_exchange_an_edit_in_the_same_tick_is_seen(ws, project):
    """A file just written may change again and look the same; nothing is looked at after a plain rename."""
    place = put(project, "a", "1")
    ws.save("one")
    put(project, "a", "2")
    put(project, "new", "2")
    seen = os.stat(place)

    class Sly(Counting):
        def meet(self, name: str) -> None:
            if name == "exchange":
                place.write_text("3")
                os.utime(place, ns=(seen.st_atime_ns, seen.st_mtime_ns))
                raise OSError(errno.EINVAL, "no flags")

    with syscalls.using(Sly()):
        report = ws.restore("one")
    assert place.read_text() == "3"
    assert [kept.path for kept in report.kept if kept.failed] == ["a"]
    assert left_lying(project) == []


def mounted(source: Path, at: Path) -> Callable[[], None]:
    subprocess.run(["mount", "--bind", source, at], check=True)
    return lambda: subprocess.run(["umount", at], check=True)  # type: ignore[func-returns-value]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_mount_point_is_kept_and_listed(ws, project, tmp_path):
    put(project, "f", "1")
    put(project, "g", "1")
    ws.save("one")
    put(project, "f", "2")
    put(project, "g", "2")
    source = put(tmp_path, "source", "mounted")
    try:
        unmount = mounted(source, project / "f")
    except subprocess.CalledProcessError:
        pytest.skip("mounts are forbidden here")
    try:
        report = ws.restore("one")
        assert [(kept.path, kept.reason) for kept in report.kept] == [("f", "a mount point")]
        assert (source.read_text(), (project / "g").read_text()) == ("mounted", "1")
        assert left_lying(project) == []
    finally:
        unmount()


def test_hard_links_are_cut_not_written_through(ws, project):
    put(project, "a", "1")
    os.link(project / "a", project / "b")
    ws.save("one")
    (project / "a").write_text("2")
    ws.restore("one", paths=["a"])
    assert ((project / "a").read_text(), (project / "b").read_text()) == ("1", "2")


def test_files_that_are_right_are_not_touched(scene):
    ws = scene.reset()
    before = snapshot(scene.project)
    ws.restore("new")
    after = snapshot(scene.project)
    assert all(before[path] == after[path] for path in ("same", "dir_bits/kept"))
    ws.close()


def test_a_report_says_what_happened(scene):
    ws = scene.reset()
    report = ws.restore("new")
    ws.close()
    assert set(report.modified) == {"modified", "file_to_link", "bits", "dir_bits"}
    assert {"deleted", "file_to_dir", "link_to_dir"} <= set(report.deleted)
    assert {"dir_to_file", "dir_to_link", "file_to_dir/deep/made", "link_to_dir/made"} <= set(report.created)
    assert state_of(scene.project)["bits"] == file("bits", 0o640)
