"""The small version of `sharers.py`, and the proof that it means something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from sharers import why_not_apart

from tools import plain_environment, sweep

SCRIPT = Path(__file__).parent / "sharers.py"
NO_CONTAINERS = f"{why_not_apart()}: THE SCENES WITH CONTAINERS DO NOT RUN"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script."""
    command = [sys.executable, SCRIPT, *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


def scene(name: str, *more: str) -> object:
    """A scene, skipped loudly where it cannot be played."""
    marks = [pytest.mark.skipif(bool(why_not_apart()), reason=NO_CONTAINERS)] if name == "containers" else []
    return pytest.param(name, *more, marks=marks)


@pytest.mark.parametrize("name", [scene("forks"), scene("containers"), scene("names")])
def test_sharers_of_a_store_do_each_other_no_harm(name: str) -> None:
    done = run("--scene", name, "--size", str(sweep(2)))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "build"),
    [scene("forks", "closes-only"), scene("containers", "pins-by-process"), scene("names", "counts-packs")],
)
def test_a_build_that_harms_sharers_is_caught(name: str, build: str) -> None:
    done = run("--scene", name, "--build", build, "--size", "10", "--enough", "1")
    assert (done.returncode, "BROKEN" in done.stdout) == (1, True), done.stdout + done.stderr
