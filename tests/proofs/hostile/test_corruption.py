"""The small version of the sweep of damages; `corruption.py` beside it is the long one."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import mulligan
from tools import plain_environment, sweep
from tree import put

SCRIPT = Path(__file__).parent / "corruption.py"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script."""
    command = [sys.executable, SCRIPT, *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


def test_a_flipped_bit_a_cut_or_a_swapped_file_is_found_or_without_effect():
    """Reliability rows 24 to 26, sampled."""
    done = run("--size", str(sweep(400)), "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_check_that_believes_the_timeline_is_noticed():
    """Otherwise the zeros would mean nothing."""
    done = run("--size", "600", "--seed", "1", "--build", "no-seals", "--enough", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout


def test_a_check_that_does_not_hash_what_it_reads_is_noticed():
    done = run("--size", "600", "--seed", "1", "--build", "no-hashes", "--enough", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout


def test_a_damaged_log_of_the_timeline_costs_no_checkpoint(project, store, tmp_path):
    """SQLite ends such a log at the first bit that is wrong, without a word; the references know what it cost."""
    ws = mulligan.open(project, store=store)
    names = []
    for number in range(4):
        put(project, "f", str(number))
        names.append(ws.save(f"n{number}").id)
    killed = shutil.copytree(store, tmp_path / "killed")  # as a process leaves it that is killed now
    ws.close()
    log = killed / "timeline.db-wal"
    whole, chance = log.read_bytes(), random.Random(3)
    assert len(whole) > 10_000
    for _ in range(sweep(25)):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(killed, copy)
        raw = bytearray(whole)
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        (copy / log.name).write_bytes(raw)
        with mulligan.open(project, store=copy) as damaged:
            try:
                told = {cp.id for cp in damaged.log()}
                fine = damaged.check().ok
            except mulligan.StoreDamaged:
                told, fine = set(), False
            assert fine == (told == set(names))
            assert damaged.doctor().ok
            assert {cp.id for cp in damaged.log()} == set(names)
            assert [damaged.cat(name, "f") for name in names] == [b"0", b"1", b"2", b"3"]
