"""A checkpoint's commit that is killed after any of its git processes: nothing is lost, and the next one mends it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mulligan.committing.commands import Git
from mulligan.dialects.architect import CheckpointManager
from tools import git
from tree import put

#: More than a commit needs; where it needs fewer, the child ends by itself.
MOMENTS = 16


@pytest.fixture
def repo(project: Path) -> Path:
    git("init", "-q", "-b", "main", cwd=project)
    put(project, "a", "1\n")
    put(project, "gone", "1\n")
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "first", cwd=project)
    put(project, "a", "2\n")
    put(project, "new", "1\n")
    (project / "gone").unlink()
    return project


def killed_after(repo: Path, moment: int) -> bool:
    """Makes a checkpoint in another process, which dies after its n-th git process; returns whether it died."""
    child = os.fork()
    if not child:
        plain, count = Git._start, [0]

        def start(self, *args):
            count[0] += 1
            ran = plain(self, *args)
            if count[0] == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return ran

        Git._start = start
        try:
            CheckpointManager(str(repo)).create(1)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("moment", range(1, MOMENTS))
def test_a_killed_checkpoint_loses_nothing(repo, moment):
    first = git("rev-parse", "HEAD", cwd=repo).decode().strip()
    died = killed_after(repo, moment)
    assert ((repo / "a").read_text(), (repo / "new").read_text()) == ("2\n", "1\n")
    assert not (repo / "gone").exists()
    git("fsck", "--strict", cwd=repo)
    count = int(git("rev-list", "--count", "HEAD", cwd=repo))
    assert count in (1, 2)
    assert not (repo / ".git/index.lock").exists()
    manager = CheckpointManager(str(repo))
    again = manager.create(1)
    assert (again is None) == (count == 2)
    assert [each.step for each in manager.list_checkpoints()] == [1]
    assert git("status", "--porcelain", cwd=repo) == b"", "and everything is committed, once"
    assert int(git("rev-list", "--count", "HEAD", cwd=repo)) == 2
    put(repo, "a", "3\n")
    assert manager.rollback(step=1) is True
    assert (repo / "a").read_text() == "2\n"
    assert manager.rollback(commit=first) is True
    assert (repo / "gone").read_text() == "1\n"
    assert died or count == 2
