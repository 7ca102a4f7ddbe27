"""The small versions of `mcp_fuzz.py` and `poisoned.py` beside this file, and servers that they must catch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import plain_environment, sweep

HERE = Path(__file__).parent
CANNOT = 77


def run(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs a sweep, or skips where it cannot run."""
    command = [sys.executable, HERE / script, "--seed", "1", *options]
    done = subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)
    if done.returncode == CANNOT:
        pytest.skip(done.stderr)
    return done


def test_malformed_messages_harm_nobody():
    """Reliability row 42, small."""
    done = run("mcp_fuzz.py", "--size", str(sweep(1500)))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_model_that_obeys_every_file_takes_nothing_from_history():
    """Reliability row 43, small."""
    done = run("poisoned.py", "--size", str(sweep(3)))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("build", ["unheld", "any-plan", "deletes"])
def test_a_server_that_gives_history_away_is_caught(build):
    done = run("poisoned.py", "--size", "5", "--enough", "1", "--build", build)
    assert done.returncode == 1, done.stdout + done.stderr
