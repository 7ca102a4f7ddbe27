"""Directories that mulligan refuses, stores it distrusts, and projects that moved."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import mulligan
from tools import cli, cli_json
from tree import put, snapshot


@pytest.mark.parametrize("name", ["", "Desktop", "Documents", "Downloads"])
def test_home_and_its_big_folders_are_refused(private_home, tmp_path, name):
    folder = private_home / name
    folder.mkdir(exist_ok=True)
    put(folder, "letter", "dear")
    before = snapshot(private_home)
    with pytest.raises(mulligan.Unprotectable) as caught:
        mulligan.open(folder, store=tmp_path / "store").save("one")
    assert caught.value.hint
    assert snapshot(private_home) == before
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("path", ["/", "/tmp", "/usr", "/etc", "/home"])
def test_the_machine_itself_is_refused_at_once(tmp_path, path):
    if not Path(path).is_dir():
        pytest.skip(f"{path} is not here")
    with pytest.raises(mulligan.Unprotectable):
        mulligan.open(path, store=tmp_path / "store").save("one")
    assert not (tmp_path / "store").exists()


def test_home_under_another_name_is_refused_too(private_home, tmp_path):
    (tmp_path / "alias").symlink_to(private_home)
    with pytest.raises(mulligan.Unprotectable):
        mulligan.open(tmp_path / "alias", store=tmp_path / "store").save("one")


def test_a_project_below_home_is_welcome(private_home, tmp_path):
    put(private_home / "code/app", "a", "1")
    assert mulligan.open(private_home / "code/app", store=tmp_path / "store").save("one").complete


def test_a_store_inside_the_workspace_never_captures_itself(project):
    """Nobody's default, but an explicit choice is honoured; status warns of it."""
    put(project, "a", "1")
    ws = mulligan.open(project, store=project / "store")
    cp = ws.save("one")
    assert cp.files_changed == ("a",)
    assert [row.path for row in cp.not_captured] == ["store"]
    put(project, "a", "2")
    ws.restore("one")
    assert (project / "a").read_text() == "1"
    assert any("inside the workspace" in warning for warning in ws.status()["warnings"])


def test_a_workspace_inside_the_store_is_refused(project, store):
    put(project, "a", "1")
    mulligan.open(project, store=store).save("one")
    inside = store / "inner"
    inside.mkdir()
    with pytest.raises(mulligan.MulliganError):
        mulligan.open(inside, store=store).save("two")
    with pytest.raises(mulligan.MulliganError):
        mulligan.open(store, store=store).save("two")


def test_a_store_that_others_may_write_is_refused(project, store):
    put(project, "a", "1")
    mulligan.open(project, store=store).save("one")
    store.chmod(0o777)
    put(project, "a", "2")
    with pytest.raises(mulligan.MulliganError):
        mulligan.open(project, store=store).save("two")


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_the_store_is_private_under_every_umask(project, store, mask):
    from checker import judge

    put(project, "a", "1")
    os.umask(mask)
    ws = mulligan.open(project, store=store)
    ws.save("one")
    put(project, "a", "2")
    ws.restore("one")
    ws.undo()
    ws.prune()
    assert judge(store, project) == []


@pytest.mark.parametrize("what", ["missing", "file"])
def test_a_workspace_that_is_no_directory_is_refused(tmp_path, what):
    place = tmp_path / "place"
    if what == "file":
        place.write_text("x")
    with pytest.raises(mulligan.MulliganError):
        mulligan.open(place, store=tmp_path / "store").save("one")


def test_a_moved_project_takes_its_history_along_by_adopt(project, tmp_path):
    put(project, "a", "1")
    cli_json("save", "one", cwd=project)
    put(project, "a", "2")
    moved = tmp_path / "moved"
    project.rename(moved)
    assert cli_json("log", cwd=moved)["checkpoints"] == []
    done = cli("adopt", project, cwd=moved)
    assert done.returncode == 0, done.stderr
    assert [cp["name"] for cp in cli_json("log", cwd=moved)["checkpoints"]] == ["one"]
    cli_json("restore", "one", "-y", cwd=moved)
    assert (moved / "a").read_text() == "1"


def test_a_copied_project_has_no_history_of_its_own(project, tmp_path):
    put(project, "a", "1")
    cli_json("save", "one", cwd=project)
    shutil.copytree(project, tmp_path / "copy")
    assert cli_json("log", cwd=tmp_path / "copy")["checkpoints"] == []


def test_a_replaced_project_root_asks_before_it_is_restored_over(project, store):
    put(project, "a", "1")
    mulligan.open(project, store=store).save("one")
    project.rename(project.parent / "aside")
    project.mkdir()
    put(project, "different", "d")
    before = snapshot(project)
    with pytest.raises(mulligan.MulliganError):
        mulligan.open(project, store=store).restore("one")
    assert snapshot(project) == before


def test_the_same_project_by_another_spelling_has_the_same_history(project, tmp_path):
    put(project, "a", "1")
    one = mulligan.open(project).save("one")
    (tmp_path / "alias").symlink_to(project)
    assert mulligan.open(tmp_path / "alias").get("one").id == one.id
    assert mulligan.open(f"{project}/../project/").get("one").id == one.id


def test_two_projects_know_nothing_of_each_other(tmp_path):
    for name in "xy":
        put(tmp_path / name, "a", name)
        mulligan.open(tmp_path / name).save(name)
    assert [cp.name for cp in mulligan.open(tmp_path / "x").log()] == ["x"]
    mulligan.open(tmp_path / "x").delete("x")
    mulligan.open(tmp_path / "x").prune()
    assert mulligan.open(tmp_path / "y").cat("y", "a") == b"y"
