"""
The small version of the kill sweep, and the proofs that it means something; `kill_sweep.py` beside it is the long one.

Reliability rows 1, 8, 10 and 17, sampled, and 56: each known-bad build does its work well when nobody kills it, and is
caught when somebody does.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kill_operations import KILLED

from gate import NO_GATE, gate_works
from tools import plain_environment, strace_works, sweep

SCRIPT = Path(__file__).parent / "kill_sweep.py"
GROUPS = 4
needs_gate = pytest.mark.skipif(not gate_works(), reason=f"{NO_GATE}: THE KILL SWEEPS DO NOT RUN")
needs_strace = pytest.mark.skipif(
    not strace_works(), reason="strace is not here or may not trace: kills of the command line cannot be placed"
)


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script."""
    command = [sys.executable, SCRIPT, "--seed", "1", *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


def expect_clean(*options: str) -> None:
    """Runs the script and insists that no invariant broke."""
    done = run(*options)
    assert done.returncode == 0, done.stdout + done.stderr


def named(operations: list[str]) -> list[str]:
    """The options that name some operations."""
    return [word for name in operations for word in ("--operation", name)]


@needs_gate
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_kill_at_any_call_costs_nothing_that_was_acknowledged(group: int) -> None:
    expect_clean(*named(list(KILLED)[group::GROUPS]), "--size", str(sweep(2)))


@needs_gate
def test_a_restore_of_a_thousand_files_is_finished_or_taken_back() -> None:
    expect_clean("--operation", "restore-1000", "--size", str(sweep(2)))


@needs_gate
def test_a_kill_of_the_command_after_a_kill_changes_nothing_about_that() -> None:
    deep = named(["restore", "restore-kinds", "restore-git", "undo", "gc", "forget"])
    expect_clean(*deep, "--depth", "3", "--size", str(sweep(5)))


@needs_gate
@needs_strace
def test_the_command_line_is_killed_as_well_as_the_library() -> None:
    expect_clean("--how", "strace", "--size", str(sweep(1)))
