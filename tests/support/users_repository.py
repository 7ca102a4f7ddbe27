"""
A user's repository, as git itself sees it, for tests of moving it.

`seen` is everything that must be the same again after git was moved back: asked of plain git, never of the package.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tools import git
from tree import contents, put

#: What git says that a move must bring back; object names make it exact.
ASKED: tuple[tuple[str, ...], ...] = (
    ("status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all"),
    ("diff", "--cached", "--raw", "--abbrev=40"),
    ("diff",),
    ("ls-files", "--stage", "-v"),
    ("symbolic-ref", "-q", "HEAD"),
    ("rev-parse", "-q", "--verify", "HEAD"),
    ("for-each-ref", "refs/heads", "refs/tags", "refs/stash"),
)


def seen(repo: Path) -> dict[tuple[str, ...], bytes]:
    """Where git stands, in git's own words, and the files."""
    said = {words: git(*words, cwd=repo, check=False) for words in ASKED}
    return said | {("files",): repr(sorted(contents(repo).items())).encode()}


def new_repository(place: Path, *options: str) -> Path:
    """A repository with three commits on `main`, and `side` beside it."""
    place.mkdir(parents=True, exist_ok=True)
    git("init", "-q", "-b", "main", *options, cwd=place)
    for number in (1, 2, 3):
        put(place, "file", f"{number}\n")
        put(place, f"only{number}", "x\n")
        put(place, "dir/deep/other", f"{number}\n" * 5)
        git("add", "-A", cwd=place)
        git("commit", "-q", "-m", f"commit {number}", cwd=place)
    git("branch", "side", "HEAD~1", cwd=place)
    return place


def make_dirty(repo: Path) -> None:
    """Staged, unstaged, both, untracked, deleted, intended."""
    put(repo, "file", "staged\n")
    put(repo, "added", "added\n")
    git("add", "file", "added", cwd=repo)
    put(repo, "file", "staged and then changed\n")
    put(repo, "untracked", "u\n")
    (repo / "only1").unlink()
    git("rm", "-q", "--cached", "only2", cwd=repo)
    put(repo, "intended", "i\n")
    git("add", "-N", "intended", cwd=repo)


def move_on(repo: Path) -> None:
    """What an agent does: commits, another branch, more changes."""
    put(repo, "only3", "agent\n")
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "agent 1", cwd=repo)
    git("checkout", "-q", "-b", "agent", cwd=repo)
    put(repo, "file", "agent\n")
    put(repo, "made/by/agent", "a\n")
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "agent 2", cwd=repo)
    put(repo, "file", "agent, not committed\n")
    git("add", "file", cwd=repo)
    put(repo, "dir/deep/other", "agent\n")


def git_directory(repo: Path) -> Path:
    """The directory that holds HEAD."""
    return Path(os.fsdecode(git("rev-parse", "--absolute-git-dir", cwd=repo).rstrip(b"\n")))


def expect_whole(repo: Path) -> None:
    """Git finds nothing wrong, and nothing of ours is left in its directories."""
    said = git("fsck", "--strict", "--no-dangling", "--no-progress", cwd=repo)
    assert said == b"", said
    common = Path(os.fsdecode(git("rev-parse", "--path-format=absolute", "--git-common-dir", cwd=repo).rstrip(b"\n")))
    names = [path.name for folder in {git_directory(repo), common} for path in folder.rglob("*")]
    assert [name for name in names if name.endswith(".lock") or name.startswith("mulligan-")] == []


def commits(repo: Path) -> set[bytes]:
    """Every commit that some ref reaches."""
    return set(git("rev-list", "--all", cwd=repo).split())


def restored(ws: Any, name: str) -> Any:
    """Restores files and git, and insists that nothing was kept back."""
    report = ws.restore(name, git=True)
    assert [keep for keep in report.kept if keep.failed] == []
    return report
