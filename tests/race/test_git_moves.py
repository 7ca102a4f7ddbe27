"""Git at work while git is moved: each side waits or is told, nothing mixes, no commit that git acknowledged is lost."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

import mulligan
from faults import ActsAt
from mulligan.safefs import syscalls
from tools import git, git_environment, sweep
from tree import contents, put
from users_repository import expect_whole, move_on, new_repository, seen


class Committer(threading.Thread):
    """Commits and looks at the status, as fast as git allows; counts what git acknowledged."""

    def __init__(self, repo: Path) -> None:
        super().__init__()
        self.repo, self.made, self.done = repo, 0, threading.Event()

    def run(self) -> None:
        while not self.done.is_set():
            self._git("status", "--porcelain")
            if self._git("commit", "-q", "--allow-empty", "-m", "meanwhile").returncode == 0:
                self.made += 1
            self._git("add", "-A")

    def _git(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        env = git_environment(GIT_OPTIONAL_LOCKS="1")
        return subprocess.run(["git", *words], cwd=self.repo, env=env, capture_output=True, check=False)


def test_commits_made_meanwhile_survive_every_move(tmp_path: Path) -> None:
    repo = new_repository(tmp_path / "project")
    ws = mulligan.open(repo, store=tmp_path / "store")
    ws.save("then", git=True)
    then = git("rev-parse", "HEAD", cwd=repo)
    committer, moved, refused = Committer(repo), 0, 0
    committer.start()
    try:
        while moved < sweep(3) and refused < 300:
            put(repo, "file", f"{moved + refused}\n")
            try:
                moved += ws.restore("then", git=True).git is not None
            except (mulligan.Busy, mulligan.PlanStale, mulligan.GitNotMoved):
                refused += 1
    finally:
        committer.done.set()
        committer.join()
    # Every commit of the other side is in HEAD's reflog; each of them must be held by a ref or by HEAD.
    logged = set(git("reflog", "--format=%H", "HEAD", cwd=repo).split())
    held = set(git("rev-list", "--all", "HEAD", cwd=repo).split())
    assert logged <= held, (moved, refused)
    assert committer.made and moved, (committer.made, moved, refused)
    expect_whole(repo)
    put(repo, "file", "and on\n")
    git("commit", "-q", "-a", "-m", "and on", cwd=repo)
    before = seen(repo)
    ws.restore("then", git=True)
    assert git("rev-parse", "HEAD", cwd=repo) == then
    ws.undo()
    assert seen(repo) == before


def commit(repo: Path) -> None:
    git("commit", "-q", "--allow-empty", "-m", "at that moment", cwd=repo)


def stage(repo: Path) -> None:
    put(repo, "only1", "staged at that moment\n")
    git("add", "only1", cwd=repo)


def merge(repo: Path) -> None:
    git("branch", "-f", "main", "main~1", cwd=repo)


@pytest.mark.parametrize("act", [commit, stage, merge], ids=lambda act: act.__name__)
def test_git_that_moves_between_the_plan_and_the_lock_makes_the_plan_stale(tmp_path: Path, act) -> None:
    repo = new_repository(tmp_path / "project")
    ws = mulligan.open(repo, store=tmp_path / "store")
    ws.save("then", git=True)
    move_on(repo)
    files = contents(repo)
    with syscalls.using(ActsAt("link", 1, lambda: act(repo))), pytest.raises(mulligan.PlanStale):
        ws.restore("then", git=True)
    after = contents(repo)
    assert {path for path in files if files[path] != after.get(path)} <= {"only1"} and ws.pending() is None
    assert git("symbolic-ref", "HEAD", cwd=repo) == b"refs/heads/agent\n"
    expect_whole(repo)
    ws.restore("then", git=True)
