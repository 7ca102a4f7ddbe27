"""What a restore would do: every kind into every other, and who is left alone."""

from __future__ import annotations

import itertools
import os
import shutil

import pytest

import mulligan
from scenes import NEW, OLD, State, file, folder, link, state_of, write_state
from tools import git
from tree import put

AT_ONE_PATH: list[State] = [
    {},
    {"p": file("1")},
    {"p": file("2", 0o755)},
    {"p": link("elsewhere")},
    {"p": folder()},
    {"p": folder(), "p/q": file("3")},
    {"p": folder(), "p/q": link("../outside")},
    {"p": folder(), "p/q": folder(0o750), "p/q/r": file("4")},
    {"p": folder(), "p/q": folder()},
]


def test_any_kind_of_path_turns_into_any_other_and_back(ws, project):
    beside = {"beside": file("beside")}
    saved = []
    for state in AT_ONE_PATH:
        write_state(project, state | beside)
        saved.append(ws.save().id)
    for (old, _), (new, target) in itertools.permutations(zip(AT_ONE_PATH, saved, strict=True), 2):
        write_state(project, old | beside)
        report = ws.restore(target)
        assert state_of(project) == new | beside
        assert report.kept == []
        ws.undo()
        assert state_of(project) == old | beside


def test_the_same_input_gives_the_same_plan(ws, project):
    write_state(project, NEW)
    ws.save("new")
    write_state(project, OLD)
    assert ws.plan("new").actions == ws.plan("new").actions
    ws.restore("new")
    assert ws.plan("new").is_noop


def test_some_paths_take_with_them_what_stands_in_their_way(ws, project):
    put(project, "d/e/f", "1")
    put(project, "other", "1")
    ws.save("one")
    shutil.rmtree(project / "d")
    put(project, "d", "a file in the way")
    put(project, "other", "2")
    ws.restore("one", paths=["d/e/f"])
    assert (project / "d/e/f").read_text() == "1"
    assert (project / "other").read_text() == "2"
    ws.undo()
    assert (project / "d").read_text() == "a file in the way"


def test_a_path_that_is_a_directory_now_and_was_a_file_takes_all_below_it(ws, project):
    put(project, "p", "a file")
    ws.save("one")
    (project / "p").unlink()
    put(project, "p/q/r", "1")
    put(project, "p2", "bystander")
    ws.restore("one", paths=["p"])
    assert state_of(project) == {"p": file("a file"), "p2": file("bystander")}


def test_uncaptured_files_in_the_way_stay_and_are_listed(ws, project):
    """A FIFO where a directory should be, a secret inside one that should become a file, an ignored file at the path."""
    put(project, "fifo/inner", "1")
    put(project, "holder", "1")
    put(project, "hidden", "1")
    ws.save("one")
    shutil.rmtree(project / "fifo")
    os.mkfifo(project / "fifo")
    (project / "holder").unlink()
    put(project, "holder/kept.skip", "TOKEN=1")
    put(project, "holder/plain", "2")
    put(project, ".gitignore", "hidden\n*.skip\n")
    put(project, "hidden", "only here")
    report = ws.restore("one")
    assert {kept.path for kept in report.kept if kept.failed} == {"fifo", "fifo/inner", "holder", "hidden"}
    assert not report.complete
    assert (project / "holder/kept.skip").read_text() == "TOKEN=1"
    assert (project / "hidden").read_text() == "only here"


@pytest.fixture
def half_ignored(project):
    """A repository that ignores `build/` and tracks one file in it."""
    put(project, ".gitignore", "build/\n")
    put(project, "build/tracked", "1")
    put(project, "build/sub/tracked", "1")
    put(project, "build/junk", "not captured")
    git("init", "-q", cwd=project)
    git("add", "-f", ".gitignore", "build/tracked", "build/sub/tracked", cwd=project)
    return project


def test_a_tracked_file_comes_back_into_an_ignored_directory(ws, half_ignored):
    ws.save("one")
    (half_ignored / "build/tracked").unlink()
    shutil.rmtree(half_ignored / "build/sub")
    report = ws.restore("one")
    assert report.kept == []
    assert (half_ignored / "build/tracked").read_text() == (half_ignored / "build/sub/tracked").read_text() == "1"
    assert (half_ignored / "build/junk").read_text() == "not captured"


def test_a_file_that_is_no_longer_tracked_is_not_overwritten(ws, half_ignored):
    ws.save("one")
    git("rm", "-q", "--cached", "build/tracked", cwd=half_ignored)
    put(half_ignored, "build/tracked", "only here now")
    report = ws.restore("one")
    assert [(kept.path, kept.failed) for kept in report.kept] == [("build/tracked", True)]
    assert (half_ignored / "build/tracked").read_text() == "only here now"


def test_a_file_where_a_half_captured_directory_was_gives_way_to_it(ws, half_ignored):
    ws.save("one")
    shutil.rmtree(half_ignored / "build")
    put(half_ignored, "build", "a file")
    ws.restore("one")
    assert (half_ignored / "build/tracked").read_text() == "1"
    ws.undo()
    assert (half_ignored / "build").read_text() == "a file"


def test_a_half_captured_directory_is_not_replaced_by_a_file(ws, project):
    put(project, "build", "a file")
    ws.save("one")
    (project / "build").unlink()
    put(project, ".gitignore", "build/\n")
    put(project, "build/tracked", "1")
    put(project, "build/junk", "not captured")
    git("init", "-q", cwd=project)
    git("add", "-f", "build/tracked", cwd=project)
    report = ws.restore("one")
    assert "build" in {kept.path for kept in report.kept if kept.failed}
    assert (project / "build/junk").read_text() == "not captured"


def test_setuid_is_left_where_it_is_and_never_given(ws, project):
    put(project, "has", "1", perm=0o4755)
    put(project, "had", "1", perm=0o4755)
    ws.save("one")
    put(project, "has", "2", perm=0o4755)
    put(project, "had", "2", perm=0o755)
    ws.restore("one")
    assert (project / "has").stat().st_mode & 0o7777 == 0o4755
    assert (project / "had").stat().st_mode & 0o7777 == 0o755
    assert ws.plan("one").is_noop


def test_a_plan_is_stale_when_anything_it_says_has_changed(ws, project):
    put(project, "a", "1")
    ws.save("one")
    put(project, "a", "2")
    plan = ws.plan("one")
    for path, content in (("a", "3"), ("made later", "x")):
        put(project, path, content)
        with pytest.raises(mulligan.PlanStale):
            ws.apply(plan)
        assert (project / path).read_text() == content
    (project / "made later").unlink()
    put(project, "a", "2")
    assert ws.apply(plan).modified == ["a"]
