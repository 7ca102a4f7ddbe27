"""Several processes at one store: in containers that see other process numbers, and forked in the middle of a save."""

from __future__ import annotations

import multiprocessing
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import mulligan
import tools
from play import typed

APART = ["unshare", "--pid", "--fork", "--mount-proc"]
GUARD = """
import sys, mulligan
with mulligan.open(sys.argv[1]).guard("before"):
    print("open", flush=True)
    sys.stdin.read()
    raise SystemExit("the agent failed")
"""


def why_not_apart() -> str:
    """Why no process can be started that sees other process numbers; empty if one can."""
    if not shutil.which(APART[0]):
        return "unshare is missing"
    done = subprocess.run([*APART, "true"], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


@pytest.mark.skipif(bool(why_not_apart()), reason=f"{why_not_apart()}: THE TESTS WITH OTHER PROCESS NUMBERS DO NOT RUN")
def test_a_guards_checkpoint_is_safe_from_a_container_that_shares_the_store(project: Path) -> None:
    """There the number of the guard's process is nobody's; its checkpoint stays all the same, until the guard ends."""
    (project / "work").write_text("mine")
    command = [sys.executable, "-c", GUARD, project]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=tools.plain_environment()
    ) as guard:
        assert guard.stdin is not None and guard.stdout is not None
        guard.stdout.readline()
        for number in range(8):
            (project / "work").write_text(f"step {number}")
            done = tools.cli("save", "--kind", "automatic", cwd=project, prefix=APART)
            assert done.returncode == 0, done.stderr
        guard.stdin.close()
        guard.wait(60)
    assert (project / "work").read_text() == "mine"
    assert "before" not in typed(project, "save", "after")


def test_the_pin_of_a_killed_guard_does_not_stay(project: Path) -> None:
    (project / "work").write_text("mine")
    with subprocess.Popen(
        [sys.executable, "-c", GUARD, project], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=tools.plain_environment(),
    ) as guard:  # fmt: skip
        assert guard.stdout is not None
        guard.stdout.readline()
        guard.kill()
    for number in range(8):
        (project / "work").write_text(f"step {number}")
        typed(project, "save", "--kind", "automatic")
    assert "before" not in typed(project, "log")


def test_a_process_forked_during_a_save_does_not_keep_the_store(project: Path) -> None:
    """As multiprocessing forks, from another thread: the child has a copy of the lock, and lives on."""
    for number in range(400):
        (project / f"file{number}").write_text(f"{number}\n" * 50)
    ws = mulligan.open(project)
    ws.save("first")
    for number in range(400):
        (project / f"file{number}").write_text(f"{number} again\n" * 50)
    fork, over, children = multiprocessing.get_context("fork"), threading.Event(), []

    def forks() -> None:
        while not over.is_set() and len(children) < 60:
            child = fork.Process(target=time.sleep, args=(60,), daemon=True)
            child.start()
            children.append(child)
            time.sleep(0.003)

    thread = threading.Thread(target=forks)
    thread.start()
    try:
        ws.save("while others fork")
        over.set()
        thread.join()
        (project / "file0").write_text("later")
        assert "saved" in typed(project, "--wait", "0.3", "save", "by another process")
    finally:
        ws.close()
        over.set()
        thread.join()
        for child in children:
            child.kill()
            child.join()
