"""Hands off: whatever state the user's repository is in, not one byte of it changes, and nothing planted in it runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import mulligan
from checker import judge
from tools import cli, cli_json, git, strace_works
from tree import contents, put, snapshot


@pytest.fixture
def repo(project: Path) -> Path:
    """A repository with two commits, a stash, a tag and a branch beside the current one."""
    git("init", "-q", "-b", "main", cwd=project)
    put(project, "tracked", "1\n")
    put(project, "dir/other", "1\n")
    put(project, ".gitignore", "ignored/\n*.skip\n")
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "first", cwd=project)
    put(project, "tracked", "stashed\n")
    git("stash", "-q", cwd=project)
    git("branch", "side", cwd=project)
    git("tag", "v1", cwd=project)
    return project


def messy(repo: Path) -> None:
    """Staged, unstaged, mixed, untracked, deleted, ignored."""
    put(repo, "staged", "s\n")
    put(repo, "tracked", "staged part\n")
    git("add", "staged", "tracked", cwd=repo)
    put(repo, "tracked", "staged part\nand not staged\n")
    put(repo, "untracked", "u\n")
    (repo / "dir/other").unlink()
    put(repo, "ignored/x", "i\n")


def merge_in_progress(repo: Path) -> None:
    """A merge with a conflict, half done."""
    git("checkout", "-q", "side", cwd=repo)
    put(repo, "tracked", "side\n")
    git("commit", "-q", "-a", "-m", "side", cwd=repo)
    git("checkout", "-q", "main", cwd=repo)
    put(repo, "tracked", "main\n")
    git("commit", "-q", "-a", "-m", "main", cwd=repo)
    git("merge", "side", cwd=repo, check=False)
    assert (repo / ".git/MERGE_HEAD").exists()


def detached(repo: Path) -> None:
    """HEAD on a commit, not a branch."""
    git("checkout", "-q", "--detach", cwd=repo)
    messy(repo)


def split_index(repo: Path) -> None:
    """An index in two files."""
    git("update-index", "--split-index", cwd=repo)
    messy(repo)


def sparse(repo: Path) -> None:
    """A sparse checkout: `dir` is not there."""
    git("sparse-checkout", "set", "--no-cone", "/tracked", "/.gitignore", cwd=repo)
    assert not (repo / "dir").exists()


def everything(ws, repo: Path) -> None:
    """Each verb once, with changes in between."""
    ws.save("one")
    before = contents(repo)
    put(repo, "tracked", "broken\n")
    put(repo, "made/new", "n\n")
    ws.save("two", kind="automatic")
    put(repo, "made/new", "n2\n")
    ws.diff()
    ws.plan("one")
    ws.restore("one")
    assert contents(repo) == before
    ws.undo()
    ws.redo()
    ws.restore("two", paths=["made"])
    ws.delete("two")
    ws.prune()
    ws.check()
    ws.forget("made/new")
    ws.restore("one")


@pytest.mark.parametrize("state", [messy, merge_in_progress, detached, split_index, sparse], ids=lambda f: f.__name__)
def test_no_verb_changes_a_byte_of_the_users_repository(repo, store, state):
    state(repo)
    said = {args: git(*args, cwd=repo) for args in SAID}
    before = snapshot(repo / ".git")
    everything(mulligan.open(repo, store=store), repo)
    assert snapshot(repo / ".git") == before
    shutil.rmtree(repo / "made", ignore_errors=True)
    assert {args: git(*args, cwd=repo) for args in SAID} == said
    assert judge(store, repo) == []


SAID = [
    ("status", "--porcelain=v2", "-z", "--branch"),
    ("diff",),
    ("diff", "--cached"),
    ("stash", "list"),
    ("for-each-ref",),
    ("ls-files", "-s"),
    ("log", "--oneline", "--all"),
]


def test_the_git_state_is_in_the_checkpoint_as_data(repo, store):
    ws = mulligan.open(repo, store=store)
    clean = ws.save("clean")
    assert clean.git.commit_hash == git("rev-parse", "HEAD", cwd=repo).decode().strip()
    assert clean.git.branch == "main"
    put(repo, "tracked", "2\n")
    dirty = ws.save("dirty")
    assert "tracked" in dirty.git.dirty_files


@pytest.mark.parametrize("how", ["unborn", "detached", "empty", "garbage HEAD", "gitfile", "gitfile to nowhere"])
def test_odd_repositories_are_captured_all_the_same(project, store, tmp_path, how):
    put(project, "a", "1")
    if how == "gitfile":
        git("init", "-q", "--separate-git-dir", tmp_path / "elsewhere", project)
    elif how == "gitfile to nowhere":
        put(project, ".git", "gitdir: /nonexistent/repo\n")
    elif how == "empty":
        (project / ".git").mkdir()
    else:
        git("init", "-q", cwd=project)
        if how == "garbage HEAD":
            put(project, ".git/HEAD", b"\0\xff garbage")
        if how == "detached":
            git("add", "a", cwd=project)
            git("commit", "-q", "-m", "x", cwd=project)
            git("checkout", "-q", "--detach", cwd=project)
    ws = mulligan.open(project, store=store)
    cp = ws.save("one")
    put(project, "a", "2")
    ws.restore("one")
    assert (project / "a").read_text() == "1"
    if how == "unborn":
        assert not cp.git or not cp.git.commit_hash


def test_git_init_in_the_middle_is_no_event(ws, project):
    put(project, "a", "1")
    ws.save("one")
    git("init", "-q", cwd=project)
    put(project, "a", "2")
    ws.save("two")
    ws.restore("one")
    assert (project / "a").read_text() == "1"
    assert (project / ".git/HEAD").exists()


def test_checkpoints_survive_the_users_git_gc(repo, store):
    ws = mulligan.open(repo, store=store)
    put(repo, "tracked", "2\n")
    ws.save("one")
    git("stash", "clear", cwd=repo)
    git("reset", "-q", "--hard", cwd=repo)
    git("update-ref", "-d", "refs/heads/side", cwd=repo)
    git("reflog", "expire", "--expire=now", "--all", cwd=repo)
    git("gc", "-q", "--prune=now", cwd=repo)
    shutil.rmtree(repo / ".git")
    ws.restore("one")
    assert (repo / "tracked").read_text() == "2\n"
    assert (repo / "dir/other").read_text() == "1\n"
    assert judge(store, repo) == []


def test_the_stores_own_repository_survives_plain_git_gc(repo, store):
    ws = mulligan.open(repo, store=store)
    ws.save("one")
    git(f"--git-dir={store}", "gc", "--auto", check=False)
    assert ws.cat("one", "tracked") == b"1\n"
    assert ws.check().ok


def test_exported_git_variables_lead_nowhere(repo, project, store, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    git("init", "-q", cwd=other)
    before = snapshot(other)
    for name, value in {"GIT_DIR": other / ".git", "GIT_WORK_TREE": other, "GIT_INDEX_FILE": other / "idx"}.items():
        monkeypatch.setenv(name, str(value))
    ws = mulligan.open(repo, store=store)
    ws.save("one")
    put(repo, "tracked", "2\n")
    ws.restore("one")
    assert (repo / "tracked").read_text() == "1\n"
    assert snapshot(other) == before


def test_nested_repositories_are_captured_as_files_and_their_git_is_untouched(repo, store):
    nested = repo / "vendor/lib"
    nested.mkdir(parents=True)
    git("init", "-q", cwd=nested)
    put(nested, "code", "1")
    git("add", "code", cwd=nested)
    git("commit", "-q", "-m", "inner", cwd=nested)
    empty = repo / "vendor/empty"
    empty.mkdir()
    git("init", "-q", cwd=empty)
    put(empty, "code", "1")
    ws = mulligan.open(repo, store=store)
    inner = snapshot(nested / ".git") | snapshot(empty / ".git")
    ws.save("one")
    put(nested, "code", "2")
    put(empty, "code", "2")
    ws.restore("one")
    assert (nested / "code").read_text() == "1"
    assert (empty / "code").read_text() == "1"
    assert snapshot(nested / ".git") | snapshot(empty / ".git") == inner


def test_a_repository_made_since_is_not_destroyed_by_a_restore(ws, project):
    put(project, "a", "1")
    ws.save("one")
    nested = project / "cloned"
    nested.mkdir()
    git("init", "-q", cwd=nested)
    put(nested, "code", "1")
    git("add", "code", cwd=nested)
    git("commit", "-q", "-m", "inner", cwd=nested)
    before = snapshot(nested / ".git")
    ws.restore("one")
    assert snapshot(nested / ".git") == before
    ws.undo()
    assert (nested / "code").read_text() == "1"


TRAP = "#!/bin/sh\ntouch {canary}\n"


def plant(repo: Path, canary: Path) -> None:
    """Every setting of a repository that makes git run something."""
    trap = put(repo.parent, f"trap-{canary.name}", TRAP.format(canary=canary), perm=0o755)
    hooks = (
        "pre-commit post-checkout post-index-change post-commit reference-transaction fsmonitor-watchman pre-auto-gc"
    )
    for hook in hooks.split():
        put(repo, f".git/hooks/{hook}", TRAP.format(canary=canary), perm=0o755)
    with (repo / ".git/config").open("a") as file:
        file.write(
            f"[core]\n\tfsmonitor = {trap}\n\tpager = {trap}\n\teditor = {trap}\n\tsshCommand = {trap}\n"
            f'[diff "x"]\n\ttextconv = {trap}\n\tcommand = {trap}\n[filter "x"]\n\tclean = {trap}\n\tsmudge = {trap}\n'
            f"\tprocess = {trap}\n[diff]\n\texternal = {trap}\n[gpg]\n\tprogram = {trap}\n[commit]\n\tgpgsign = true\n"
        )
    put(repo, ".gitattributes", "* filter=x diff=x\n")


def test_nothing_planted_in_a_repository_ever_runs(repo, store, tmp_path):
    nested = repo / "nested"
    nested.mkdir()
    git("init", "-q", cwd=nested)
    put(nested, "code", "1")
    git("add", "code", cwd=nested)
    git("commit", "-q", "-m", "inner", cwd=nested)
    plant(repo, tmp_path / "canary1")
    plant(nested, tmp_path / "canary2")
    everything(mulligan.open(repo, store=store), repo)
    assert not (tmp_path / "canary1").exists()
    assert not (tmp_path / "canary2").exists()


COMMANDS = [
    ("save", "one"),
    ("save", "two", "--kind", "automatic"),
    ("log",),
    ("show", "one"),
    ("diff",),
    ("diff", "one", "--stat"),
    ("restore", "one", "--dry-run"),
    ("restore", "one", "-y"),
    ("undo",),
    ("redo",),
    ("cat", "one:tracked"),
    ("status",),
    ("check",),
    ("doctor",),
    ("rm", "two", "-y"),
    ("forget", "dir/other", "-y"),
    ("gc",),
    ("stores",),
]


@pytest.mark.skipif(not strace_works(), reason="strace is not here or may not trace: execve cannot be watched")
def test_no_command_starts_any_process(repo, store, tmp_path):
    """Reliability row 35: not one execve beyond the interpreter itself."""
    plant(repo, tmp_path / "canary")
    for number, command in enumerate(COMMANDS):
        put(repo, "tracked", f"{number}\n")
        trace = tmp_path / "trace"
        prefix = ["strace", "-f", "-e", "trace=execve,execveat,fork,vfork", "-o", os.fspath(trace)]
        done = cli("--store", store, *command, cwd=repo, prefix=prefix)
        assert done.returncode in {0, 3}, (command, done.stderr)
        lines = [line for line in trace.read_text().splitlines() if "exec" in line or "fork(" in line]
        assert len(lines) == 1, (command, lines)
    assert not (tmp_path / "canary").exists()


def test_autocrlf_and_filters_change_no_byte(repo, store):
    git("config", "core.autocrlf", "true", cwd=repo)
    put(repo, ".gitattributes", "* text=auto eol=crlf ident\n")
    put(repo, "crlf", b"1\r\n2\r\n$Id$\r\n")
    put(repo, "lf", b"1\n2\n")
    put(repo, "mixed", b"1\n2\r\n\r")
    before = contents(repo)
    ws = mulligan.open(repo, store=store)
    ws.save("one")
    for name in ("crlf", "lf", "mixed"):
        put(repo, name, "x")
    ws.restore("one")
    assert contents(repo) == before
    assert ws.diff().patch == ""


def test_a_tracked_file_is_captured_although_a_rule_ignores_it(repo, store):
    put(repo, "forced.skip", "1")
    put(repo, "ignored/forced", "1")
    put(repo, "ignored/not", "1")
    git("add", "-f", "forced.skip", "ignored/forced", cwd=repo)
    ws = mulligan.open(repo, store=store)
    ws.save("one")
    for name in ("forced.skip", "ignored/forced", "ignored/not"):
        put(repo, name, "2")
    ws.restore("one")
    assert (repo / "forced.skip").read_text() == "1"
    assert (repo / "ignored/forced").read_text() == "1"
    assert (repo / "ignored/not").read_text() == "2"


def test_info_exclude_and_the_global_excludes_file_are_respected(repo, store, private_home):
    put(repo, ".git/info/exclude", "*.local\n")
    put(private_home, "xdg-config/git/ignore", "*.global\n")
    for name in ("a.local", "a.global", "a.plain"):
        put(repo, name, "1")
    ws = mulligan.open(repo, store=store)
    cp = ws.save("one")
    assert "a.plain" in cp.files_changed
    assert {entry.path: entry.reason for entry in cp.not_captured} == {"a.local": "ignored", "a.global": "ignored"}
    put(repo, "b.local", "1")
    put(repo, "b.plain", "1")
    put(repo, "a.global", "2")
    ws.restore("one")
    assert (repo / "b.local").exists()
    assert not (repo / "b.plain").exists()
    assert (repo / "a.global").read_text() == "2"


def test_the_command_line_needs_no_git_on_the_path(repo, store):
    assert cli_json("--store", store, "save", "one", cwd=repo, PATH="/nonexistent")["checkpoint"]["complete"]
    put(repo, "tracked", "2\n")
    cli_json("--store", store, "restore", "one", "-y", cwd=repo, PATH="/nonexistent")
    assert (repo / "tracked").read_text() == "1\n"
