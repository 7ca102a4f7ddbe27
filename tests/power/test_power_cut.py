"""The small version of the power cuts; `power_cut.py` beside it is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import loop_mounts_work, plain_environment, sweep

SCRIPT = Path(__file__).parent / "power_cut.py"


NO_FSYNC = """
import os
os.fsync = os.fdatasync = lambda handle: None
"""
needs_power = pytest.mark.skipif(
    not loop_mounts_work(), reason="no root, no loop mounts or no mkfs.ext4: the power cannot be cut"
)


@needs_power
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


@needs_power
def test_a_build_without_fsync_is_caught(tmp_path):
    """Reliability row 56: zeros mean something only if this one is not zero."""
    (tmp_path / "sitecustomize.py").write_text(NO_FSYNC)
    done = subprocess.run(
        [sys.executable, SCRIPT, "--trials", "2", "--seed", "1"],
        env=plain_environment(PYTHONPATH=f"{tmp_path}:{plain_environment()['PYTHONPATH']}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "LOST" in done.stdout
