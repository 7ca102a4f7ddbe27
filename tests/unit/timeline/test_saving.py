"""From a scan to a checkpoint: what counts as changed, what as hidden, and that a kill leaves none or a whole one."""

from __future__ import annotations

import pytest

import mulligan
from checker import judge, refs
from mulligan.scan import walk
from mulligan.timeline.vault import Vault
from tree import put


def test_a_rule_that_hides_what_was_captured_makes_the_checkpoint_partial_and_says_which(ws, project):
    for path in ("a.log", "logs/b", "c"):
        put(project, path, "x")
    ws.save("one")
    put(project, ".gitignore", "*.log\nlogs/\n")
    (project / "c").unlink()
    cp = ws.save("two")
    assert not cp.complete and cp.files_changed == (".gitignore", "c")
    assert {row.path: row.reason for row in cp.not_captured} == {"a.log": "newly ignored", "logs": "newly ignored"}
    assert ws.save("three").complete


def test_nothing_changed_means_permissions_too(ws, project):
    put(project, "f", "x")
    ws.save("one")
    assert ws.save(if_changed=True) is None
    (project / "f").chmod(0o600)
    assert ws.save(if_changed=True).files_changed == ("f",)


def test_a_directory_that_would_not_hold_still_hides_nothing_below_its_own_entries(ws, project, monkeypatch):
    """Only what is directly in it is uncertain: what was deleted deeper down is deleted, and comes back."""
    put(project, "deep/down/f", "gone")
    put(project, "top", "x")
    first = ws.save("one")
    (project / "deep/down/f").unlink()
    numbers, looked_again = iter(range(99)), walk.Scanner._restless

    def restless(scanner):
        put(project, f"new{next(numbers)}", "x")
        return looked_again(scanner)

    monkeypatch.setattr(walk.Scanner, "_restless", restless)
    cp = ws.save("two")
    monkeypatch.undo()
    assert not cp.complete and [row.path for row in cp.not_captured] == ["."]
    assert "deep/down/f" in cp.files_changed
    assert ws.diff("one", "two").deleted == ["deep/down/f"]
    ws.restore(first)
    assert (project / "deep/down/f").exists()


def test_a_process_that_dies_before_its_ref_is_completed_by_the_next(ws, project, store, monkeypatch):
    put(project, "f", "1")
    ws.save("one")

    def die(_vault):
        raise KeyboardInterrupt

    monkeypatch.setattr(Vault, "settle", die)
    put(project, "f", "2")
    with pytest.raises(KeyboardInterrupt):
        ws.save("two", kind="step")
    monkeypatch.undo()
    ws.close()
    other = mulligan.open(project, store=store)
    assert [cp.name for cp in other.log()] == ["two", "one"] and len(refs(store)) == 1
    other.save("three")
    other.close()
    assert len(refs(store)) == 3 and judge(store, project) == []


def test_nothing_changed_where_the_cache_was_lost_although_other_permissions_became_usual(ws, project):
    put(project, "f", "x")
    put(project, "secret", "y")
    ws.save("one")
    for number in range(9):
        put(project, f"p{number}", "x", perm=0o600)
    ws.save("two")
    ws.forget("secret")
    (project / "secret").unlink()
    ws.close()
    assert ws.save(if_changed=True) is None
