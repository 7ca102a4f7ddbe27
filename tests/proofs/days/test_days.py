"""Random days in small: `days.py` beside this file plays them, and a ledger judges every undo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import plain_environment, sweep

SCRIPT = Path(__file__).parent / "days.py"
BUILDS = (
    "claims-everything", "always-complete", "ignores-paths", "dry-runs-for-real", "any-session", "secrets-in-the-clear",
)  # fmt: skip


def days(*options: str) -> subprocess.CompletedProcess[str]:
    """Plays some days."""
    command = [sys.executable, SCRIPT, *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


def test_every_undo_of_a_random_day_is_right_complete_and_says_so():
    done = days("--size", str(sweep(2)), "--seed", "100", "--steps", "25")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("build", BUILDS)
def test_a_build_that_undoes_wrongly_is_caught(build):
    done = days("--size", "24", "--build", build, "--enough", "1")
    assert done.returncode == 1, done.stdout + done.stderr
