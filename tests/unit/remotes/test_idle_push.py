"""A watcher pushes while it is idle, if you want that: never in the way of a command, and its failures can be seen."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

import mulligan
from fleet import bare_repository, free_port, git_daemon, object_store
from mulligan.cli.idle_push import IdlePushes
from tools import cli, cli_json
from tree import put
from watchers import ALONE, wait_until, watched


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    put(root, "a.txt", "1")
    cli_json("config", "set", "remotes.push_when_idle", "1", cwd=tmp_path)
    cli_json("save", "first", cwd=root, **ALONE)
    return root


def remote_of(project: Path) -> dict[str, str]:
    (row,) = cli_json("status", cwd=project, **ALONE)["remotes"]
    return row


def checkpoints_at(project: Path) -> int:
    return len(cli_json("log", "--remote", "hub", cwd=project, **ALONE)["checkpoints"])


def test_what_is_saved_is_pushed_to_a_git_server_when_the_watcher_is_idle(tmp_path, project):
    bare_repository(tmp_path / "srv" / "t.git")
    with git_daemon(tmp_path / "srv") as server:
        cli_json("remote", "add", "hub", f"{server}/t.git", cwd=project)
        assert remote_of(project) == {"name": "hub", "pushed_at": None, "failed_at": None, "error": None}
        with watched(project):
            wait_until(lambda: remote_of(project)["pushed_at"] is not None)
            put(project, "a.txt", "2")
            cli_json("save", "second", cwd=project)
            wait_until(lambda: checkpoints_at(project) == 2)
    assert "hub: pushed" in cli("status", cwd=project, **ALONE).stdout


def test_what_is_saved_is_pushed_to_an_object_store_when_the_watcher_is_idle(project, monkeypatch):
    with object_store() as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        cli_json("remote", "add", "hub", "s3://bucket/idle", cwd=project)
        with watched(project):
            wait_until(lambda: remote_of(project)["pushed_at"] is not None)
        assert checkpoints_at(project) == 1


def test_without_the_setting_nothing_is_pushed(tmp_path, project):
    cli_json("remote", "add", "hub", bare_repository(tmp_path / "t.git"), cwd=project)
    cli_json("config", "unset", "remotes.push_when_idle", cwd=project)
    pushes = IdlePushes()
    with mulligan.open(project) as ws:
        assert ws.remotes.behind() == ["hub"]
        pushes.turn(ws, 1e9)
        assert not pushes.is_running
        ws.push()
        assert ws.remotes.behind() == []


def test_a_project_cannot_have_its_history_pushed(tmp_path, project):
    """A file of the project may be an agent's work."""
    cli_json("config", "unset", "remotes.push_when_idle", cwd=project)
    put(project, "mulligan.toml", "[remotes]\npush_when_idle = 1\n")
    with mulligan.open(project) as ws:
        assert ws.settings.remotes.push_when_idle == 0
        assert "can only be set in your own configuration" in ws.settings.warnings[0]


def test_a_push_that_fails_is_shown_and_tried_again(tmp_path, project):
    bare_repository(tmp_path / "srv" / "t.git")
    port = free_port()
    with git_daemon(tmp_path / "srv", port) as server:
        cli_json("remote", "add", "hub", f"{server}/t.git", cwd=project)
    with watched(project):
        wait_until(lambda: remote_of(project)["error"] is not None)
        shown = cli("status", cwd=project, **ALONE).stdout
        assert "hub: the push failed" in shown
        assert "does not answer. Your checkpoints here are untouched." in shown
        with git_daemon(tmp_path / "srv", port):
            wait_until(lambda: remote_of(project)["pushed_at"] is not None)
        assert remote_of(project)["error"] is None


def test_a_server_that_does_not_answer_keeps_no_command_waiting(tmp_path, project):
    """The push waits for the network without the store's lock, and ends with the watcher."""
    port = free_port()
    bare_repository(tmp_path / "srv" / "t.git")
    with git_daemon(tmp_path / "srv", port) as server:
        cli_json("remote", "add", "hub", f"{server}/t.git", cwd=project)
    with socket.create_server(("127.0.0.1", port)) as silent:
        with watched(project) as watcher:
            link, _ = silent.accept()
            pushing = children(watcher.pid)
            assert len(pushing) == 1
            put(project, "a.txt", "2")
            assert cli("--wait", "0", "save", "second", cwd=project, **ALONE).returncode == 0
            assert cli("save", "third", cwd=project).returncode == 0
        link.close()
    assert not any(os.path.exists(f"/proc/{each}") for each in pushing)


def children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
