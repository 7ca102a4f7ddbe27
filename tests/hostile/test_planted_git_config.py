"""
A repository whose own configuration names programs: none of them runs when mulligan runs git in it.

Each program leaves a mark. Plain git is shown to leave marks in the same repository, so that silence means something.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mulligan.committing import commits, labels
from mulligan.committing.commands import Git, run
from tools import git, plain_environment, strace_works
from tree import put

HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "post-index-change"),
    *("reference-transaction", "pre-auto-gc", "fsmonitor-watchman", "post-rewrite", "pre-push"),
)
#: Settings that name a program, each with the mark it would leave.
PROGRAMS = (
    *("core.fsmonitor", "core.sshCommand", "core.editor", "core.pager", "core.askPass", "core.gitProxy"),
    *("core.alternateRefsCommand", "sequence.editor", "diff.external", "diff.evil.command", "diff.evil.textconv"),
    *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "merge.evil.driver", "gpg.program"),
    *("gpg.ssh.program", "gpg.ssh.defaultKeyCommand", "credential.helper", "credential.https://x.helper"),
    *("pager.log", "pager.status", "pager.diff", "interactive.diffFilter", "trailer.evil.cmd", "tar.evil.command"),
    *("uploadpack.packObjectsHook", "remote.origin.uploadpack", "remote.origin.receivepack"),
    *("difftool.evil.cmd", "mergetool.evil.cmd", "hook.evil.command"),
)


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def program(tmp_path: Path, marks: Path, name: str) -> str:
    """A program that leaves a mark and passes its input through."""
    path = tmp_path / "programs" / re.sub(r"\W", "-", name)
    put(path.parent, path.name, f"#!/bin/sh\ntouch {marks}/{path.name}\ncat\n")
    path.chmod(0o755)
    return str(path)


def plant(repo: Path, tmp_path: Path, marks: Path) -> None:
    """Everything at once, partly behind an include."""
    for hook in HOOKS:
        put(repo / ".git/hooks", hook, f"#!/bin/sh\ntouch {marks}/{hook}\n")
        (repo / ".git/hooks" / hook).chmod(0o755)
    included = tmp_path / "included"
    for at, name in enumerate(PROGRAMS):
        where = ["--file", str(included)] if at % 2 else []
        git("config", *where, name, program(tmp_path, marks, name), cwd=repo)
    for name in ("status", "log", "commit", "mine"):
        git("config", f"alias.{name}", f"!{program(tmp_path, marks, 'alias-' + name)}", cwd=repo)
    for key, value in (
        ("include.path", str(included)),
        ("commit.gpgSign", "true"),
        ("tag.gpgSign", "true"),
        ("log.showSignature", "true"),
        ("filter.evil.required", "true"),
        ("hook.evil.event", "pre-commit"),
        ("core.hooksPath", str(repo / ".git/hooks")),
        ("submodule.recurse", "true"),
    ):
        git("config", key, value, cwd=repo)
    put(repo, ".gitattributes", "* filter=evil diff=evil merge=evil\n")
    put(repo / ".git/info", "attributes", "* filter=evil\n")


@pytest.fixture
def repo(project: Path, tmp_path: Path, marks: Path) -> Path:
    git("init", "-q", "-b", "main", cwd=project)
    put(project, "a", "1\n")
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "first", cwd=project)
    plant(project, tmp_path, marks)
    put(project, "a", "2\n")
    put(project, "new", "1\n")
    for mark in marks.iterdir():
        mark.unlink()
    git("config", "core.untrackedCache", "true", cwd=project)
    return project


def test_plain_git_obeys_what_is_planted(repo, marks):
    """Else the other tests would show nothing."""
    subprocess.run(["git", "add", "-A"], cwd=repo, capture_output=True, check=False)
    subprocess.run(["git", "commit", "-m", "x"], cwd=repo, capture_output=True, check=False)
    subprocess.run(["git", "diff", "HEAD"], cwd=repo, capture_output=True, check=False)
    assert {mark.name for mark in marks.iterdir()} >= {"filter-evil-process", "core-fsmonitor"}


@pytest.mark.parametrize(
    "words",
    [
        ["status", "--porcelain=v1", "-z"],
        ["diff", "HEAD"],
        ["diff-index", "-p", "HEAD"],
        ["log", "-p", "--all"],
        ["show", "HEAD"],
        ["add", "-A"],
        ["hash-object", "-w", "a"],
        ["update-index", "--refresh"],
        ["checkout", "-f", "HEAD", "--", "a"],
        ["stash", "push", "-u"],
        ["reset", "--hard", "HEAD"],
        ["commit", "-a", "-m", "x"],
        ["tag", "-a", "-m", "x", "v1"],
        ["fetch", "origin"],
        ["gc", "--auto"],
        ["mine"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_no_command_of_ours_starts_a_program(repo, marks, words):
    git("config", "remote.origin.url", "ext::sh -c touch% " + str(marks) + "/transport", cwd=repo)
    run(str(repo), words)
    assert sorted(mark.name for mark in marks.iterdir()) == []


def test_a_commit_is_made_and_nothing_else_runs(repo, marks):
    made = commits.commit(str(repo), b"architect:checkpoint:step-1\n", lambda path, tracked: True)
    # Every file has a filter by attribute, so no file can be committed without running one: all are named.
    assert made.commit == ""
    assert set(made.left_out) == {b".gitattributes", b"a", b"new"}
    put(repo / ".git/info", "attributes", "")
    put(repo, ".gitattributes", "*.big filter=evil\n* diff=evil merge=evil\n")
    put(repo, "x.big", "1")
    made = commits.commit(str(repo), b"architect:checkpoint:step-1\n", lambda path, tracked: True)
    assert set(made.files) == {b".gitattributes", b"a", b"new"}
    assert made.left_out == (b"x.big",)
    assert [found.commit for found in labels.checkpoint_commits(Git(str(repo)))] == [made.commit]
    assert labels.changed_since(Git(str(repo)), made.commit) == [(b"x.big", False)]
    assert sorted(mark.name for mark in marks.iterdir()) == []


def test_a_submodules_configuration_starts_nothing_either(project, tmp_path, marks):
    for place in (project, tmp_path / "inner"):
        git("init", "-q", "-b", "main", str(place))
        put(place, "x", "1")
        git("add", "-A", cwd=place)
        git("commit", "-q", "-m", "first", cwd=place)
    local = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}
    git("submodule", "add", "-q", str(tmp_path / "inner"), "sub", cwd=project, **local)
    git("commit", "-q", "-m", "submodule", cwd=project)
    nested = project / ".git/modules/sub"
    for key in ("core.fsmonitor", "filter.deep.clean"):
        git("config", "--file", str(nested / "config"), key, program(tmp_path, marks, "nested-" + key))
    put(nested / "info", "attributes", "* filter=deep\n")
    git("config", "--file", str(project / ".gitmodules"), "submodule.sub.ignore", "none")
    put(project, "sub/x", "2")
    made = commits.commit(str(project), b"x\n", lambda path, tracked: True)
    run(str(project), ["diff", "HEAD"])
    assert made.files == (b".gitmodules",)
    assert sorted(mark.name for mark in marks.iterdir()) == []
    git("status", cwd=project)
    assert {mark.name for mark in marks.iterdir()} >= {"nested-core-fsmonitor"}, "plain git obeys it"


@pytest.mark.skipif(not strace_works(), reason="strace cannot trace here")
def test_strace_sees_git_and_nothing_but_git(repo, tmp_path):
    """The same said by the kernel: every program that is started is git's own."""
    put(repo / ".git/info", "attributes", "")
    put(repo, ".gitattributes", "* diff=evil\n")
    code = (
        "import sys; from mulligan.committing import commits, labels; from mulligan.committing.commands import Git;"
        "made = commits.commit(sys.argv[1], b'architect:checkpoint:step-1\\n', lambda p, t: True); assert made.commit;"
        "labels.checkpoint_commits(Git(sys.argv[1])); labels.changed_since(Git(sys.argv[1]), made.commit)"
    )
    trace = tmp_path / "trace"
    subprocess.run(
        ["strace", "-f", "-e", "trace=execve", "-o", str(trace), sys.executable, "-c", code, str(repo)],
        env=plain_environment(),
        check=True,
    )
    started = {os.path.basename(name) for name in re.findall(r'execve\("([^"]+)".*= 0', trace.read_text())}
    assert started - {os.path.basename(sys.executable)} == {"git"}
