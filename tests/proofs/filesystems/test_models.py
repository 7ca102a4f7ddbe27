"""The engine does on btrfs, xfs, tmpfs and overlayfs what it does on ext4; `models.py` is the long run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mounts import KINDS, why_not

from tools import plain_environment, sweep

SCRIPT = Path(__file__).parent / "models.py"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script."""
    command = [sys.executable, SCRIPT, *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


def needs(kind: str) -> pytest.MarkDecorator:
    """Skips, loudly, where such a file system cannot be mounted."""
    return pytest.mark.skipif(bool(why_not(kind)), reason=f"{why_not(kind)}: THE MODELS ON {kind} DO NOT RUN")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=needs(kind)) for kind in KINDS])
def test_the_models_hold_on_other_file_systems(kind: str) -> None:
    done = run("--disk", kind, "--size", str(sweep(6)))
    assert done.returncode == 0, done.stdout + done.stderr


@needs("btrfs")
@pytest.mark.parametrize("scene", ["late-names", "others-packs"])
def test_names_that_came_after_a_directory_was_opened_are_listed(scene: str) -> None:
    """Where a file system lists what was there when the directory was opened: in the workspace, and among the packs."""
    done = run("--disk", "btrfs", "--scene", scene, "--size", str(sweep(10)))
    assert done.returncode == 0, done.stdout + done.stderr


@needs("btrfs")
def test_a_build_that_does_not_rewind_is_caught() -> None:
    done = run("--disk", "btrfs", "--build", "never-rewinds", "--size", "20", "--enough", "1")
    assert (done.returncode, "BROKEN" in done.stdout) == (1, True), done.stdout + done.stderr


@needs("seconds")
@pytest.mark.parametrize(
    ("build", "scene"), [("trusts-whole-seconds", "edited-twice"), ("reads-within-a-second", "written-while-read")]
)
def test_a_build_that_believes_whole_seconds_is_caught(build: str, scene: str) -> None:
    done = run("--disk", "seconds", "--build", build, "--scene", scene, "--size", "40", "--enough", "1")
    assert (done.returncode, "BROKEN" in done.stdout) == (1, True), done.stdout + done.stderr
