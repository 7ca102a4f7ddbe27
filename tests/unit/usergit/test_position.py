"""Where a repository stands: every shape, every problem in words."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mulligan.usergit.position import obstacle, other_worktree_on, points_back, read_position
from mulligan.usergit.repository import Repository
from tools import git
from tree import put
from users_repository import new_repository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "repo")


def opened(place: Path) -> Repository:
    found = Repository.find(str(place))
    assert found is not None
    return found


def test_a_branch(repo: Path) -> None:
    with opened(repo) as found:
        record = read_position(found, ["refs/heads/side", "refs/heads/none"])
    position = record.position
    assert (position.branch, position.ref, position.problem) == ("main", "refs/heads/main", "")
    assert not position.detached and position.commit
    heads = {name: git("rev-parse", name, cwd=repo).decode().strip() for name in ("main", "side")}
    assert dict(position.refs) == {
        "refs/heads/main": heads["main"], "refs/heads/side": heads["side"], "refs/heads/none": "",
    }  # fmt: skip
    assert position.commit == heads["main"] and record.index_data == (repo / ".git/index").read_bytes()
    assert record.index_mtime_ns == (repo / ".git/index").stat().st_mtime_ns


def test_detached_and_unborn(repo: Path, tmp_path: Path) -> None:
    git("checkout", "-q", "--detach", cwd=repo)
    with opened(repo) as found:
        position = read_position(found).position
    assert position.detached and position.branch == "HEAD" and position.refs == () and position.commit
    (tmp_path / "new").mkdir()
    git("init", "-q", "-b", "first", cwd=tmp_path / "new")
    with opened(tmp_path / "new") as found:
        record = read_position(found)
    assert (
        record.position.ref
        and not record.position.commit
        and record.position.refs == (("refs/heads/first", ""),)
        and record.index_data == b""
    )


def test_words_for_people(repo: Path) -> None:
    with opened(repo) as found:
        position = read_position(found).position
    assert position.words() == f"main at {position.commit[:12]}"
    assert position._replace(ref=None).words().startswith("no branch at ")
    assert position._replace(commit="").words() == "main, no commit yet"


@pytest.mark.parametrize("name", ["rebase-merge", "rebase-apply", "sequencer"])
def test_many_steps_under_way_are_an_obstacle(repo: Path, name: str) -> None:
    (repo / ".git" / name).mkdir()
    with opened(repo) as found:
        problem, way_out = obstacle(found)
    assert "in the middle of" in problem and "--abort" in way_out


def test_a_merge_under_way_is_part_of_the_position(repo: Path) -> None:
    put(repo, ".git/MERGE_HEAD", "a" * 40 + "\n")
    put(repo, ".git/MERGE_MODE", "")
    with opened(repo) as found:
        position = read_position(found).position
        assert obstacle(found) == ("", "")
    assert dict(position.merging) == {"MERGE_HEAD": "a" * 40 + "\n", "MERGE_MODE": ""} and not position.problem
    (repo / ".git/MERGE_HEAD").unlink()
    (repo / ".git/MERGE_HEAD").symlink_to("/etc/passwd")
    with opened(repo) as found:
        assert "MERGE_HEAD" in read_position(found).position.problem


@pytest.mark.parametrize(
    ("line", "movable"),
    [
        ("objectFormat = sha1", True),
        ("refStorage = files", True),
        ("preciousObjects = true", True),
        ("worktreeConfig", True),
        ("objectFormat = sha256", False),
        ("refStorage = reftable", False),
        ("somethingNew = true", False),
    ],
)
def test_formats(repo: Path, line: str, movable: bool) -> None:
    config = (repo / ".git/config").read_text()
    put(repo, ".git/config", f"{config}[extensions]\n\t{line}\n")
    with opened(repo) as found:
        assert (read_position(found).position.problem == "") == movable


def test_a_worktree_points_back_and_a_copy_of_its_pointer_does_not(repo: Path, tmp_path: Path) -> None:
    git("worktree", "add", "-q", tmp_path / "linked", "side", cwd=repo)
    with opened(tmp_path / "linked") as found:
        assert points_back(found)
    (tmp_path / "impostor").mkdir()
    shutil.copy(tmp_path / "linked/.git", tmp_path / "impostor/.git")
    with opened(tmp_path / "impostor") as found:
        assert not points_back(found) and obstacle(found)[0]


def test_a_separate_git_directory_needs_its_work_tree_in_the_configuration(tmp_path: Path) -> None:
    place = tmp_path / "work"
    place.mkdir()
    git("init", "-q", "--separate-git-dir", tmp_path / "elsewhere.git", cwd=place)
    with opened(place) as found:
        assert not points_back(found)
    git("config", "core.worktree", os.fspath(place), cwd=place)
    with opened(place) as found:
        assert points_back(found)


def test_which_worktree_has_a_branch(repo: Path, tmp_path: Path) -> None:
    git("worktree", "add", "-q", tmp_path / "linked", "side", cwd=repo)
    with opened(repo) as found:
        assert other_worktree_on(found, "refs/heads/side") == "linked"
        assert other_worktree_on(found, "refs/heads/main") == ""
    with opened(tmp_path / "linked") as found:
        assert other_worktree_on(found, "refs/heads/main") == "the main one"
    git("clone", "-q", "--bare", repo, tmp_path / "bare.git")
    git("worktree", "add", "-q", "-f", tmp_path / "of-bare", "main", cwd=tmp_path / "bare.git")
    with opened(tmp_path / "of-bare") as found:
        assert other_worktree_on(found, "refs/heads/main") == "", "a bare repository has nothing checked out"


def test_another_users_repository_is_an_obstacle(repo: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a directory away")
    os.chown(repo / ".git", 12345, 12345)
    with opened(repo) as found:
        assert "another user" in obstacle(found)[0]
