"""The small versions of `hostile_stores.py` and `live_copy.py`, and each bound on its own."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import mulligan
from evil_packs import BLOB, TREE, oid, plant, tree, whole
from memory import Memory
from mulligan.diff import compare
from mulligan.diff.compare import compare_trees
from mulligan.model.objects import EMPTY_TREE
from mulligan.timeline import database
from seals import reseal
from stores import opened
from tools import plain_environment, sweep
from tree import put

HERE = Path(__file__).parent
#: Those of the corpus that take less than a second; `hostile_stores.py` without names runs all.
QUICK = (
    *("bomb", "lying_size", "endless_header", "delta_circle", "delta_on_itself", "delta_outside", "delta_bomb"),
    *("cyclic_tree", "odd_trees", "index_of_lies", "no_files", "config_of_lies", "wrong_types", "swallowed_pack"),
    *("a trigger", "a view without end", "another schema"),
)


def run(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs a script beside this file."""
    command = [sys.executable, HERE / script, *options]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


def test_stores_made_to_do_harm_end_in_an_error_of_ours_within_bounds():
    """Reliability row 27, the corpus."""
    done = run("hostile_stores.py", *(option for name in QUICK for option in ("--only", name)))
    assert done.returncode == 0, done.stdout + done.stderr


def test_mutated_stores_end_in_an_error_of_ours_within_bounds():
    """Reliability row 27, mutations."""
    done = run("hostile_stores.py", "--no-corpus", "--size", str(sweep(25)), "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_store_that_is_copied_while_it_is_used_is_whole_or_recognised():
    """Reliability row 22."""
    done = run("live_copy.py", "--size", str(sweep(5)), "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_value_longer_than_any_that_is_written_is_refused_before_it_is_read(ws, project, store, monkeypatch):
    put(project, "f", "1")
    ws.save("one", description="d" * 5000)
    ws.save("two")
    ws.close()
    monkeypatch.setattr(database, "LONGEST", 4096)
    with mulligan.open(project, store=store) as again:
        with pytest.raises(mulligan.StoreDamaged, match="too big"):
            again.log()
        assert not again.check().ok


def test_a_state_that_was_sealed_and_is_none_is_an_error_of_ours_and_found(ws, project, store):
    put(project, "f", "1")
    ws.save("one", state={"n": 1})
    ws.close()
    connection = sqlite3.connect(store / "timeline.db")
    with connection:
        connection.execute("UPDATE checkpoint SET state='{'")
    connection.close()
    reseal(store)
    with mulligan.open(project, store=store) as again:
        with pytest.raises(mulligan.StoreDamaged, match="state of checkpoint"):
            again.log()[0].to_dict()
        assert [problem.checkpoints for problem in again.check().problems] == [(again.log()[0].id,)]


def test_a_few_trees_that_hold_each_other_again_and_again_are_not_walked():
    memory = Memory()
    below = memory.tree({b"f": b"x"})
    for _ in range(40):
        below = memory.put(b"tree", tree((b"40000", b"a", below), (b"40000", b"b", below)))
    with pytest.raises(mulligan.StoreDamaged, match="more paths than any workspace"):
        compare_trees(memory.read_tree, EMPTY_TREE, below)
    assert len(set(memory.trees_read)) <= 41


def test_a_tree_that_is_deeper_than_any_path_is_not_walked_to_its_end():
    memory = Memory()
    below = EMPTY_TREE
    for _ in range(100_000):
        below = memory.put(b"tree", tree((b"40000", b"d", below)))
    with pytest.raises(mulligan.StoreDamaged, match="more paths than any workspace"):
        compare_trees(memory.read_tree, EMPTY_TREE, below)


def test_many_files_are_no_bomb(monkeypatch):
    monkeypatch.setattr(compare, "_ASK_PATHS", 100)
    memory = Memory()
    made = memory.tree({b"d%d/f%d" % (number % 7, number): b"x" for number in range(500)})
    assert len(compare_trees(memory.read_tree, EMPTY_TREE, made)) == 500


def test_a_large_object_under_a_false_name_is_hashed_before_it_is_held(tmp_path):
    blob = oid(BLOB, b"innocent")
    with opened(tmp_path / "store") as store:
        plant(tmp_path / "store", [whole(BLOB, bytes(100 << 20))], [blob])
        store.refresh()
        with pytest.raises(mulligan.StoreDamaged, match="do not hash"):
            store.read(blob, b"blob")
        assert store.readable(oid(TREE, b"")) is False
