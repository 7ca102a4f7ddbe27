"""The small version of the sweep of damages; `corruption.py` beside it is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools import plain_environment, sweep

SCRIPT = Path(__file__).parent / "corruption.py"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script."""
    command = [sys.executable, SCRIPT, *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


def test_a_flipped_bit_a_cut_or_a_swapped_file_is_found_or_without_effect():
    """Reliability rows 24 to 26, sampled."""
    done = run("--size", str(sweep(400)), "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_check_that_believes_the_timeline_is_noticed():
    """Otherwise the zeros would mean nothing."""
    done = run("--size", "600", "--seed", "1", "--build", "no-seals", "--enough", "3")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout


def test_a_check_that_does_not_hash_what_it_reads_is_noticed():
    done = run("--size", "600", "--seed", "1", "--build", "no-hashes", "--enough", "3")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout
