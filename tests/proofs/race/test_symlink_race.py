"""The small version of the symlink races; `symlink_race.py` beside it is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import plain_environment, sweep

SCRIPT = Path(__file__).parent / "symlink_race.py"
CANNOT = 77


def race(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script, or skips where names cannot be exchanged."""
    command = [sys.executable, SCRIPT, "--seed", "1", *options]
    done = subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)
    if done.returncode == CANNOT:
        pytest.skip(done.stderr)
    return done


@pytest.mark.parametrize(("mode", "size"), [("executor", 5000), ("capture", 8000), ("engine", 400)])
def test_nothing_outside_is_opened_while_names_are_swapped(mode, size):
    """Reliability row 29, small: the executor alone, a scan alone, and both through the front door."""
    done = race("--mode", mode, "--size", str(sweep(size)))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("build", "mode"),
    [
        ("follows", "executor"),
        ("lstat", "executor"),
        ("realpath", "executor"),
        ("in-place", "executor"),
        ("follows", "capture"),
        ("lstat", "capture"),
        ("realpath", "capture"),
    ],
)
def test_a_build_that_can_be_led_outside_is_caught(build, mode):
    """Reliability row 56: a look before the open is no defence, and this harness shows it."""
    done = race("--mode", mode, "--size", "200000", "--build", build, "--enough", "3")
    assert done.returncode == 1, done.stdout + done.stderr
