"""Every known-bad build is caught by the sweep that is said to catch it; the list names every build that there is."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from honesty import BAD, Bad, caught

import proof
from gate import NO_GATE, gate_works
from tools import plain_environment

#: Sweeps whose bad builds have no other tests.
HERE = ("kills", "kills-random")
GOOD = frozenset({"good", "real", ""})
SCRIPTS = sorted({each.script for each in proof.PROOFS} - {"honesty.py"})


@pytest.mark.skipif(not gate_works(), reason=NO_GATE)
@pytest.mark.parametrize("bad", [bad for bad in BAD if bad.sweep in HERE], ids=lambda bad: bad.name)
def test_a_bad_build_is_caught_within_a_minute(bad: Bad) -> None:
    assert caught(bad, 1) == ""


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_build_of_a_sweep_is_in_the_list(script: str) -> None:
    command = [sys.executable, proof.FOLDER / script, "--build", "?"]
    done = subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)
    said = re.search(r"choose from (.*)\)", done.stderr)
    there = {word.strip("'\" ") for word in said[1].split(",")} - GOOD if said else set()
    listed = {bad.build for bad in BAD if _script(bad) == script}
    assert listed <= there
    # One module of builds may serve several sweeps: it is enough that one of them is said to catch it.
    assert there <= {bad.build for bad in BAD}


def _script(bad: Bad) -> str:
    return next(each.script for each in proof.PROOFS if each.name == bad.sweep)


def test_every_sweep_that_is_said_to_catch_something_is_there() -> None:
    assert {bad.sweep for bad in BAD} <= {each.name for each in proof.PROOFS}
    assert len({bad.name for bad in BAD}) == len(BAD)
