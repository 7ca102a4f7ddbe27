"""A `.git` that somebody prepared: a typed refusal, and not one byte changes, inside or outside."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mulligan
from tools import git
from tree import put, snapshot
from users_repository import expect_whole, move_on, new_repository

Plant = Callable[[Path, Path], None]


def head_out(repo: Path, _outside: Path) -> None:
    (repo / ".git/HEAD").write_bytes(b"ref: refs/heads/../../../outside/victim\n")


def head_absolute(repo: Path, outside: Path) -> None:
    (repo / ".git/HEAD").write_bytes(b"ref: " + os.fsencode(outside) + b"/victim\n")


def head_garbage(repo: Path, _outside: Path) -> None:
    (repo / ".git/HEAD").write_bytes(b"\0\xff" * 100)


def head_link(repo: Path, outside: Path) -> None:
    (repo / ".git/HEAD").unlink()
    (repo / ".git/HEAD").symlink_to(outside / "victim")


def head_fifo(repo: Path, _outside: Path) -> None:
    (repo / ".git/HEAD").unlink()
    os.mkfifo(repo / ".git/HEAD")


def refs_link(repo: Path, outside: Path) -> None:
    shutil.move(repo / ".git/refs/heads", outside / "heads")
    (repo / ".git/refs/heads").symlink_to(outside / "heads")


def branch_link(repo: Path, outside: Path) -> None:
    (repo / ".git/refs/heads/main").unlink()
    (repo / ".git/refs/heads/main").symlink_to(outside / "victim")


def branch_symbolic(repo: Path, _outside: Path) -> None:
    (repo / ".git/refs/heads/main").write_bytes(b"ref: refs/heads/side\n")


def kept_refs_link(repo: Path, outside: Path) -> None:
    (repo / ".git/refs/mulligan").symlink_to(outside)


def index_link(repo: Path, outside: Path) -> None:
    shutil.move(repo / ".git/index", outside / "index")
    (repo / ".git/index").symlink_to(outside / "index")


def index_gigantic(repo: Path, _outside: Path) -> None:
    os.truncate(repo / ".git/index", 200 << 20)


def index_split_in_half(repo: Path, _outside: Path) -> None:
    git("update-index", "--split-index", cwd=repo)
    next((repo / ".git").glob("sharedindex.*")).unlink()


def config_unknown(repo: Path, _outside: Path) -> None:
    git("config", "core.repositoryFormatVersion", "1", cwd=repo)
    config = (repo / ".git/config").read_text()
    put(repo, ".git/config", config + "[extensions]\n\trefStorage = strange\n")


def pointer_elsewhere(repo: Path, outside: Path) -> None:
    shutil.move(repo / ".git", outside / "other.git")
    put(repo, ".git", f"gitdir: {outside}/other.git\n")


def link_elsewhere(repo: Path, outside: Path) -> None:
    shutil.move(repo / ".git", outside / "other.git")
    (repo / ".git").symlink_to(outside / "other.git")


def common_elsewhere(repo: Path, outside: Path) -> None:
    """A directory that claims to be a worktree of another repository."""
    shutil.copytree(repo / ".git", outside / "other.git", symlinks=True)
    put(repo, ".git/commondir", f"{outside}/other.git\n")
    put(repo, ".git/gitdir", f"{repo}/.git\n")


PLANTS: list[Plant] = [
    head_out, head_absolute, head_garbage, head_link, head_fifo, refs_link, branch_link, branch_symbolic, kept_refs_link,
    index_link, index_gigantic, index_split_in_half, config_unknown, pointer_elsewhere, link_elsewhere, common_elsewhere,
]  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_what_was_planted_is_refused_and_nothing_changes(tmp_path: Path, store: Path, plant: Plant) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    put(outside, "victim", "0" * 40 + "\n")
    repo = new_repository(tmp_path / "project")
    ws = mulligan.open(repo, store=store)
    ws.save("then", git=True)
    git("commit", "-q", "--allow-empty", "-m", "on", cwd=repo)
    put(repo, "file", "changed\n")
    plant(repo, outside)
    before = _state(repo), _state(outside)
    with pytest.raises(mulligan.MulliganError) as refusal:
        ws.restore("then", git=True)
    assert isinstance(refusal.value, mulligan.GitNotMoved), refusal.value
    assert "Nothing was changed" in refusal.value.message and refusal.value.hint
    assert (_state(repo), _state(outside)) == before
    assert ws.save("still possible", git=True) is not None
    ws.restore("then")
    assert (repo / "file").read_text() == "3\n", "the files alone can always be had"
    assert _state(outside) == before[1]


def _state(folder: Path) -> dict[str, Any]:
    """What is there, without what a look at it changes."""
    return {
        path: (e.kind, e.mode, e.content if len(e.content) < 1 << 20 else len(e.content))
        for path, e in snapshot(folder).items()
    }


@pytest.mark.parametrize("name", ["index.lock", "HEAD.lock", "refs/heads/main.lock"])
def test_somebody_elses_lock_is_busy_and_nothing_changes(tmp_path: Path, store: Path, name: str) -> None:
    repo = new_repository(tmp_path / "project")
    ws = mulligan.Workspace(mulligan.open(repo, store=store).settings._replace(wait=0.05))
    ws.save("then", git=True)
    move_on(repo)
    put(repo, f".git/{name}", "")
    before = _state(repo)
    with pytest.raises(mulligan.Busy) as refusal:
        ws.restore("then", git=True)
    assert name in refusal.value.message and name in refusal.value.hint
    assert _state(repo) == before and ws.pending() is None
    (repo / ".git" / name).unlink()
    ws.restore("then", git=True)
    expect_whole(repo)


def test_logs_that_lead_out_are_not_followed(tmp_path: Path, store: Path) -> None:
    """The move goes on: a reflog is a help, and the commits have refs."""
    repo, outside = new_repository(tmp_path / "project"), tmp_path / "outside"
    outside.mkdir()
    ws = mulligan.open(repo, store=store)
    ws.save("then", git=True)
    move_on(repo)
    shutil.rmtree(repo / ".git/logs")
    (repo / ".git/logs").symlink_to(outside)
    assert ws.restore("then", git=True).complete
    assert list(outside.iterdir()) == []
    (repo / ".git/logs").unlink()
    expect_whole(repo)


def test_nothing_in_the_repository_runs(tmp_path: Path, store: Path) -> None:
    """Hooks, a monitor, filters: git would run them on a checkout."""
    repo = new_repository(tmp_path / "project")
    ran = tmp_path / "ran"
    for hook in ("post-checkout", "reference-transaction", "post-index-change", "pre-commit"):
        put(repo, f".git/hooks/{hook}", f"#!/bin/sh\necho {hook} >> {ran}\n", perm=0o755)
    git("config", "core.fsmonitor", f"sh -c 'echo monitor >> {ran}'", cwd=repo)
    ws = mulligan.open(repo, store=store)
    ws.save("then", git=True)
    git(
        "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=", "commit", "-q", "--allow-empty", "-m", "on", cwd=repo
    )
    ran.unlink(missing_ok=True)
    ws.restore("then", git=True)
    ws.undo()
    ws.import_commit(git("rev-parse", "HEAD", cwd=repo).decode().strip())
    assert not ran.exists()
