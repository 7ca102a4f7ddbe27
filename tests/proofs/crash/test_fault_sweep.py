"""The small version of the sweep of failing calls; `fault_sweep.py` beside it is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import plain_environment, sweep

SCRIPT = Path(__file__).parent / "fault_sweep.py"
BUILDS = ("ignores-fsync", "repeats-fsync", "leaves-temporaries", "leaks-descriptors", "python-errors", "writes-short")


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script."""
    command = [sys.executable, SCRIPT, *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


def test_a_failing_call_of_any_operation_costs_nothing_that_was_acknowledged():
    """Reliability rows 11 and 12, sampled."""
    done = run("--trials", str(sweep(4)), "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("build", BUILDS)
def test_an_engine_that_meets_failures_in_a_wrong_way_is_noticed(build):
    """Otherwise the zeros would mean nothing."""
    # Short reads and writes are one trial, the last of an operation.
    trials = "20" if build == "writes-short" else "400"
    done = run("--trials", trials, "--first", "--operation", "restore", "--operation", "save-second", "--build", build)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout


@pytest.mark.parametrize("code", ["EIO", "EACCES"])
def test_ignore_rules_that_cannot_be_read_are_listed(code):
    """A checkpoint that holds more than the rules allow does not call itself whole."""
    done = run("--errno", code, "--operation", "save-first")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_failing_call_while_git_is_moved_leaves_no_lock_of_ours():
    """A repository that cannot be opened for a moment is not taken for one that is gone."""
    done = run("--errno", "EIO", "--trials", str(sweep(24)), "--operation", "restore-git", "--operation", "undo-git")
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_adoption_and_a_doctor_that_were_refused_a_step_can_be_repeated():
    done = run("--trials", str(sweep(40)), "--operation", "adopt", "--operation", "doctor-timeline")
    assert done.returncode == 0, done.stdout + done.stderr
