"""The one place that runs git: what it obeys, what it does not, and how it fails."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mulligan.committing import commands
from mulligan.committing.commands import Git, run
from mulligan.errors import GitFailed, GitMissing
from mulligan.settings.variables import Tools
from tools import git
from tree import put


@pytest.fixture
def repo(project: Path) -> Path:
    git("init", "-q", "-b", "main", cwd=project)
    put(project, "a", "1\n")
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "first", cwd=project)
    return project


def test_code_output_and_complaint_come_back(repo):
    ran = run(str(repo), ["rev-parse", "--show-toplevel"])
    assert (ran.code, ran.out, ran.err) == (0, os.fsencode(repo) + b"\n", b"")
    failed = run(str(repo), ["rev-parse", "--verify", "nothing"])
    assert failed.code != 0
    assert failed.complaint == "fatal: Needed a single revision"


def test_check_raises_with_what_git_said(repo):
    with pytest.raises(GitFailed, match="git rev-parse failed: fatal: Needed a single revision"):
        run(str(repo), ["rev-parse", "--verify", "nothing"], check=True)


def test_input_is_handed_over(repo):
    said = run(str(repo), ["hash-object", "--stdin"], input=b"1\n", check=True)
    assert said.out.strip() == git("rev-parse", "HEAD:a", cwd=repo).strip()


@pytest.mark.parametrize("words", [[], ["-c", "alias.x=!id", "x"], ["--exec-path=/tmp"], ["log", "a\0b"]])
def test_what_is_no_command_is_refused(repo, words):
    with pytest.raises(ValueError, match="command of git"):
        run(str(repo), words)


def test_words_never_pass_a_shell(repo):
    said = run(str(repo), ["rev-parse", "--verify", "--end-of-options", "$(touch planted); `touch planted`"])
    assert said.code
    assert not (repo / "planted").exists()


def test_variables_of_git_do_not_reach_the_command(repo, tmp_path, monkeypatch):
    other = tmp_path / "other"
    git("init", "-q", str(other))
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "touch planted")
    assert run(str(repo), ["rev-parse", "--show-toplevel"]).out == os.fsencode(repo) + b"\n"
    put(repo, "a", "2\n")
    assert b"+2" in run(str(repo), ["diff"], check=True).out
    assert not (repo / "planted").exists()


def test_the_users_name_is_used_and_one_is_supplied_where_there_is_none(repo, private_home):
    who = ["var", "GIT_COMMITTER_IDENT"]
    assert run(str(repo), who, check=True).out.startswith(b"mulligan <mulligan@localhost>")
    (private_home / ".gitconfig").write_text("[user]\n name = Ada\n email = ada@example.org\n")
    assert run(str(repo), who, check=True).out.startswith(b"Ada <ada@example.org>")
    git("config", "user.name", "Here", cwd=repo)
    assert run(str(repo), who, check=True).out.startswith(b"Here <ada@example.org>")


def test_an_identity_that_is_insisted_on_is_no_obstacle(repo, private_home):
    (private_home / ".gitconfig").write_text("[user]\n useConfigOnly = true\n")
    assert run(str(repo), ["var", "GIT_COMMITTER_IDENT"], check=True).out.startswith(b"mulligan")


def test_the_users_excludes_and_line_endings_are_kept(repo, private_home):
    (private_home / "ignored").write_text("*.swp\n")
    (private_home / ".gitconfig").write_text("[core]\n excludesFile = ~/ignored\n autocrlf = input\n")
    put(repo, "x.swp", "")
    put(repo, "dos", "1\r\n")
    assert run(str(repo), ["ls-files", "--others", "--exclude-standard"]).out == b"dos\n"
    said = run(str(repo), ["hash-object", "--path=dos", "dos"], check=True).out.strip()
    assert said == git("rev-parse", "HEAD:a", cwd=repo).strip()


def test_a_repository_of_somebody_else_is_read_only_where_the_user_says_so(repo):
    """GIT_DIR is given, so git asks nobody about owners: mulligan's own rule for whose repository counts decided already."""
    assert Git(str(repo)).is_repository


def test_the_repository_is_the_one_mulligan_sees(repo, private_home):
    """A repository of the whole home directory is nobody's project."""
    git("init", "-q", str(private_home))
    folder = private_home / "notes"
    folder.mkdir()
    assert not Git(str(folder)).is_repository
    assert run(str(folder), ["rev-parse", "--git-dir"]).code != 0
    below = repo / "sub"
    below.mkdir()
    here = Git(str(below))
    assert (here.top, here.prefix) == (str(repo), b"sub")


def test_a_work_tree_that_the_repository_names_elsewhere_is_not_believed(repo, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    put(victim, "mine", "1")
    git("config", "core.worktree", str(victim), cwd=repo)
    assert run(str(repo), ["rev-parse", "--show-toplevel"]).out == os.fsencode(repo) + b"\n"
    assert run(str(repo), ["ls-files", "--others"]).out == b""


def test_a_bare_repository_in_a_workspace_is_not_entered(project):
    git("init", "-q", "--bare", str(project / "inner"))
    assert run(str(project / "inner"), ["rev-parse", "--git-dir"]).code != 0


def test_worktrees_are_repositories_too(repo, tmp_path):
    git("worktree", "add", "-q", str(tmp_path / "wt"), cwd=repo)
    assert run(str(tmp_path / "wt"), ["rev-parse", "--abbrev-ref", "HEAD"], check=True).out == b"wt\n"


def test_without_git_the_error_says_so(repo):
    with pytest.raises(GitMissing, match="git is not installed") as caught:
        Git(str(repo), where=Tools("/nowhere:relative::", "/", "")).run(["status"])
    assert isinstance(caught.value, FileNotFoundError)
    assert "mulligan save" in caught.value.hint


def test_a_program_named_git_in_the_workspace_is_not_run(repo, monkeypatch):
    put(repo, "bin/git", "#!/bin/sh\ntouch planted\n")
    (repo / "bin/git").chmod(0o755)
    monkeypatch.chdir(repo / "bin")
    monkeypatch.setenv("PATH", f".:{repo}/bin:{os.environ['PATH']}")
    assert run(str(repo), ["rev-parse", "--git-dir"]).code == 0
    assert not list(repo.rglob("planted"))


def test_an_old_git_is_refused(repo, tmp_path, monkeypatch):
    """One that does not hear what overrules a repository's configuration."""
    old = tmp_path / "old"
    put(old, "git", '#!/bin/sh\nunset GIT_CONFIG_COUNT\nexec /usr/bin/env -u GIT_CONFIG_COUNT git.real "$@"\n')
    (old / "git").chmod(0o755)
    real = next(Path(d) / "git" for d in os.environ["PATH"].split(":") if (Path(d) / "git").exists())
    (old / "git.real").symlink_to(real)
    monkeypatch.setenv("PATH", f"{old}:{os.environ['PATH']}")
    with pytest.raises(GitFailed, match=r"older than git 2\.31"):
        run(str(repo), ["status"])


def test_what_takes_too_long_is_stopped(repo, tmp_path, monkeypatch):
    slow = tmp_path / "slow"
    put(slow, "git", '#!/bin/sh\ncase "$*" in *count-objects*) exec sleep 600;; *) exec git.real "$@";; esac\n')
    (slow / "git").chmod(0o755)
    real = next(Path(d) / "git" for d in os.environ["PATH"].split(":") if (Path(d) / "git").exists())
    (slow / "git.real").symlink_to(real)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    with pytest.raises(GitFailed, match=r"took longer than .* and was stopped"):
        run(str(repo), ["count-objects"], timeout=0.1)


def test_stopping_is_gentle():
    """What git holds locked it takes away itself when it is asked to end; killed, it could not."""
    script = "trap 'exit 7' TERM; echo ready; while :; do read -r _ || :; done"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        commands._end(process)
    assert process.returncode == 7


def test_a_broken_configuration_is_said(repo):
    (repo / ".git/config").write_text("[core\n")
    with pytest.raises(GitFailed, match="cannot read its configuration"):
        run(str(repo), ["status"])
