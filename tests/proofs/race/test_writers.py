"""The small version of the writers; `writers.py` beside it is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import plain_environment, sweep

SCRIPT = Path(__file__).parent / "writers.py"


def written(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script."""
    command = [sys.executable, SCRIPT, "--seed", "1", *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("mode", "size"), [("storm", 4000), ("hot", 60)])
def test_every_stored_file_is_a_state_that_existed(mode, size):
    """Reliability row 19, small: none torn, none older than the save, none absent in silence."""
    done = written("--mode", mode, "--size", str(sweep(size)))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("build", ["impatient", "once"])
def test_a_build_that_reads_in_the_middle_of_a_write_is_caught(build):
    """Reliability row 56: equal stat fields before and after prove nothing while a write is under way."""
    done = written("--mode", "hot", "--size", "100000", "--build", build, "--enough", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "is torn" in done.stdout
