"""The small versions of the crowds, `crowd.py` and `gc_race.py` beside it, and what they found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import plain_environment, sweep
from tree import put

HERE = Path(__file__).parent


def crowd(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs one of the scripts."""
    command = [sys.executable, HERE / script, "--seed", "1", *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("workers", "size"), [(2, 60), (8, 80), (32, 64)])
def test_nothing_acknowledged_is_lost_and_history_is_one_line(workers, size):
    """Reliability row 18, small."""
    done = crowd("crowd.py", "--workers", str(workers), "--size", str(sweep(size)))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("build", ["unlocked", "stale"])
def test_a_build_that_loses_saves_among_many_is_caught(build):
    """Reliability row 56."""
    done = crowd("crowd.py", "--workers", "4", "--size", "2000", "--build", build, "--enough", "1")
    assert done.returncode == 1, done.stdout + done.stderr


@pytest.mark.parametrize("kills", [[], ["--kills"]], ids=["undisturbed", "killed"])
def test_freeing_disk_takes_nothing_from_anybody(kills):
    """Reliability row 21, small."""
    done = crowd("gc_race.py", "--size", str(sweep(4 if kills else 10)), *kills)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_build_that_frees_disk_under_the_feet_of_others_is_caught():
    """Reliability row 56."""
    done = crowd("gc_race.py", "--size", "2000", "--build", "unlocked", "--enough", "1")
    assert done.returncode == 1, done.stdout + done.stderr


def test_what_another_process_is_doing_is_not_taken_for_damage(ws, project, store):
    """A reference that is not there yet at the first look and is at the second was never missing; one that stays away is."""
    put(project, "a", "1")
    ref = store / "refs" / "checkpoints" / ws.save("one").id
    ws.save("two")  # from now on the timeline does not owe the first one any more
    away, looks = store.parent / "away", []

    def comes_and_goes(done: int, _all: int) -> None:
        if done == 1:  # of the packs, in this look
            looks.append(1)
            ref.rename(away) if len(looks) == 1 else away.rename(ref)

    assert ws.check(comes_and_goes).problems == ()
    assert len(looks) == 2
    ref.rename(away)
    assert [(problem.kind, problem.subject) for problem in ws.check().problems] == [("ref", ref.name)]
