"""What the walk beside this file found, story by story, and the walk itself in small."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import mulligan
from checker import judge
from faults import Counting, Killed, KilledAt
from mulligan.safefs import syscalls
from tools import git, plain_environment, sweep
from tree import contents, put

SCRIPT = Path(__file__).parent / "bystander_walk.py"


def walk(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the walk."""
    command = [sys.executable, SCRIPT, "--seed", "1", *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


def test_nothing_but_what_the_plan_names_changes_and_undo_is_exact():
    """Reliability rows 31 and 32, small."""
    done = walk("--size", str(sweep(60)))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("build", ["cleans", "touches"])
def test_a_build_that_disturbs_bystanders_is_caught(build):
    """Reliability row 56: zeros mean something only if these are not zero."""
    done = walk("--size", "200", "--build", build, "--enough", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "bystander" in done.stdout


def bits(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_permission_bits_are_never_changed_through_another_name(ws, project, tmp_path):
    """A file that is linked from elsewhere gets its bits back as a new file; the other name keeps what it has."""
    put(project, "a", "1", perm=0o644)
    ws.save("one")
    os.link(project / "a", tmp_path / "elsewhere")
    (project / "a").chmod(0o600)
    assert ws.restore("one").modified == ["a"]
    assert (bits(project / "a"), bits(tmp_path / "elsewhere")) == (0o644, 0o600)
    ws.undo()
    assert (bits(project / "a"), bits(tmp_path / "elsewhere")) == (0o600, 0o600)


def test_a_kill_while_bits_of_a_linked_file_are_restored_leaves_the_other_name_alone(project, store, tmp_path):
    """At every call of the restore: the next command ends it, and the other name has never changed."""
    other = tmp_path / "elsewhere"
    number = 0
    while True:
        number += 1
        put(project, "a", "1", perm=0o644)
        put(project, "b", str(number))
        with mulligan.open(project, store=store) as ws:
            ws.save("one")
        other.unlink(missing_ok=True)
        os.link(project / "a", other)
        (project / "a").chmod(0o600)
        put(project, "b", "changed")
        system: Counting = KilledAt(number)
        with mulligan.open(project, store=store) as ws, syscalls.using(system):
            try:
                ws.restore("one")
            except Killed:
                pass
            else:
                break
        assert bits(other) == 0o600
        with mulligan.open(project, store=store) as ws:
            ws.save("after")
        assert bits(other) == 0o600
        assert (bits(project / "a"), (project / "b").read_text()) in {(0o600, "changed"), (0o644, str(number))}
        assert sorted(os.listdir(project)) == ["a", "b"]
        (project / "a").unlink()
    assert number > 20
    assert judge(store, project) == []


def test_undo_is_exact_when_the_restore_took_an_ignore_rule_away(ws, project):
    """What the rule had hidden comes into sight by the restore: it is no edit made since, and no undo removes it."""
    put(project, ".gitignore", "")
    put(project, "a", "1")
    ws.save("one")
    put(project, ".gitignore", "*.log\n")
    put(project, "b.log", "hidden")
    put(project, "a", "2")
    before = contents(project)
    ws.restore("one")
    assert (project / "b.log").read_text() == "hidden"
    ws.undo()
    assert contents(project) == before
    ws.redo()
    assert (project / "a").read_text() == "1"
    assert (project / "b.log").read_text() == "hidden"


@pytest.mark.parametrize("then", ["x", "x/inner"], ids=["file", "directory"])
def test_what_took_the_place_of_a_tracked_file_in_an_ignored_directory_is_kept_and_blocks_nothing(ws, project, then):
    """The directory is hidden but for what git tracks; at that very path stands something that is not captured."""
    git("init", "-q", cwd=project)
    put(project, "out/x", "tracked")
    git("add", "out/x", cwd=project)
    (project / "out/x").unlink()
    put(project, f"out/{then}", "saved")
    put(project, "a", "1")
    ws.save("one")
    (project / f"out/{then}").unlink()
    if then != "x":
        (project / "out/x").rmdir()
    put(project, ".gitignore", "out/\n")
    put(project, "out/x/inner", "hidden now")
    put(project, "a", "2")
    report = ws.restore("one")
    assert (project / "a").read_text() == "1"
    assert (project / "out/x/inner").read_text() == "hidden now"
    assert any(keep.path.startswith("out/x") for keep in report.kept)
    ws.undo()
    assert (project / "a").read_text() == "2"


def test_undo_removes_what_the_restore_made_where_a_rule_hides_everything_else(ws, project):
    """The directory was hidden but for what git tracks; the tracked file was gone, so the restore made it anew."""
    git("init", "-q", cwd=project)
    put(project, "out/x", "tracked")
    git("add", "out/x", cwd=project)
    ws.save("one")
    (project / "out/x").unlink()
    put(project, ".gitignore", "out/\n")
    put(project, "out/hidden", "mine")
    before = contents(project)
    ws.restore("one")
    assert (project / "out/x").read_text() == "tracked"
    ws.undo()
    assert contents(project) == before
    ws.redo()
    assert (project / "out/x").read_text() == "tracked"
    ws.undo()
    assert contents(project) == before


def test_undo_takes_back_a_path_that_was_restored_although_a_rule_hides_it(ws, project):
    """A rule of today hides it, nothing stood there, and somebody asked for it by its path: the undo is about that step."""
    put(project, "a.log", "1")
    put(project, "b", "1")
    ws.save("one")
    (project / "a.log").unlink()
    put(project, "b", "2")
    put(project, ".gitignore", "*.log\n")
    ws.save("two")
    before = contents(project)
    assert ws.restore("one", paths=["a.log"]).created == ["a.log"]
    ws.undo()
    assert contents(project) == before
    ws.redo()
    assert (project / "a.log").read_text() == "1"
    assert (project / "b").read_text() == "2"


def test_undo_takes_back_a_file_that_had_stood_there_unseen_and_was_gone(ws, project):
    """The last checkpoint lists it as ignored; it was removed since, which no scan can tell, and the restore made it anew."""
    put(project, "c/h.log", "1")
    ws.save("one")
    put(project, ".gitignore", "*.log\n")
    ws.save("two")
    (project / "c/h.log").unlink()
    before = contents(project)
    assert ws.restore("one").created == ["c/h.log"]
    ws.undo()
    assert contents(project) == before
    ws.redo()
    assert (project / "c/h.log").read_text() == "1"
    ws.undo()
    assert contents(project) == before


def test_undo_puts_a_tracked_file_back_where_the_restore_made_a_hidden_directory(ws, project):
    """A rule hides the name and git tracks the file, so the file is seen and the directory that took its place is not."""
    git("init", "-q", cwd=project)
    put(project, "a/f1/inner", "1")
    put(project, "b", "1")
    ws.save("one")
    (project / "a/f1/inner").unlink()
    (project / "a/f1").rmdir()
    put(project, "a/f1", "tracked")
    put(project, ".gitignore", "f1*\n")
    git("add", "-f", "a/f1", cwd=project)
    ws.save("two")
    put(project, "b", "2")
    before = contents(project)
    ws.restore("one", paths=["a", "b"])
    assert (project / "a/f1/inner").read_text() == "1"
    ws.undo()
    assert contents(project) == before
    put(project, ".gitignore", "f1*\n# another\n")
    ws.save("three")
    rules = contents(project)
    ws.restore("one")
    ws.undo()
    assert contents(project) == rules


def test_undo_leaves_what_came_into_a_hidden_directory_that_the_restore_made(ws, project):
    """What the restore made is taken back; what somebody put beside it, ignored or secret, is nobody's business."""
    put(project, "out/x", "1")
    ws.save("one")
    (project / "out/x").unlink()
    (project / "out").rmdir()
    put(project, ".gitignore", "out/\n")
    ws.save("two")
    ws.restore("one", paths=["out"])
    put(project, "out/.env", "SECRET=1")
    put(project, "out/mine", "mine")
    report = ws.undo()
    assert not (project / "out/x").exists()
    assert (project / "out/.env").read_text() == "SECRET=1"
    assert (project / "out/mine").read_text() == "mine"
    assert {*report.deleted} <= {"out/x"}


def test_a_file_does_not_come_back_where_a_directory_stays_that_a_later_checkpoint_did_not_save(ws, project):
    """The plan says so before anything changes: not even the time of the directory above is another one afterwards."""
    put(project, "d/x", "file")
    put(project, "a", "1")
    ws.save("one")
    (project / "d/x").unlink()
    put(project, "d/x/f", "not saved")
    put(project, ".gitignore", "d/x/\n")
    ws.save("two")
    (project / ".gitignore").unlink()
    put(project, "a", "2")
    before = (project / "d").stat().st_mtime_ns
    assert [action.path for action in ws.plan("one").actions] == [b"a"]
    report = ws.restore("one")
    assert report.modified == ["a"]
    assert [(keep.path, keep.reason) for keep in report.kept if keep.failed] == [("d/x", "not empty")]
    assert (project / "d/x/f").read_text() == "not saved"
    assert (project / "d").stat().st_mtime_ns == before


def test_undo_removes_what_the_restore_made_where_a_rule_had_hidden_everything_once(ws, project):
    """The rule was gone again when the restore began, so nothing stood there."""
    put(project, "c/other", "1")
    put(project, "c/f", "1")
    ws.save("one")
    (project / "c/f").unlink()
    ws.save("two")
    put(project, ".gitignore", "c/\n")
    ws.save("three")
    ws.restore("two")
    before = contents(project)
    assert ws.restore("one").created == ["c/f"]
    assert ws.undo().deleted == ["c/f"]
    assert contents(project) == before


def test_what_came_after_a_checkpoint_goes_whatever_a_rule_hid_before_it(ws, project):
    """Only checkpoints after the target say that a file may be older than it looks."""
    put(project, ".gitignore", "out/\n")
    put(project, "out/old", "1")
    ws.save()
    put(project, ".gitignore", "")
    saved = ws.save()
    put(project, "out/new", "2")
    report = ws.restore(saved)
    assert (report.deleted, report.kept) == (["out/new"], [])


def test_a_tracked_file_in_an_ignored_directory_is_removed_by_a_restore_because_it_was_saved(ws, project):
    """The later checkpoint lists the directory as ignored, and holds the tracked file all the same."""
    git("init", "-q", cwd=project)
    put(project, "out/other", "1")
    ws.save("one")
    put(project, "out/x", "2")
    git("add", "out/x", cwd=project)
    put(project, ".gitignore", "out/\n")
    ws.save("two")
    report = ws.restore("one")
    assert sorted(report.deleted) == [".gitignore", "out/x"]
    assert (project / "out/other").read_text() == "1"
    assert ws.undo().created == [".gitignore", "out/x"]
