"""The small version of the kill sweep; `kill_sweep.py` beside it is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import plain_environment, strace_works, sweep

SCRIPT = Path(__file__).parent / "kill_sweep.py"


@pytest.mark.skipif(not strace_works(), reason="strace is not here or may not trace: kills cannot be placed")
@pytest.mark.parametrize("verb", ["save", "restore", "undo", "gc"])
def test_a_kill_at_any_call_costs_nothing_that_was_acknowledged(verb):
    """Reliability row 1, sampled."""
    done = subprocess.run(
        [sys.executable, SCRIPT, "--verb", verb, "--trials", str(sweep(10)), "--seed", "1"],
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
