"""
architect's checkpoints, behaviour by behaviour.

The numbers are those of the behaviours that a drop-in for architect must show; below them, what the original lost or got
wrong, shown kept and right. Real git, real engine.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from pathlib import Path

import pytest

from mulligan.committing import commits
from mulligan.committing.labels import of_name
from mulligan.dialects.architect import CHECKPOINT_PREFIX, Checkpoint, CheckpointManager, CheckpointsConfig
from mulligan.errors import GitMissing
from mulligan.loop.commits import CommitCheckpoints
from tools import cli, cli_json, git
from tree import put


@pytest.fixture
def repo(project: Path) -> Path:
    git("init", "-q", "-b", "main", cwd=project)
    put(project, "a.txt", "v0\n")
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "first", cwd=project)
    return project


@pytest.fixture
def manager(repo: Path) -> CheckpointManager:
    return CheckpointManager(str(repo))


def subject(repo: Path, rev: str = "HEAD") -> str:
    return git("log", "-1", "--format=%s", rev, cwd=repo).decode().strip()


def head(repo: Path) -> str:
    return git("rev-parse", "HEAD", cwd=repo).decode().strip()


def status(repo: Path) -> str:
    return git("status", "--porcelain", "-uall", cwd=repo).decode()


def steps(manager: CheckpointManager) -> list[int]:
    return [each.step for each in manager.list_checkpoints()]


def three(manager: CheckpointManager) -> list[Checkpoint]:
    made = []
    for number in (1, 2, 3):
        put(Path(manager.root), "a.txt", f"v{number}\n")
        created = manager.create(number, f"number {number}")
        assert created is not None
        made.append(created)
    return made


# -- the numbered behaviours --------------------------------------------------------------------


def test_01_the_prefix():
    assert CHECKPOINT_PREFIX == "architect:checkpoint"


def test_02_a_checkpoint_is_frozen_and_has_a_short_hash():
    checkpoint = Checkpoint(1, "abcdef1234567890", "m", 1.0, ["a"])
    assert checkpoint.short_hash() == "abcdef1"
    assert dataclasses.replace(checkpoint, commit_hash="abcdef1").short_hash() == "abcdef1"
    assert dataclasses.replace(checkpoint, commit_hash="abc").short_hash() == "abc"
    with pytest.raises(dataclasses.FrozenInstanceError):
        checkpoint.step = 2
    with pytest.raises(TypeError):
        Checkpoint(1, "abc", "m", 1.0)


def test_03_the_root_is_the_string_that_was_given(repo):
    assert CheckpointManager(str(repo)).root == str(repo)


def test_04_changes_make_a_checkpoint(manager, repo):
    put(repo, "a.txt", "v1\n")
    put(repo, "new.txt", "1\n")
    before = time.time()
    made = manager.create(5, "my description")
    assert made is not None
    assert (made.step, made.message) == (5, "my description")
    assert made.commit_hash == head(repo)
    assert before <= made.timestamp <= time.time()
    assert made.files_changed == ["a.txt", "new.txt"]


def test_05_no_changes_are_none(manager, repo):
    before = head(repo)
    assert manager.create(1) is None
    assert head(repo) == before
    assert manager.workspace.log() == []


def test_06_a_commit_that_cannot_be_made_is_none(manager, repo, caplog, monkeypatch):
    monkeypatch.setattr(commits, "_LOCK_WAIT", 0.0)
    put(repo, "a.txt", "v1\n")
    (repo / ".git/index.lock").touch()
    with caplog.at_level(logging.WARNING):
        assert manager.create(1) is None
    assert "index.lock" in caplog.text
    assert manager.workspace.cat("latest", "a.txt") == b"v1\n", "saved all the same"
    assert manager.list_checkpoints() == []


def test_07_the_subject(manager, repo):
    put(repo, "a.txt", "v1\n")
    manager.create(5, "my description")
    assert subject(repo) == "architect:checkpoint:step-5 -- my description"
    put(repo, "a.txt", "v2\n")
    manager.create(3)
    assert subject(repo) == "architect:checkpoint:step-3"


def test_08_everything_happens_in_the_root(repo, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    git("init", "-q", str(elsewhere))
    monkeypatch.chdir(elsewhere)
    put(repo, "a.txt", "v1\n")
    assert CheckpointManager(str(repo)).create(1) is not None
    assert git("for-each-ref", cwd=elsewhere) == b""


def test_09_the_list_newest_first_with_step_message_and_time(manager, repo):
    for message in (
        "architect:checkpoint:step-1",
        "architect:checkpoint:step-5 -- five",
        "architect:checkpoint:deploy",
    ):
        git("commit", "-q", "--allow-empty", "-m", message, cwd=repo, GIT_AUTHOR_DATE="1700000000 +0000")
    git("commit", "-q", "--allow-empty", "-m", "architect:checkpoint:step-42 -- the answer", cwd=repo)
    listed = manager.list_checkpoints()
    assert [(each.step, each.message) for each in listed] == [(42, "the answer"), (0, ""), (5, "five"), (1, "")]
    assert listed[1].timestamp == 1700000000.0
    assert all(each.files_changed == [] for each in listed)
    assert listed[0].commit_hash == head(repo)


def test_10_rollback_by_step_by_commit_and_to_nothing(manager, repo):
    made = three(manager)
    assert manager.rollback(step=2) is True
    assert head(repo) == made[1].commit_hash
    assert manager.rollback(commit=made[0].commit_hash) is True
    assert head(repo) == made[0].commit_hash
    assert manager.rollback(step=1, commit=made[2].commit_hash) is True
    assert head(repo) == made[2].commit_hash, "commit beats step"
    assert manager.rollback(step=99) is False
    assert manager.rollback() is False
    assert manager.rollback(commit="no such commit") is False
    assert (head(repo), (repo / "a.txt").read_text()) == (made[2].commit_hash, "v3\n")


def test_11_the_latest(manager, repo):
    assert manager.get_latest() is None
    made = three(manager)
    latest = manager.get_latest()
    assert latest is not None
    assert (latest.step, latest.commit_hash) == (3, made[2].commit_hash)


def test_12_changes_since(manager, repo):
    made = three(manager)
    assert manager.has_changes_since(made[2].commit_hash) is False
    assert manager.has_changes_since(made[0].commit_hash) is True
    assert manager.has_changes_since(head(repo)[:10]) is False
    put(repo, "a.txt", "v4\n")
    assert manager.has_changes_since(made[2].commit_hash) is True
    first = git("rev-list", "--max-parents=0", "HEAD", cwd=repo).decode().strip()
    assert manager.has_changes_since(first) is True


def test_13_create_edit_create_rollback(manager, repo):
    put(repo, "a.txt", "v1\n")
    manager.create(1)
    put(repo, "a.txt", "v2\n")
    manager.create(2)
    assert manager.rollback(step=1) is True
    assert (repo / "a.txt").read_text() == "v1\n"
    assert subject(repo) == "architect:checkpoint:step-1"
    assert git("symbolic-ref", "HEAD", cwd=repo) == b"refs/heads/main\n"
    assert status(repo) == ""


def test_14_a_pipelines_step_is_found_by_grep_and_listed_as_step_0(manager, repo):
    put(repo, "a.txt", "v1\n")
    CommitCheckpoints(manager.workspace).create(of_name("implement"))
    listed = git("log", "--oneline", "--grep=architect:checkpoint", cwd=repo).decode()
    assert "architect:checkpoint:implement" in listed
    assert steps(manager) == [0]


def test_seed_listing_by_grep(manager, repo):
    """`git log --oneline --grep="architect:checkpoint"` lists what was created, newest first."""
    three(manager)
    lines = git("log", "--oneline", "--grep=architect:checkpoint", cwd=repo).decode().splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        f"architect:checkpoint:step-{n} -- number {n}" for n in (3, 2, 1)
    ]


# -- configuration ------------------------------------------------------------------------------


def test_config_defaults_and_limits():
    config = CheckpointsConfig()
    assert (config.enabled, config.every_n_steps) == (False, 5)
    assert CheckpointsConfig(enabled=True, every_n_steps=50).model_dump() == {"enabled": True, "every_n_steps": 50}
    assert CheckpointsConfig.model_validate({"every_n_steps": 1}) == CheckpointsConfig(every_n_steps=1)


@pytest.mark.parametrize(
    "values",
    [
        {"every_n_steps": 0},
        {"every_n_steps": 51},
        {"every_n_steps": "5"},
        {"every_n_steps": True},
        {"enabled": "yes"},
        {"x": 1},
    ],
)
def test_config_refuses_everything_else(values):
    with pytest.raises(ValueError, match="checkpoints"):
        CheckpointsConfig(**values)


# -- what the original lost ---------------------------------------------------------------------


def test_rollback_saves_uncommitted_and_untracked_work_and_one_undo_brings_it_back(manager, repo):
    made = three(manager)
    put(repo, "a.txt", "not committed\n")
    put(repo, "untracked.txt", "precious\n")
    put(repo, "staged.txt", "staged\n")
    git("add", "staged.txt", cwd=repo)
    before = status(repo)
    assert manager.rollback(step=1) is True
    assert (repo / "a.txt").read_text() == "v1\n"
    assert not (repo / "untracked.txt").exists(), "the state of the checkpoint, not a mixture"
    assert not (repo / "staged.txt").exists()
    assert status(repo) == ""
    manager.workspace.undo()
    assert (repo / "a.txt").read_text() == "not committed\n"
    assert (repo / "untracked.txt").read_text() == "precious\n"
    assert head(repo) == made[2].commit_hash
    assert status(repo) == before
    manager.workspace.redo()
    assert head(repo) == made[0].commit_hash


def test_undo_from_the_command_line_takes_the_branch_along(manager, repo):
    made = three(manager)
    manager.rollback(step=1)
    assert cli("undo", cwd=repo).returncode == 0
    assert (head(repo), (repo / "a.txt").read_text()) == (made[2].commit_hash, "v3\n")


def test_later_checkpoints_stay_listed_after_a_rollback_and_can_be_gone_to(manager, repo):
    made = three(manager)
    manager.rollback(step=1)
    assert steps(manager) == [3, 2, 1]
    git("reflog", "expire", "--expire=now", "--all", cwd=repo)
    git("gc", "-q", "--prune=now", cwd=repo)
    assert steps(manager) == [3, 2, 1]
    assert manager.rollback(step=3) is True
    assert (head(repo), (repo / "a.txt").read_text()) == (made[2].commit_hash, "v3\n")


def test_of_two_checkpoints_of_one_step_the_newer_one_counts(manager, repo):
    three(manager)
    manager.rollback(step=1)
    put(repo, "a.txt", "another second try\n")
    again = manager.create(2, "again")
    assert again is not None
    manager.rollback(step=3)
    manager.rollback(step=2)
    assert head(repo) == again.commit_hash


def test_exact_bytes_come_back_also_of_what_a_commit_changes(manager, repo):
    """Line endings that the repository normalises, and bits that git does not know."""
    put(repo, ".gitattributes", "*.txt text eol=lf\n")
    put(repo, "dos.txt", b"1\r\n2\r\n")
    (repo / "dos.txt").chmod(0o600)
    manager.create(1)
    put(repo, "dos.txt", "changed\n")
    manager.create(2)
    manager.rollback(step=1)
    assert (repo / "dos.txt").read_bytes() == b"1\r\n2\r\n"
    assert (repo / "dos.txt").stat().st_mode & 0o777 == 0o600


def test_secrets_ignored_and_large_files_are_not_committed(repo):
    put(repo, ".gitignore", "build/\n")
    put(repo, "mulligan.toml", '[capture]\nmax_file_size = "1 KiB"\nexclude = ["*.scratch"]\n')
    put(repo, ".env", "TOKEN=1\n")
    put(repo, "id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\n")
    put(repo, "build/out", "1")
    put(repo, "node_modules/x/index.js", "1")
    put(repo, "large", "x" * 2000)
    put(repo, "notes.scratch", "1")
    put(repo, "a.txt", "v1\n")
    made = CheckpointManager(str(repo)).create(1)
    assert made is not None
    assert made.files_changed == [".gitignore", "a.txt", "mulligan.toml"]
    for name in (".env", "id_rsa", "large", "notes.scratch", "node_modules/x/index.js"):
        assert f"?? {name}\n" in status(repo)
        assert (repo / name).exists()


def test_what_is_tracked_although_ignored_is_committed_and_a_tracked_secret_is_not(repo):
    put(repo, "build/kept", "1")
    put(repo, ".env", "TOKEN=1\n")
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "tracked", cwd=repo)
    put(repo, ".gitignore", "build/\n")
    put(repo, "build/kept", "2")
    put(repo, ".env", "TOKEN=2\n")
    made = CheckpointManager(str(repo)).create(1)
    assert made is not None
    assert made.files_changed == [".gitignore", "build/kept"]
    assert status(repo) == " M .env\n"


def test_the_global_excludes_of_the_user_hold(repo, private_home):
    (private_home / ".gitconfig").write_text("[core]\n excludesFile = ~/ignored\n")
    (private_home / "ignored").write_text("*.swp\n")
    put(repo, "x.swp", "1")
    assert CheckpointManager(str(repo)).create(1) is None


def test_a_subdirectory_commits_and_rolls_back_only_itself(repo):
    put(repo, "ours/x", "1\n")
    put(repo, "theirs/y", "1\n")
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "two parts", cwd=repo)
    manager = CheckpointManager(str(repo / "ours"))
    put(repo, "ours/x", "2\n")
    put(repo, "theirs/y", "edited\n")
    git("add", "theirs/y", cwd=repo)
    made = manager.create(1)
    assert made is not None
    assert made.files_changed == ["x"]
    assert status(repo) == "M  theirs/y\n"
    put(repo, "ours/x", "3\n")
    manager.create(2)
    put(repo, "ours/new", "1\n")
    latest = head(repo)
    assert manager.rollback(step=1) is True
    assert (repo / "ours/x").read_text() == "2\n"
    assert not (repo / "ours/new").exists()
    assert (repo / "theirs/y").read_text() == "edited\n"
    assert status(repo) == " M ours/x\nM  theirs/y\n"
    assert head(repo) == latest, "the branch belongs to others too"
    assert steps(manager) == [2, 1]
    assert steps(CheckpointManager(str(repo))) == [], "and the whole repository has none"
    manager.workspace.undo()
    assert (repo / "ours/new").exists()


def test_the_first_commit_names_its_files(project):
    git("init", "-q", "-b", "main", cwd=project)
    put(project, "a.txt", "1\n")
    put(project, "b/c.txt", "1\n")
    manager = CheckpointManager(str(project))
    made = manager.create(1)
    assert made is not None
    assert made.files_changed == ["a.txt", "b/c.txt"]
    put(project, "a.txt", "2\n")
    manager.create(2)
    assert manager.rollback(step=1) is True
    assert (project / "a.txt").read_text() == "1\n"


def test_a_directory_without_a_repository_has_checkpoints_too(project):
    manager = CheckpointManager(str(project))
    assert manager.list_checkpoints() == []
    put(project, "a.txt", "1\n")
    first = manager.create(1, "one")
    assert first is not None
    assert (len(first.commit_hash), first.files_changed) == (40, ["a.txt"])
    assert manager.create(1) is None, "nothing changed"
    assert manager.has_changes_since(first.commit_hash) is False
    put(project, "a.txt", "2\n")
    put(project, "new", "2\n")
    assert manager.has_changes_since(first.commit_hash) is True
    second = manager.create(2)
    assert second is not None
    assert [(c.step, c.message) for c in manager.list_checkpoints()] == [(2, ""), (1, "one")]
    assert manager.rollback(step=1) is True
    assert (project / "a.txt").read_text() == "1\n"
    assert not (project / "new").exists()
    assert manager.rollback(commit=second.commit_hash[:12]) is True
    assert (project / "a.txt").read_text() == "2\n"
    assert not (project / ".git").exists()


def test_failing_hooks_signing_and_a_missing_identity_cannot_break_it(manager, repo):
    for name in ("pre-commit", "commit-msg", "prepare-commit-msg"):
        put(repo / ".git/hooks", name, "#!/bin/sh\nexit 1\n")
        (repo / ".git/hooks" / name).chmod(0o755)
    git("config", "commit.gpgSign", "true", cwd=repo)
    git("config", "gpg.program", "/nowhere/gpg", cwd=repo)
    git("config", "user.useConfigOnly", "true", cwd=repo)
    put(repo, "a.txt", "v1\n")
    put(repo, "out-of-scope/.env", "X=1\n")
    git("add", "-f", "out-of-scope/.env", cwd=repo)
    assert manager.create(1) is not None
    assert status(repo) == "A  out-of-scope/.env\n", "what was staged is staged still"
    assert manager.rollback(step=1) is True


@pytest.mark.parametrize(
    "message", ["a|b|c", "two\nlines", "a -- b", "  spaces  ", "ünïcödé 🚀", "-- ", "x\ttab", "|", 'q"']
)
def test_any_message_comes_back_as_it_was(manager, repo, message):
    put(repo, "a.txt", "v1\n")
    made = manager.create(7, message)
    assert made is not None
    listed = manager.get_latest()
    assert listed is not None
    assert (listed.step, listed.message, made.message) == (7, message, message)
    assert listed.timestamp > 1_600_000_000


@pytest.mark.parametrize("step", [-1, True, "1", 1.5, None])
def test_a_step_is_a_whole_number_from_0_on(manager, repo, step):
    put(repo, "a.txt", "v1\n")
    with pytest.raises(ValueError, match="whole number"):
        manager.create(step)
    assert status(repo) == " M a.txt\n"


def test_reverts_and_mentions_are_no_checkpoints(manager, repo):
    made = three(manager)
    git("revert", "--no-edit", made[2].commit_hash, cwd=repo)
    git("commit", "-q", "--allow-empty", "-m", "docs\n\nsee architect:checkpoint:step-1", cwd=repo)
    assert steps(manager) == [3, 2, 1]
    assert manager.rollback(step=3) is True
    assert head(repo) == made[2].commit_hash


def test_a_pipelines_step_called_step_2_does_not_collide_and_has_its_name(manager, repo):
    put(repo, "a.txt", "agent\n")
    agent = manager.create(2)
    assert agent is not None
    for name in ("step-2", "deploy"):
        put(repo, "a.txt", f"pipeline {name}\n")
        CommitCheckpoints(manager.workspace).create(of_name(name))
    assert steps(manager) == [0, 0, 2]
    assert manager.rollback(step=2) is True
    assert (repo / "a.txt").read_text() == "agent\n"
    assert manager.rollback(name="step-2") is True
    assert (repo / "a.txt").read_text() == "pipeline step-2\n"
    assert manager.rollback(name="no such") is False


def test_names_beyond_ascii_come_as_they_are(manager, repo):
    for name in ("ünï.txt", 'quo"te', "new\nline"):
        put(repo, name, "1")
    made = manager.create(1)
    assert made is not None
    assert sorted(made.files_changed) == sorted(["ünï.txt", 'quo"te', "new\nline"])


def test_options_are_no_commits(manager, repo):
    three(manager)
    before = head(repo)
    for text in ("--soft", "--mixed", "-q", "HEAD --", "--help", "\0", "HEAD:a.txt"):
        assert manager.rollback(commit=text) is False, text
    assert head(repo) == before


def test_a_commit_that_is_no_checkpoint_can_be_gone_back_to(manager, repo):
    first = head(repo)
    three(manager)
    put(repo, "untracked", "1")
    assert manager.rollback(commit=first[:9]) is True
    assert (head(repo), (repo / "a.txt").read_text()) == (first, "v0\n")
    assert git("symbolic-ref", "HEAD", cwd=repo) == b"refs/heads/main\n"
    assert not (repo / "untracked").exists()
    assert status(repo) == ""
    manager.workspace.undo()
    assert (repo / "untracked").exists()
    assert (repo / "a.txt").read_text() == "v3\n"


def test_checkpoints_of_architect_itself_can_be_gone_back_to(manager, repo):
    put(repo, "a.txt", "made by architect\n")
    git("commit", "-q", "-a", "-m", "architect:checkpoint:step-8 -- theirs", cwd=repo)
    put(repo, "a.txt", "later\n")
    assert manager.rollback(step=8) is True
    assert (repo / "a.txt").read_text() == "made by architect\n"


def test_changes_since_counts_new_files_and_doubts_what_it_does_not_know(manager, repo, caplog):
    made = three(manager)
    put(repo, "untracked", "1")
    assert manager.has_changes_since(made[2].commit_hash) is True
    (repo / "untracked").unlink()
    with caplog.at_level(logging.WARNING):
        assert manager.has_changes_since("f" * 40) is True
        assert manager.has_changes_since("--stat") is True
    assert "is no commit here" in caplog.text


def test_a_detached_head_is_moved_alone(manager, repo):
    made = three(manager)
    git("checkout", "-q", "--detach", cwd=repo)
    put(repo, "a.txt", "detached\n")
    assert manager.create(4) is not None
    assert git("rev-parse", "main", cwd=repo).decode().strip() == made[2].commit_hash
    put(repo, "a.txt", "more\n")
    assert manager.rollback(step=4) is True
    assert (repo / "a.txt").read_text() == "detached\n"


def test_in_the_middle_of_a_merge_nothing_is_committed_and_all_is_saved(manager, repo, caplog):
    git("checkout", "-q", "-b", "side", cwd=repo)
    put(repo, "a.txt", "side\n")
    git("commit", "-q", "-a", "-m", "side", cwd=repo)
    git("checkout", "-q", "main", cwd=repo)
    put(repo, "a.txt", "main\n")
    git("commit", "-q", "-a", "-m", "main", cwd=repo)
    git("merge", "side", cwd=repo, check=False)
    before, conflict = head(repo), (repo / "a.txt").read_bytes()
    with caplog.at_level(logging.WARNING):
        assert manager.create(1) is None
    assert "MERGE_HEAD" in caplog.text
    assert (head(repo), status(repo)) == (before, "UU a.txt\n")
    assert manager.workspace.cat("latest", "a.txt") == conflict


def test_without_git_there_is_a_clear_error_and_nothing_happened(manager, repo, monkeypatch):
    put(repo, "a.txt", "v1\n")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FileNotFoundError, match="git is not installed") as caught:
        manager.create(1)
    assert isinstance(caught.value, GitMissing)


def test_a_directory_without_a_repository_needs_no_git(project, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    manager = CheckpointManager(str(project))
    put(project, "a", "1")
    assert manager.create(1) is not None
    put(project, "a", "2")
    assert steps(manager) == [1]
    assert manager.rollback(step=1) is True
    assert (project / "a").read_text() == "1"


def test_a_rollback_ends_a_merge_and_undo_brings_the_merge_back(manager, repo):
    three(manager)
    git("checkout", "-q", "-b", "side", "HEAD~1", cwd=repo)
    put(repo, "a.txt", "side\n")
    git("commit", "-q", "-a", "-m", "side", cwd=repo)
    git("checkout", "-q", "main", cwd=repo)
    git("merge", "side", cwd=repo, check=False)
    before, conflict = status(repo), (repo / "a.txt").read_bytes()
    assert manager.rollback(step=1) is True
    assert (status(repo), (repo / "a.txt").read_text()) == ("", "v1\n")
    assert not (repo / ".git/MERGE_HEAD").exists()
    manager.workspace.undo()
    assert (status(repo), (repo / "a.txt").read_bytes()) == (before, conflict)
    assert (repo / ".git/MERGE_HEAD").exists()


def test_in_the_middle_of_a_rebase_nothing_is_rolled_back(manager, repo, caplog):
    three(manager)
    git("checkout", "-q", "-b", "side", "HEAD~1", cwd=repo)
    put(repo, "a.txt", "side\n")
    git("commit", "-q", "-a", "-m", "side", cwd=repo)
    git("rebase", "main", cwd=repo, check=False)
    before = status(repo), (repo / "a.txt").read_bytes(), head(repo)
    with caplog.at_level(logging.WARNING):
        assert manager.rollback(step=1) is False
        assert manager.create(4) is None
    assert "rollback_failed" in caplog.text
    assert (status(repo), (repo / "a.txt").read_bytes(), head(repo)) == before


def test_a_checkpoint_of_another_branch_is_gone_back_to_on_that_branch(manager, repo):
    """The branch that is checked out is not torn to another one's commit."""
    made = three(manager)
    git("checkout", "-q", "-b", "other", cwd=repo)
    put(repo, "a.txt", "other\n")
    other = manager.create(9)
    assert other is not None
    assert manager.rollback(step=1) is True
    assert git("symbolic-ref", "--short", "HEAD", cwd=repo) == b"main\n"
    assert head(repo) == made[0].commit_hash
    assert git("rev-parse", "other", cwd=repo).decode().strip() == other.commit_hash


def test_new_files_in_excluded_directories_are_no_changes(manager, repo):
    first = head(repo)
    put(repo, "node_modules/x", "1")
    put(repo, ".env", "1")
    assert manager.has_changes_since(first) is False


def test_a_linked_worktree_has_its_own_branch(repo, tmp_path):
    git("worktree", "add", "-q", str(tmp_path / "wt"), cwd=repo)
    manager = CheckpointManager(str(tmp_path / "wt"))
    three(manager)
    main = git("rev-parse", "main", cwd=repo)
    assert manager.rollback(step=1) is True
    assert (tmp_path / "wt/a.txt").read_text() == "v1\n"
    assert git("rev-parse", "main", cwd=repo) == main


def test_the_second_process_goes_on_where_the_first_ended(manager, repo):
    three(manager)
    again = CheckpointManager(str(repo))
    assert steps(again) == [3, 2, 1]
    assert again.rollback(step=2) is True


def test_when_the_engine_forgot_a_checkpoint_its_commit_is_still_enough(manager, repo):
    three(manager)
    for checkpoint in manager.workspace.log(match={"dialect": "architect"}):
        manager.workspace.delete(checkpoint)
    assert steps(manager) == [3, 2, 1]
    assert manager.rollback(step=1) is True
    assert (repo / "a.txt").read_text() == "v1\n"


# -- the command line ---------------------------------------------------------------------------


def test_cli_history(manager, repo):
    said = cli("history", cwd=repo)
    assert (said.returncode, said.stdout) == (0, "No checkpoints recorded.\n")
    three(manager)
    lines = cli("history", cwd=repo).stdout.splitlines()
    assert lines[0] == "Checkpoints (3):"
    assert lines[-1] == "Use 'mulligan architect rollback --to-step N' to restore."
    hashes = [each.short_hash() for each in manager.list_checkpoints()]
    table = [line.split() for line in lines if line.strip() and line.split()[0] in "321"]
    assert [(row[0], row[1], " ".join(row[4:])) for row in table] == [
        (str(n), short, f"number {n}") for n, short in zip((3, 2, 1), hashes, strict=True)
    ]
    found = cli_json("history", cwd=repo)["checkpoints"]
    assert [(each["step"], each["message"]) for each in found] == [(3, "number 3"), (2, "number 2"), (1, "number 1")]


def test_cli_rollback(manager, repo):
    made = three(manager)
    said = cli("rollback", "--to-step", "2", cwd=repo)
    assert (said.returncode, said.stdout.splitlines()[0]) == (0, "Rollback successful to step 2")
    assert head(repo) == made[1].commit_hash
    said = cli("rollback", "--to-commit", made[0].short_hash(), cwd=repo)
    assert said.stdout.splitlines()[0] == f"Rollback successful to {made[0].short_hash()}"
    said = cli("rollback", "--to-step", "1", "--to-commit", made[2].commit_hash, cwd=repo)
    assert said.stdout.splitlines()[0] == f"Rollback successful to {made[2].commit_hash}"
    assert head(repo) == made[2].commit_hash
    report = cli_json("rollback", "--to-step", "1", cwd=repo)["report"]
    assert report["modified"] == ["a.txt"]


@pytest.mark.parametrize("words", [["--to-step", "9"], ["--to-commit", "nothing"], ["--to-commit=--soft"]])
def test_cli_rollback_to_nothing(manager, repo, words):
    three(manager)
    said = cli("rollback", *words, cwd=repo)
    assert said.returncode == 1
    assert "Could not perform rollback." in said.stderr
    assert (repo / "a.txt").read_text() == "v3\n"


def test_cli_rollback_without_a_target_is_a_question_of_usage(repo):
    said = cli("rollback", cwd=repo)
    assert said.returncode == 2
    assert "Specify --to-step or --to-commit" in said.stderr


def test_cli_rollback_by_name(manager, repo):
    CommitCheckpoints(manager.workspace).create(of_name("deploy"), allow_empty=True)
    put(repo, "a.txt", "later\n")
    assert cli("rollback", "--to-name", "deploy", cwd=repo).returncode == 0
    assert (repo / "a.txt").read_text() == "v0\n"


def test_non_utf8_names_survive_the_whole_way(manager, repo):
    name = os.fsdecode(b"\xff\xfe")
    put(repo, name, "1")
    made = manager.create(1)
    assert made is not None
    assert made.files_changed == [name]
    put(repo, name, "2")
    manager.create(2)
    assert manager.rollback(step=1) is True
    assert (repo / name).read_text() == "1"
