"""
A workspace in which everything is planted that a repository can hold, three levels deep, and every command and verb run in it.

The kernel says what happened: one program was started, the interpreter itself, and nothing outside workspace and store was
opened for writing, made, renamed or removed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from check_trace import CHANGING, changed_outside
from tools import git, plain_environment, strace_works
from tree import put, snapshot

DRIVER = Path(__file__).parent / "everything.py"
TRAP = "#!/bin/sh\ntouch {canary}\ncat\n"
HOOKS = (
    "pre-commit post-checkout post-index-change post-commit reference-transaction fsmonitor-watchman pre-auto-gc"
    " post-merge pre-push"
)


def plant(git_dir: Path, tmp_path: Path) -> None:
    """Every setting of a repository that makes git run something or look elsewhere."""
    trap = put(tmp_path, "trap", TRAP.format(canary=tmp_path / "canary"), perm=0o755)
    for hook in HOOKS.split():
        put(git_dir, f"hooks/{hook}", TRAP.format(canary=tmp_path / "canary"), perm=0o755)
    with (git_dir / "config").open("a") as file:
        file.write(
            f"[core]\n\tfsmonitor = {trap}\n\tpager = {trap}\n\teditor = {trap}\n\tsshCommand = {trap}\n"
            f"\thooksPath = {git_dir}/hooks\n\texcludesFile = {tmp_path}/outside/excludes\n\tattributesFile = {tmp_path}/x\n"
            f'[diff "x"]\n\ttextconv = {trap}\n\tcommand = {trap}\n[filter "x"]\n\tclean = {trap}\n\tsmudge = {trap}\n'
            f"\tprocess = {trap}\n\trequired = true\n[diff]\n\texternal = {trap}\n[gpg]\n\tprogram = {trap}\n"
            f"[commit]\n\tgpgsign = true\n[include]\n\tpath = {tmp_path}/outside/more\n[credential]\n\thelper = !{trap}\n"
            f"[alias]\n\tstatus = !{trap}\n\tlog = !{trap}\n[uploadpack]\n\tpackObjectsHook = {trap}\n"
        )
    put(git_dir, "objects/info/alternates", f"{tmp_path}/outside/objects\n")
    put(git_dir, "info/attributes", "* filter=x diff=x\n")


@pytest.fixture
def hostile(project: Path, tmp_path: Path) -> Path:
    """The workspace: a repository with nested ones to depth three, a bare one, and a gitfile that points away."""
    for folder in ("", "n1", "n1/n2", "n1/n2/n3"):
        place = project / folder
        git("init", "-q", "-b", "main", str(place))
        put(place, "a", "1\n")
        put(place, ".gitattributes", "* filter=x diff=x merge=x\n")
        git("add", "a", ".gitattributes", cwd=place)
        git("commit", "-q", "-m", "first", cwd=place)
    git("init", "-q", "--bare", str(project / "bare"))
    git("init", "-q", str(tmp_path / "outside"))
    put(project, "away/.git", f"gitdir: {tmp_path}/outside/.git\n")
    put(project, "away/code", "1\n")
    put(project, "up/.git", "gitdir: ../../outside/.git\n")
    put(project, "deep/secret.txt", "to be forgotten\n")
    put(
        project,
        ".gitmodules",
        f'[submodule "x"]\n\tpath = n1\n\turl = ext::sh -c "touch {tmp_path}/canary"\n\tupdate = !touch {tmp_path}/canary\n',
    )
    (project / "link").symlink_to(tmp_path / "outside")
    (project / "loop").symlink_to("loop")
    put(
        project,
        "mulligan.toml",
        f"store = '{tmp_path}/outside/store'\n[capture]\ninclude = ['../outside', '/etc', '.env']\nmax_file_size = '1 TiB'\n"
        "[retention]\nbudget = '1 KiB'\nmanual = 0\nautomatic = 0\n[run]\ncommand = 'touch canary'\n[hooks]\nsave = 'touch canary'\n",
    )
    put(project, "pyproject.toml", "[tool.mulligan.capture]\ninclude = ['**']\n[tool.mulligan.run]\ncommand = 'x'\n")
    for git_dir in (project / ".git", project / "n1/.git", project / "n1/n2/.git", project / "n1/n2/n3/.git"):
        plant(git_dir, tmp_path)
    plant(project / "bare", tmp_path)
    plant(tmp_path / "outside/.git", tmp_path)
    put(tmp_path, "moved/a", "1")
    return project


def test_every_command_and_verb_starts_nothing_and_writes_nowhere_else(hostile, store, tmp_path, private_home):
    """Reliability rows 35, 36 and invariant I7."""
    if not strace_works():
        pytest.skip("strace is not here or may not trace")
    watched = [hostile / "n1/.git", hostile / "n1/n2/.git", hostile / "n1/n2/n3/.git", tmp_path / "outside"]
    before = [snapshot(place) for place in watched]
    trace = tmp_path / "trace"
    done = subprocess.run(
        ["strace", "-f", "-y", "-qq", "-e", f"trace={CHANGING},execve,execveat,fork,vfork", "-o", trace, sys.executable]
        + [os.fspath(part) for part in (DRIVER, hostile, store, tmp_path / "moved")],
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = trace.read_text(errors="replace").splitlines()
    started = [line for line in lines if any(call in line for call in ("execve(", "execveat(", "vfork(", " fork("))]
    assert len(started) == 1, started
    allowed = [hostile, store, private_home / "xdg-state", tmp_path / "moved", tmp_path / "moved-away"]
    assert changed_outside(lines, allowed) == []
    assert len(lines) > 1000, "the trace is too short to be of all commands"
    assert not (tmp_path / "canary").exists()
    assert [snapshot(place) for place in watched] == before


def test_plain_git_would_have_run_what_is_planted(hostile, tmp_path):
    """Else the silence above would mean nothing."""
    subprocess.run(["git", "status"], cwd=hostile, capture_output=True, check=False)
    assert (tmp_path / "canary").exists()
