"""The small version of `traversal.py` beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools import plain_environment, sweep

SCRIPT = Path(__file__).parent / "traversal.py"


def tried(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script."""
    command = [sys.executable, SCRIPT, "--seed", "1", *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


def test_evil_entries_are_refused_and_odd_ones_come_out_where_they_belong():
    """Reliability row 30, small: 0 is all of the 2,056."""
    done = tried("--size", str(sweep(80)))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_build_that_believes_a_tree_is_caught():
    """Reliability row 56."""
    done = tried("--size", "200", "--build", "credulous", "--enough", "1")
    assert done.returncode == 1, done.stdout + done.stderr
