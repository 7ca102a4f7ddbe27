"""Commits and checkpoints together: what goes into a commit, and what happens when one of the two cannot be made."""

from __future__ import annotations

from pathlib import Path

import pytest

import mulligan
from mulligan.committing.labels import of_name, of_step
from mulligan.errors import Busy, GitFailed, UnknownCheckpoint
from mulligan.loop.commits import CommitCheckpoints
from mulligan.model.checkpoint import NotCaptured
from mulligan.scan.trees import commit_scope
from tools import git
from tree import put


@pytest.fixture
def repo(project: Path) -> Path:
    git("init", "-q", "-b", "main", cwd=project)
    put(project, "a", "1\n")
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "first", cwd=project)
    return project


@pytest.mark.parametrize(
    ("path", "tracked", "expected"),
    [
        (b"a", False, True),
        (b"ignored/x", False, False),
        (b"ignored/x", True, True),
        (b"ignored", True, False),
        (b"excluded/x", True, True),
        (b"mount/x", True, False),
        (b"large", True, False),
        (b".env", True, False),
        (b"sub/.env", False, False),
        (b".env.example", True, True),
        (b"busy/x", True, False),
        (b"busy/deep/x", True, True),
    ],
)
def test_the_scope_of_a_commit(path, tracked, expected):
    rows = {
        "ignored": "ignored",
        "excluded": "excluded",
        "mount": "other filesystem",
        "large": "too large",
        "busy": "moving",
    }
    decide = commit_scope([NotCaptured(name, reason) for name, reason in rows.items()])
    assert decide(path, tracked) is expected


def test_the_engines_record_knows_the_commit_and_the_other_way_round(repo, ws):
    put(repo, "a", "2\n")
    commits = CommitCheckpoints(ws)
    made = commits.create(of_step(1, "one"))
    assert made is not None
    (saved,) = ws.log()
    assert saved.metadata == {
        "dialect": "architect",
        "step": 1,
        "name": "step-1",
        "message": "one",
        "commit": made.commit,
        "listed": True,
    }
    assert (saved.kind, saved.name) == ("step", "architect:checkpoint:step-1 -- one")
    assert saved.git.commit_hash == made.commit
    assert saved.git.dirty_files == ()


def test_when_the_store_is_busy_the_commit_is_made_and_the_trouble_told(repo, ws, monkeypatch):
    put(repo, "a", "2\n")
    commits = CommitCheckpoints(ws)
    with monkeypatch.context() as patched:
        patched.setattr(ws, "save", lambda *_, **__: (_ for _ in ()).throw(Busy("busy")))
        made = commits.create(of_step(1))
    assert made is not None
    assert isinstance(made.trouble, Busy)
    put(repo, "a", "3\n")
    commits.rollback(made.commit)
    assert (repo / "a").read_text() == "2\n"


def test_when_no_commit_can_be_made_the_engine_has_saved_all_the_same(repo, ws):
    put(repo, "a", "2\n")
    (repo / ".git/MERGE_HEAD").write_bytes(git("rev-parse", "HEAD", cwd=repo))
    commits = CommitCheckpoints(ws)
    with pytest.raises(GitFailed, match="MERGE_HEAD"):
        commits.create(of_step(1))
    assert ws.cat("latest", "a") == b"2\n"
    assert commits.listed() == []


def test_files_with_a_filter_are_saved_though_not_committed(repo, ws):
    git("config", "filter.lfs.process", "git-lfs filter-process", cwd=repo)
    put(repo / ".git/info", "attributes", "*.bin filter=lfs\n")
    put(repo, "x.bin", "raw")
    assert CommitCheckpoints(ws).create(of_step(1)) is None
    assert ws.cat("latest", "x.bin") == b"raw"
    put(repo, "a", "2\n")
    made = CommitCheckpoints(ws).create(of_step(2))
    assert made is not None
    assert (made.files, made.left_out) == (("a",), ("x.bin",))


def test_an_empty_checkpoint_where_one_is_wanted_with_and_without_a_repository(repo, ws, tmp_path):
    assert CommitCheckpoints(ws).create(of_name("plan")) is None
    assert CommitCheckpoints(ws).create(of_name("plan"), allow_empty=True) is not None
    plain = tmp_path / "plain"
    plain.mkdir()
    other = CommitCheckpoints(mulligan.open(plain, store=tmp_path / "other"))
    put(plain, "a", "1")
    assert other.create(of_name("plan")) is not None
    assert other.create(of_name("again")) is None
    assert other.create(of_name("again"), allow_empty=True) is not None
    assert [each.label.name for each in other.listed()] == ["again", "plan"]


def test_steps_and_names_are_found_apart(repo, ws):
    commits = CommitCheckpoints(ws)
    for label in (of_step(2), of_name("step-2"), of_name("deploy")):
        put(repo, "a", label.subject + str(label.step))
        commits.create(label)
    step, name = commits.find(step=2), commits.find(name="step-2")
    assert step is not None
    assert name is not None
    assert (step.label.step, name.label.step) == (2, None)
    assert commits.find(name="step-9") is None
    assert commits.find() is None


def test_what_is_no_commit_is_an_unknown_checkpoint_and_nothing_changes(repo, ws):
    commits = CommitCheckpoints(ws)
    put(repo, "a", "2\n")
    for text in ("--hard", "nothing", "", "0" * 40):
        with pytest.raises(UnknownCheckpoint, match="is no commit here"):
            commits.rollback(text)
    assert (repo / "a").read_text() == "2\n"
    assert ws.log() == []
