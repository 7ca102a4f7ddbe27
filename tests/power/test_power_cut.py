"""The small version of the power cuts; `power_cut.py` beside it is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import loop_mounts_work, plain_environment, sweep

SCRIPT = Path(__file__).parent / "power_cut.py"


@pytest.mark.skipif(not loop_mounts_work(), reason="no root, no loop mounts or no mkfs.ext4: the power cannot be cut")
@pytest.mark.parametrize("mode", ["acknowledged", "anytime"])
def test_a_power_cut_loses_nothing_that_was_acknowledged(mode):
    """Reliability rows 3 and 5, sampled."""
    done = subprocess.run(
        [sys.executable, SCRIPT, "--mode", mode, "--trials", str(sweep(8)), "--seed", "1"],
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
