"""The walk: nothing is missed, nothing is followed, nothing hangs, and what is not captured is listed."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest

import mulligan
from checker import judge
from mulligan.model.policy import CapturePolicy
from mulligan.scan import scope
from mulligan.scan import walk as walking
from scans import Looking, names, reasons, settings_for
from tools import git
from tree import contents, put, wipe

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")


@pytest.fixture(params=["python", "native"], autouse=True)
def either_way(request):
    """Every promise of the walk holds with and without the native look."""
    request.getfixturevalue(f"{request.param}_look")


def test_a_walk_that_starts_over_keeps_the_trees_of_the_first_round(project, store, monkeypatch):
    """A file that appears during the first walk of all costs a second one, and no directory is lost for it."""
    for number in range(5):
        put(project, f"d{number}/f", str(number))
    once = iter([lambda: put(project, "late", "x")])
    moved_since = walking.moved_since

    def moved(*seen):
        next(once, lambda: None)()
        return moved_since(*seen)

    monkeypatch.setattr(walking, "moved_since", moved)
    ws = mulligan.Workspace(settings_for(project), now_ns=lambda: 2**62)
    ws.save("one")
    ws.close()
    assert judge(store) == []


def test_a_file_that_outgrows_the_limit_does_not_change_the_others_modes(project):
    for number in range(20):
        put(project, f"f{number}", "x")
    seen = Looking(project, CapturePolicy(max_file_size=100))
    seen.look()
    put(project, "f2", "z" * 200)
    put(project, "f1", "y")
    seen.scanner._now_ns = lambda: 0  # all is too young to be remembered
    scan = seen.look()
    assert {0o100644} == {mode for _, mode, _ in scan.captured()}
    assert reasons(scan) == {"f2": "too large"}


@pytest.mark.parametrize("seconds", [-20_000_000_000, -5, 13_000_000_000])
def test_a_file_may_claim_any_time(project, seconds):
    for place in (put(project, "f", "x"), project / "d", project):
        place.mkdir(exist_ok=True) if place.name == "d" else None
        try:
            os.utime(place, ns=(0, seconds * 1_000_000_000))
        except OverflowError:
            pytest.skip("this file system has no such time")
    seen = Looking(project)
    first = seen.look()
    assert names(first) == {"f"} == names(seen.look())


def test_what_git_stops_tracking_is_ignored_again(project):
    """The directory itself did not change, and the cache must not stand in the way; nor when it is tracked again."""
    git("init", "-q", project)
    put(project, ".gitignore", "*.log\n.env*\n")
    for path in ("a.log", "node_modules/m.js", ".env.example"):
        put(project, path, "x")
    seen = Looking(project)
    for _ in range(2):
        assert not {"a.log", "node_modules/m.js", ".env.example"} & names(seen.look())
        git("add", "-f", "a.log", "node_modules/m.js", ".env.example", cwd=project)
        assert {"a.log", "node_modules/m.js", ".env.example"} <= names(seen.look())
        git("rm", "-q", "--cached", "a.log", "node_modules/m.js", ".env.example", cwd=project)


def test_a_tracked_file_that_comes_back_in_an_ignored_directory_is_captured(project):
    git("init", "-q", project)
    put(project, ".gitignore", "dist/\n")
    kept = put(project, "dist/kept", "x")
    git("add", "-f", "dist/kept", cwd=project)
    seen = Looking(project)
    assert "dist/kept" in names(seen.look())
    kept.unlink()
    assert "dist/kept" not in names(seen.look())
    put(project, "dist/kept", "y")
    assert "dist/kept" in names(seen.look())


def test_special_files_are_listed_and_nothing_hangs(project):
    os.mkfifo(project / "fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(project / "sock"))
    put(project, "f", "x")
    scan = Looking(project).look()
    assert reasons(scan) == {"fifo": "special", "sock": "special"} and scan.complete


def test_links_are_captured_and_never_followed(project, tmp_path):
    put(tmp_path, "outside/secret", "x")
    (project / "away").symlink_to(tmp_path / "outside")
    (project / "loop").symlink_to("loop")
    assert names(Looking(project).look()) == {"away", "loop"}


@is_root
def test_another_file_system_is_listed_and_left_alone(project):
    put(project, "here", "x")
    (project / "mounted").mkdir()
    seen = Looking(project)
    seen.look()
    mount = subprocess.run(["mount", "-t", "tmpfs", "none", project / "mounted"], capture_output=True, check=False)
    if mount.returncode:
        pytest.skip("mounts are forbidden here")
    try:
        put(project, "mounted/there", "x")
        scan = seen.look()
        assert names(scan) == {"here"} and scan.complete
        assert reasons(scan) == {"mounted": "other filesystem"}
    finally:
        subprocess.run(["umount", project / "mounted"], check=True)
    put(project, "mounted/here too", "x")
    assert names(seen.look()) == {"here", "mounted/here too"}


def test_a_very_deep_tree_is_captured(project, store):
    """Deeper than Python recurses and than one path can say."""
    here = os.open(project, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    ws = mulligan.open(project, store=store)
    cp = ws.save("deep")
    assert cp.complete and cp.files_changed == ("deep/" * 1100 + "f",)
    assert ws.save(if_changed=True) is None
    assert ws.cat(cp, cp.files_changed[0]) == b""
    subprocess.run(["rm", "-rf", project / "deep"], check=True)


def test_names_are_bytes(project, ws):
    for name in (b"\xff\xfe", b"new\nline", b" lead", b"trail ", b"-n", b"a" * 255, b"\x01\x7f", b"tab\t"):
        (project / os.fsdecode(name)).write_bytes(name)
    before = contents(project)
    cp = ws.save("odd")
    wipe(project)
    ws.restore(cp)
    assert contents(project) == before


def test_a_directory_that_never_holds_still_makes_the_checkpoint_partial(project, ws, monkeypatch):
    put(project, "d/f", "x")
    moved_since = walking.moved_since
    numbers = iter(range(100))

    def moved(*seen):
        put(project, f"d/new{next(numbers)}", "x")
        return moved_since(*seen)

    monkeypatch.setattr(walking, "moved_since", moved)
    cp = ws.save("busy")
    assert not cp.complete
    assert [(row.path, row.reason) for row in cp.not_captured] == [("d", "moving")]


def test_a_tracked_file_deleted_in_an_ignored_directory_is_a_deletion(project, ws):
    """It is not hidden by the rule, and a restore brings it back beside what is ignored."""
    git("init", "-q", project)
    put(project, ".gitignore", "dist/\n")
    for path in ("dist/kept", "dist/sub/kept", "dist/other"):
        put(project, path, "x")
    git("add", "-f", "dist/kept", "dist/sub/kept", cwd=project)
    before = ws.save("one")
    (project / "dist/kept").unlink()
    (project / "dist/sub/kept").unlink()
    (project / "dist/sub").rmdir()
    assert ws.diff().deleted == ["dist/kept", "dist/sub/kept"]
    cp = ws.save("two")
    assert cp.complete and cp.files_changed == ("dist/kept", "dist/sub/kept")
    assert ws.restore(before).created == ["dist/kept", "dist/sub/kept"]
    git("rm", "-q", "--cached", "dist/kept", cwd=project)
    assert [row.reason for row in ws.save("three").not_captured] == ["newly ignored"]


def test_a_file_renamed_over_another_costs_no_decision_about_its_neighbours(project, monkeypatch):
    for number in range(20):
        put(project, f"d/f{number}", "x")
    seen = Looking(project)
    seen.look()
    put(project, "d/.swap", "new")
    os.rename(project / "d/.swap", project / "d/f3")
    decided = []
    decide = scope.Scope.decide
    monkeypatch.setattr(
        scope.Scope, "decide", lambda self, path, *a, **k: decided.append(path) or decide(self, path, *a, **k)
    )
    scan = seen.look()
    assert [path for path in decided if path.startswith(b"d/")] == []
    assert dict.fromkeys(names(scan)) == dict.fromkeys(names(Looking(project).look()))
    assert scan.tree == Looking(project).look().tree


@pytest.mark.parametrize("name", ["d", "gone", "f", "link"])
def test_a_name_that_changes_its_kind_is_decided_anew(project, name):
    """The same names stand in the directory as before, and one of them is something else."""
    put(project, ".gitignore", "gone/\n")
    for path in ("a/d/inner", "a/d2/inner", "b/gone/inner", "b/d/inner", "c/f", "c/d/inner"):
        put(project, path, "x")
    (project / "c/link").symlink_to("f")
    seen = Looking(project)
    seen.look()
    for place in (path / name for path in project.iterdir() if path.is_dir() and (path / name).exists()):
        os.rename(place, project.parent / f"{place.parent.name}-{name}")
        (put(project, str(place.relative_to(project)), "y") if name in ("d", "gone") else place.mkdir())
    scan, fresh = seen.look(), Looking(project).look()
    assert (scan.tree, names(scan), reasons(scan)) == (fresh.tree, names(fresh), reasons(fresh))
