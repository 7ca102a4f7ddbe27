"""`compare` puts two ways side by side: files, lines, and the result of a command in each."""

from __future__ import annotations

import pytest

import mulligan
from tools import cli, cli_json
from tree import put, snapshot


@pytest.fixture
def two(project, tmp_path):
    """A project with two forks that went different ways."""
    put(project, "app", "one\n")
    with mulligan.open(project) as ws:
        ws.save("start")
        ws.fork("start", tmp_path / "left").close()
        ws.fork("start", tmp_path / "right").close()
    put(tmp_path, "left/app", "left\n")
    put(tmp_path, "right/app", "right\n")
    put(tmp_path, "right/more", "more\nlines\n")
    return project


def test_two_forks_are_compared_as_they_are(two, tmp_path):
    found = cli_json("compare", "../left", "../right", cwd=two)["compare"]
    assert (found["diff"]["added"], found["diff"]["modified"]) == (["more"], ["app"])
    assert (found["a"]["changed"]["files"], found["b"]["changed"]["files"]) == (1, 2)
    assert found["a"]["fork"] == str(tmp_path / "left") and found["a"]["run"] is None
    assert (found["diff"]["additions"], found["diff"]["deletions"]) == (3, 1)


def test_a_command_runs_in_each_and_its_result_is_shown(two):
    command = "cat app; grep -q right app"
    found = cli_json("compare", "../left", "../right", "--run", command, cwd=two)["compare"]
    assert [found[side]["run"]["exit_code"] for side in "ab"] == [1, 0]
    assert [found[side]["run"]["tail"] for side in "ab"] == ["left", "right"]
    done = cli("compare", "../left", "../right", "--run", command, cwd=two)
    assert done.returncode == 0 and "exit 1" in done.stdout and "exit 0" in done.stdout
    assert "mulligan keep ../right" in done.stdout and "running in ../left" in done.stderr


def test_a_checkpoint_is_compared_in_a_scratch_fork(two):
    before = snapshot(two)
    found = cli_json("compare", "start", "../right", "--run", "touch made-here; cat app", cwd=two)["compare"]
    assert found["a"]["fork"] is None and found["a"]["run"]["tail"] == "one"
    assert snapshot(two) == before


def test_the_same_twice_says_so(two):
    assert "No file differs." in cli("compare", "@", "start", cwd=two).stdout
    assert cli("compare", "@", "../nowhere", cwd=two).returncode == 1
