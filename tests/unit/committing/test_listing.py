"""Checkpoint commits, found again."""

from __future__ import annotations

from pathlib import Path

import pytest

from mulligan.committing.commands import Git
from mulligan.committing.labels import changed_since, checkpoint_commits, existing, resolve
from tools import git
from tree import put


@pytest.fixture
def repo(project: Path) -> Path:
    git("init", "-q", "-b", "main", cwd=project)
    return project


def commit(repo: Path, message: str, when: int = 1_700_000_000) -> str:
    date = f"{when} +0000"
    moment = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    git("commit", "-q", "--allow-empty", "--cleanup=verbatim", "-m", message, cwd=repo, **moment)
    return git("rev-parse", "HEAD", cwd=repo).decode().strip()


def found(repo: Path, also=()) -> list[tuple[int | None, str]]:
    return [(each.label.step, each.label.message) for each in checkpoint_commits(Git(str(repo)), also)]


def test_newest_first_and_only_checkpoints(repo):
    commit(repo, "architect:checkpoint:step-1 -- one")
    commit(repo, "something else")
    commit(repo, 'Revert "architect:checkpoint:step-1 -- one"')
    commit(repo, "a word\n\nabout architect:checkpoint:step-9")
    commit(repo, "architect:checkpoint:step-5 -- a|b|c")
    commit(repo, "architect:checkpoint:step-10")
    assert found(repo) == [(10, ""), (5, "a|b|c"), (1, "one")]


def test_the_time_is_the_authors(repo):
    commit(repo, "architect:checkpoint:step-1", when=1_600_000_000)
    assert checkpoint_commits(Git(str(repo)))[0].when == 1_600_000_000.0


def test_a_repository_without_commits_has_none(repo):
    assert found(repo) == []


def test_what_was_left_behind_is_found_by_its_ref_or_by_its_name(repo):
    commit(repo, "architect:checkpoint:step-1", when=1_700_000_001)
    second = commit(repo, "architect:checkpoint:step-2", when=1_700_000_002)
    third = commit(repo, "architect:checkpoint:step-3", when=1_700_000_003)
    git("reset", "-q", "--hard", "HEAD~2", cwd=repo)
    assert found(repo) == [(1, "")]
    assert found(repo, [second, "f" * 40, "--all"]) == [(2, ""), (1, "")]
    git("update-ref", "refs/mulligan/kept/1", third, cwd=repo)
    assert found(repo) == [(3, ""), (2, ""), (1, "")]


def test_a_commit_that_was_never_finished_is_not_listed(repo):
    commit(repo, "architect:checkpoint:step-1")
    unfinished = commit(repo, "architect:checkpoint:step-2")
    git("reset", "-q", "--hard", "HEAD~1", cwd=repo)
    git("update-ref", "refs/mulligan/making/x", unfinished, cwd=repo)
    assert found(repo) == [(1, "")]


def test_existing_and_resolve_take_no_options(repo):
    name = commit(repo, "x")
    here = Git(str(repo))
    assert existing(here, [name, "0" * 40, "--help", "HEAD; id"]) == [name]
    assert resolve(here, name[:8]) == name
    assert resolve(here, "main") == name
    for text in ("--soft", "-h", "", "nothing", "a\0b", "main:x", "\n"):
        assert resolve(here, text) is None, text


def test_changes_since_a_commit_count_what_nobody_tracks(repo):
    put(repo, ".gitignore", "ignored\n")
    put(repo, "sub/a", "1")
    git("add", "-A", cwd=repo)
    name = commit(repo, "x")
    put(repo, "ignored", "1")
    assert changed_since(Git(str(repo)), name) == []
    put(repo, "new", "1")
    put(repo, "sub/a", "2")
    assert changed_since(Git(str(repo)), name) == [(b"sub/a", True), (b"new", False)]
    assert changed_since(Git(str(repo / "sub")), name) == [(b"a", True)]
