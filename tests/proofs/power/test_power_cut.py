"""
The small version of the power cuts, and the proofs that they mean something; `power_cut.py` beside it is the long one.

Reliability rows 3 to 6 and 8, sampled, and 56: each known-bad build does its work well while there is power, and is caught
when there is none.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from bad_power_builds import BUILDS, shown_by
from disks import KINDS, why_not

from tools import plain_environment, sweep

SCRIPT = Path(__file__).parent / "power_cut.py"
#: Cuts of each mode in CI; each has a process at work, a cut, a judge and the next command.
SMALL = {"acknowledged": 8, "inside": 12, "nested": 8}


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script."""
    command = [sys.executable, SCRIPT, *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


def needs(kind: str) -> pytest.MarkDecorator:
    """Skips, loudly, where such a disk cannot be had."""
    return pytest.mark.skipif(bool(why_not(kind)), reason=f"{why_not(kind)}: THE POWER CUTS ON {kind} DO NOT RUN")


DISKS = [pytest.param(kind, marks=needs(kind)) for kind in KINDS]


@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("mode", SMALL)
def test_a_power_cut_loses_nothing_that_was_acknowledged(mode: str, disk: str) -> None:
    done = run("--mode", mode, "--disk", disk, "--size", str(sweep(SMALL[mode] // (1 + (disk == "xfs")))))
    assert done.returncode == 0, done.stdout + done.stderr


@needs("ext4")
@pytest.mark.parametrize("mode", ["inside", "acknowledged"])
def test_a_power_cut_loses_nothing_that_was_taken_over_from_git(mode: str) -> None:
    """The first checkpoint of a clean repository, whose objects were copied."""
    done = run("--mode", mode, "--subject", "mulligan-adopting", "--size", str(sweep(6)))
    assert done.returncode == 0, done.stdout + done.stderr


@needs("ext4")
@pytest.mark.parametrize("mode", ["inside", "acknowledged"])
def test_a_power_cut_loses_nothing_of_a_restore_of_hundreds_of_files(mode: str) -> None:
    """The last look and the reading of notices happen while the disk confirms."""
    done = run("--mode", mode, "--subject", "mulligan-crowds", "--size", str(sweep(5)))
    assert done.returncode == 0, done.stdout + done.stderr


@needs("ext4")
def test_what_was_acknowledged_is_there_when_the_power_goes_seconds_later() -> None:
    done = run("--mode", "later", "--size", str(sweep(8)), "--longest", "4")
    assert done.returncode == 0, done.stdout + done.stderr


@needs("ext4")
@pytest.mark.parametrize("build", [name for name in BUILDS if name != "good"])
def test_a_build_that_does_not_make_things_durable_is_caught_by_a_few_cuts(build: str) -> None:
    """Within a minute, on any machine that can cut at all."""
    done = run("--build", build, "--size", "30", "--enough", "1", *shown_by(build))
    assert (done.returncode, "BROKEN" in done.stdout) == (1, True), done.stdout + done.stderr


@needs("ext4")
def test_the_same_cuts_lose_the_commits_of_plain_git() -> None:
    """What the zeros are compared with: git's own defaults confirm no name of a file."""
    done = run("--subject", "shadow-git", "--size", "3")
    assert (done.returncode, "lost" in done.stdout) == (1, True), done.stdout + done.stderr
