"""The small version of the kill sweep; `kill_sweep.py` beside it is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import plain_environment, strace_works, sweep

SCRIPT = Path(__file__).parent / "kill_sweep.py"


needs_strace = pytest.mark.skipif(
    not strace_works(), reason="strace is not here or may not trace: kills cannot be placed"
)


def run(*options: str) -> None:
    """Runs the script and insists that no invariant broke."""
    command = [sys.executable, SCRIPT, "--seed", "1", *options]
    done = subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_strace
@pytest.mark.parametrize("verb", ["save", "restore", "undo", "gc", "restore-git", "undo-git"])
def test_a_kill_at_any_call_costs_nothing_that_was_acknowledged(verb):
    """Reliability row 1, sampled."""
    run("--verb", verb, "--trials", str(sweep(12)))


@needs_strace
def test_a_kill_between_removing_and_making_directories_is_recovered():
    """Reliability row 10: the moment in a restore when the old directory is gone and the new one not yet there."""
    run("--verb", "restore", "--call", "mkdirat", "--call", "unlinkat", "--trials", str(sweep(20)))
