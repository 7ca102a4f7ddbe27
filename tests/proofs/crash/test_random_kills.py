"""The small version of the random kills; `random_kills.py` beside it is the long one (reliability rows 2 and 9)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools import plain_environment, sweep

SCRIPT = Path(__file__).parent / "random_kills.py"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script."""
    command = [sys.executable, SCRIPT, "--seed", "1", *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


def test_random_kills_under_load_lose_nothing_that_was_acknowledged() -> None:
    done = run("--size", str(sweep(60)))
    assert done.returncode == 0, done.stdout + done.stderr
