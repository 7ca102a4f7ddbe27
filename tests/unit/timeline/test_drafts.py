"""From a scan to a checkpoint: what counts as changed, what as hidden, and that a kill leaves none or a whole one."""

from __future__ import annotations

import pytest

import mulligan
from checker import judge, refs
from faults import Counting
from mulligan.safefs.syscalls import using
from mulligan.scan import walk
from mulligan.settings import resolve
from mulligan.timeline.store import Store
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
    numbers, moved_since = iter(range(99)), walk.moved_since

    def moved(*seen):
        put(project, f"new{next(numbers)}", "x")
        return moved_since(*seen)

    monkeypatch.setattr(walk, "moved_since", moved)
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

    def die(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "place_ref", die)
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


def test_a_ref_that_went_with_the_power_is_no_damage_and_the_next_writer_puts_it_back(ws, project, store):
    for number in range(3):
        put(project, "f", str(number))
        last = ws.save(f"number {number}")
    ws.close()
    before = refs(store)
    (store / "refs/checkpoints" / last.id).unlink()
    with mulligan.open(project, store=store) as other:
        assert len(other.log()) == 3 and other.check().ok and len(refs(store)) == 2
        other.prune()
        assert refs(store) == before and judge(store, project) == []
        for name in before:
            (store / "refs/checkpoints" / name).unlink()
        assert other.doctor().ok
    assert refs(store) == before and judge(store, project) == []


def test_a_checkpoint_whose_ref_went_with_the_power_can_be_deleted_and_does_not_come_back(ws, project, store):
    put(project, "f", "1")
    ws.save("one")
    put(project, "f", "2")
    gone = ws.save("two")
    (store / "refs/checkpoints" / gone.id).unlink()
    ws.delete(gone)
    ws.close()
    with mulligan.open(project, store=store) as other:
        other.save("three")
        assert [cp.name for cp in other.log()] == ["three", "one"]
    assert len(refs(store)) == 2 and judge(store, project) == []


def test_the_ref_of_an_expired_checkpoint_that_is_back_after_a_power_cut_is_removed_by_the_next_writer(project, store):
    def open_again():
        settings = resolve(project, store=store)
        return mulligan.Workspace(settings._replace(retention=settings.retention._replace(step=2)))

    with open_again() as ws:
        for number in range(6):
            put(project, "f", str(number))
            before = {path.name: path.read_bytes() for path in (store / "refs/checkpoints").glob("*")}
            ws.save(kind="step")
        kept = refs(store)
    for name, value in before.items():
        (store / "refs/checkpoints" / name).write_bytes(value)
    with open_again() as ws:
        ws.update_note("n", lambda _: 1)
    assert before.keys() - kept.keys() and refs(store) == kept and judge(store, project) == []


def test_each_ref_is_durable_before_a_save_returns_and_before_the_timeline_forgets_it(ws, project, store):
    ws.save()
    for number in range(5):
        put(project, "f", str(number))
        with using(Counting()) as calls:
            ws.save()
        owed = len(ws.bench.store.database.rows("SELECT 1 FROM fresh_ref"))
        # Pack, index and the bytes of the ref, then the names of the packs and of the ref; SQLite waits on its own.
        assert owed == 1 and calls.seen.count("fsync") == 5
    ws.close()
    assert len(refs(store)) == 6 and judge(store, project) == []


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
