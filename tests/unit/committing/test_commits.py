"""Commits on the user's branch: what is in them, and what they leave exactly as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mulligan.committing import commits
from mulligan.committing.commands import Git, GitRun
from mulligan.errors import GitFailed
from mulligan.safefs.directory import Directory
from mulligan.safefs.lock import alone
from tools import git
from tree import put


def everything(_path: bytes, _tracked: bool) -> bool:
    return True


def make(root: Path, in_scope=everything, **more) -> commits.MadeCommit:
    return commits.commit(str(root), b"architect:checkpoint:step-1\n\nCheckpoint-Step: 1\n", in_scope, **more)


def status(repo: Path) -> list[str]:
    return os.fsdecode(git("status", "--porcelain", "-z", "-uall", cwd=repo)).split("\0")[:-1]


def held(repo: Path, path: str, rev: str = "HEAD") -> bytes:
    return git("cat-file", "blob", f"{rev}:{path}", cwd=repo)


@pytest.fixture
def repo(project: Path) -> Path:
    git("init", "-q", "-b", "main", cwd=project)
    put(project, "a", "1\n")
    put(project, "dir/b", "1\n")
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "first", cwd=project)
    return project


def test_edits_new_files_deletions_links_and_modes(repo):
    put(repo, "a", "2\n")
    put(repo, "new", b"\x00\xff\r\n")
    put(repo, "dir/run", "#!/bin/sh\n")
    (repo / "dir/run").chmod(0o755)
    (repo / "link").symlink_to("dir/nowhere")
    (repo / "dir/b").unlink()
    made = make(repo)
    assert made.files == (b"a", b"dir/b", b"dir/run", b"link", b"new")
    assert made.commit == git("rev-parse", "main", cwd=repo).decode().strip()
    assert held(repo, "new") == b"\x00\xff\r\n"
    assert held(repo, "link") == b"dir/nowhere"
    assert git("ls-tree", "HEAD", "dir/run", cwd=repo).startswith(b"100755")
    assert status(repo) == []
    assert git("fsck", "--strict", cwd=repo) == b""
    assert b"mulligan" not in git("for-each-ref", cwd=repo), "no ref is left over"


@pytest.mark.parametrize(
    "name", ["é", "a b", 'q"uote', "new\nline", "back\\slash", "\udcff\udcfe", "-dash", "tab\t", ":(glob)*"]
)
def test_every_name_that_a_file_can_have(repo, name):
    put(repo, name, "1")
    assert [os.fsdecode(path) for path in make(repo).files] == [name]
    assert status(repo) == []


def test_nothing_changed_is_no_commit(repo):
    before = git("rev-parse", "HEAD", cwd=repo)
    assert make(repo) == ("", (), ())
    assert git("rev-parse", "HEAD", cwd=repo) == before


def test_an_empty_commit_where_one_is_wanted(repo, tmp_path):
    made = make(repo, allow_empty=True)
    assert made.commit
    assert made.files == ()
    git("init", "-q", str(tmp_path / "empty"))
    assert make(tmp_path / "empty", allow_empty=True).commit


def test_the_first_commit_of_a_repository(project):
    git("init", "-q", "-b", "main", cwd=project)
    put(project, "a", "1")
    made = make(project)
    assert made.files == (b"a",)
    assert git("rev-list", "--count", "HEAD", cwd=project) == b"1\n"


def test_a_detached_head_moves_and_no_branch_does(repo):
    git("checkout", "-q", "--detach", cwd=repo)
    put(repo, "a", "2\n")
    made = make(repo)
    assert git("rev-parse", "HEAD", cwd=repo).decode().strip() == made.commit
    assert git("rev-parse", "main", cwd=repo).decode().strip() != made.commit


def test_a_file_that_became_a_directory_and_the_other_way_round(repo):
    (repo / "a").unlink()
    put(repo, "a/deep", "1")
    (repo / "dir/b").unlink()
    (repo / "dir").rmdir()
    put(repo, "dir", "now a file")
    assert make(repo).files == (b"a", b"a/deep", b"dir", b"dir/b")
    assert status(repo) == []


def test_scope_decides_and_is_told_what_git_tracks(repo):
    put(repo, "a", "2\n")
    put(repo, "secret", "1\n")
    asked = []

    def without_secret(path: bytes, tracked: bool) -> bool:
        asked.append((path, tracked))
        return path != b"secret"

    assert make(repo, without_secret).files == (b"a",)
    assert sorted(asked) == [(b"a", True), (b"secret", False)]
    assert status(repo) == ["?? secret"]


def test_what_is_staged_for_paths_out_of_scope_stays_staged(repo):
    put(repo, "a", "2\n")
    put(repo, "staged", "1\n")
    git("add", "staged", cwd=repo)
    put(repo, "staged", "2\n")
    make(repo, lambda path, tracked: path != b"staged")
    assert status(repo) == ["AM staged"]
    assert git("show", ":staged", cwd=repo) == b"1\n"


def test_a_part_of_a_repository_commits_only_itself(repo):
    put(repo, "a", "2\n")
    git("add", "a", cwd=repo)
    put(repo, "dir/b", "2\n")
    put(repo, "dir/c", "1\n")
    made = make(repo / "dir")
    assert made.files == (b"b", b"c")
    assert held(repo, "a") == b"1\n"
    assert status(repo) == ["M  a"]


def test_line_endings_are_those_of_the_repository(repo):
    put(repo, ".gitattributes", "*.txt text eol=crlf\n")
    put(repo, "x.txt", "1\r\n2\r\n")
    make(repo)
    assert held(repo, "x.txt") == b"1\n2\n"
    assert status(repo) == []
    git("config", "core.safecrlf", "true", cwd=repo)
    put(repo, "mixed.txt", "1\r\n2\n")
    assert make(repo).files == (b"mixed.txt",)


def test_files_with_a_filter_are_left_out_and_named(repo):
    git("config", "filter.lfs.clean", "git-lfs clean", cwd=repo)
    put(repo, ".gitattributes", "*.bin filter=lfs\n*.odd filter=undefined\n")
    put(repo, "x.bin", "raw")
    put(repo, "x.odd", "raw")
    made = make(repo)
    assert (made.files, made.left_out) == ((b".gitattributes", b"x.odd"), (b"x.bin",))


def test_where_modes_are_not_trusted_the_staged_one_stays(repo):
    git("update-index", "--chmod=+x", "a", cwd=repo)
    git("commit", "-q", "-m", "program", cwd=repo)
    git("config", "core.fileMode", "false", cwd=repo)
    put(repo, "a", "2\n")
    make(repo)
    assert git("ls-tree", "HEAD", "a", cwd=repo).startswith(b"100755")


def test_a_submodule_is_left_as_it_is(repo, tmp_path):
    inner = repo / "inner"
    git("init", "-q", str(inner))
    put(inner, "x", "1")
    git("add", "-A", cwd=inner)
    git("commit", "-q", "-m", "inner", cwd=inner)
    put(repo, "a", "2\n")
    assert make(repo).files == (b"a",)
    git("add", "inner", cwd=repo)
    git("commit", "-q", "-m", "link", cwd=repo)
    git("commit", "-q", "--allow-empty", "-m", "inner 2", cwd=inner)
    assert make(repo).commit == ""


@pytest.mark.parametrize("name", ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"])
def test_in_the_middle_of_something_nothing_is_committed(repo, name):
    head = git("rev-parse", "HEAD", cwd=repo)
    (repo / ".git" / name).write_bytes(head)
    put(repo, "a", "2\n")
    with pytest.raises(GitFailed, match="in the middle of something"):
        make(repo)
    assert git("rev-parse", "HEAD", cwd=repo) == head
    assert status(repo) == [" M a"]


def test_a_rebase_that_stopped_and_conflicts_are_refused(repo):
    git("checkout", "-q", "-b", "side", cwd=repo)
    put(repo, "a", "side\n")
    git("commit", "-q", "-a", "-m", "side", cwd=repo)
    git("checkout", "-q", "main", cwd=repo)
    put(repo, "a", "main\n")
    git("commit", "-q", "-a", "-m", "main", cwd=repo)
    git("rebase", "side", cwd=repo, check=False)
    with pytest.raises(GitFailed, match="in the middle of something"):
        make(repo)
    git("rebase", "--quit", cwd=repo)
    with pytest.raises(GitFailed, match="has conflicts"):
        make(repo)


def test_while_another_git_holds_the_index_nothing_happens(repo, monkeypatch):
    monkeypatch.setattr(commits, "_LOCK_WAIT", 0.0)
    (repo / ".git/index.lock").touch()
    put(repo, "a", "2\n")
    with pytest.raises(GitFailed, match=r"index\.lock"):
        make(repo)
    (repo / ".git/index.lock").unlink()
    assert status(repo) == [" M a"]


def test_a_branch_that_moved_meanwhile_is_not_overwritten_and_the_index_is_as_before(repo, monkeypatch):
    put(repo, "a", "staged\n")
    git("add", "a", cwd=repo)
    put(repo, "a", "2\n")
    put(repo, "new", "1\n")
    before = status(repo)
    build = commits._build

    def and_somebody_commits(*args):
        made = build(*args)
        git("commit", "-q", "--allow-empty", "--only", "-m", "faster", cwd=repo)
        return made

    monkeypatch.setattr(commits, "_build", and_somebody_commits)
    with pytest.raises(GitFailed, match="branch could not be moved"):
        make(repo)
    assert git("log", "-1", "--format=%s", cwd=repo) == b"faster\n"
    assert status(repo) == before
    assert git("show", ":a", cwd=repo) == b"staged\n"
    assert git("for-each-ref", "refs/mulligan", cwd=repo) == b""


def test_a_file_that_changes_while_it_is_read_is_read_again(repo, monkeypatch):
    put(repo, "a", "2\n")
    plain = Git.run
    edits = iter([b"3\n", None, None])

    def meanwhile(self, args, **more) -> GitRun:
        ran = plain(self, args, **more)
        if args[0] == "hash-object" and (edit := next(edits)):
            (repo / "a").write_bytes(edit)
        return ran

    monkeypatch.setattr(Git, "run", meanwhile)
    make(repo)
    assert held(repo, "a") == b"3\n"


def test_two_at_once_make_one_commit_of_the_same_files(repo, monkeypatch):
    put(repo, "a", "2\n")
    build, others = commits._build, []

    def and_somebody_else_does_the_same(*args):
        made = build(*args)
        if not others:
            others.append(git("commit", "-q", "-am", "the same", cwd=repo))
        return made

    monkeypatch.setattr(commits, "_build", and_somebody_else_does_the_same)
    assert make(repo).commit == ""
    assert git("rev-list", "--count", "HEAD", cwd=repo) == b"2\n"
    assert git("for-each-ref", "refs/mulligan", cwd=repo) == b""


def test_what_somebody_commits_just_before_the_branch_moves_stays_staged_as_committed(repo, monkeypatch):
    """Both have written the index by then; taking ours back must not undo theirs, or the next commit would delete files."""
    put(repo, "a", "2\n")
    put(repo, "new", "1\n")
    (repo / "dir/b").unlink()
    plain_run, told = Git.run, []

    def just_before(self, args, **more) -> GitRun:
        if args[0] == "update-ref" and "--stdin" in args and not told:
            told.append(1)
            git("commit", "-q", "-am", "the same", cwd=repo)
        return plain_run(self, args, **more)

    monkeypatch.setattr(Git, "run", just_before)
    put(repo, "only ours", "1\n")
    git("add", "new", cwd=repo)
    made = make(repo)
    assert told and status(repo) == []
    assert held(repo, "a") == b"2\n" and held(repo, "only ours") == b"1\n"
    assert made.files == (b"only ours",) or made.commit == ""


def test_processes_that_commit_at_once_leave_the_index_as_committed(repo):
    code = """
import pathlib, sys
from mulligan.committing.commits import commit
root, who = pathlib.Path(sys.argv[1]), sys.argv[2]
for number in range(4):
    (root / f"{who}-{number}").write_text(who)
    commit(str(root), b"by " + who.encode(), lambda path, tracked: True)
"""
    started = [subprocess.Popen([sys.executable, "-c", code, str(repo), who]) for who in "abc"]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    assert status(repo) == []
    assert len(git("ls-tree", "-r", "--name-only", "HEAD", cwd=repo).split()) == 2 + 3 * 4


def test_who_waits_too_long_for_another_commit_changes_nothing(repo, monkeypatch):
    monkeypatch.setattr(commits, "_TURN_WAIT", 0.0)
    put(repo, "a", "2\n")
    with Directory.open(repo / ".git") as place, alone(place, wait=0.0) as ours:
        assert ours
        with pytest.raises(GitFailed, match="being committed"):
            make(repo)
    assert status(repo) == [" M a"]
    assert make(repo).files == (b"a",)


def test_an_interrupt_leaves_index_and_branch_where_they_stood(repo, monkeypatch):
    put(repo, "a", "2\n")
    put(repo, "new", "1\n")
    before, head = status(repo), git("rev-parse", "HEAD", cwd=repo)
    plain = Git.run

    def interrupted(self, args, **more) -> GitRun:
        if "--stdin" in args and args[0] == "update-ref":
            raise KeyboardInterrupt
        return plain(self, args, **more)

    monkeypatch.setattr(Git, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(repo)
    assert (status(repo), git("rev-parse", "HEAD", cwd=repo)) == (before, head)
    assert git("for-each-ref", "refs/mulligan", cwd=repo) == b""


def test_what_a_killed_process_left_is_swept_later(repo, monkeypatch):
    git("update-ref", "refs/mulligan/making/young", "HEAD", cwd=repo)
    make(repo)
    assert b"young" in git("for-each-ref", "refs/mulligan", cwd=repo)
    monkeypatch.setattr(commits, "_LONG_AGO", -60)
    make(repo)
    assert git("for-each-ref", "refs/mulligan", cwd=repo) == b""


def test_a_repository_with_the_longer_hashes(project):
    git("init", "-q", "--object-format=sha256", cwd=project)
    put(project, "a", "1")
    assert len(make(project).commit) == 64
    (project / "a").unlink()
    assert make(project).files == (b"a",)
    assert status(project) == []


def test_hooks_and_signing_cannot_break_it(repo):
    put(repo / ".git/hooks", "pre-commit", "#!/bin/sh\nexit 1\n")
    (repo / ".git/hooks/pre-commit").chmod(0o755)
    git("config", "commit.gpgSign", "true", cwd=repo)
    git("config", "gpg.program", "/nowhere", cwd=repo)
    put(repo, "a", "2\n")
    assert make(repo).files == (b"a",)


def test_many_files_at_once(repo):
    for at in range(700):
        put(repo, f"many/{at:04d}-{'x' * 90}", str(at))
    assert len(make(repo).files) == 700
    assert status(repo) == []


def test_the_whole_index_stays_when_a_worktree_is_linked(repo, tmp_path):
    git("worktree", "add", "-q", str(tmp_path / "wt"), cwd=repo)
    put(tmp_path / "wt", "a", "2\n")
    made = make(tmp_path / "wt")
    assert git("rev-parse", "wt", cwd=repo).decode().strip() == made.commit
    assert status(repo) == []
