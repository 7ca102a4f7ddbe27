"""What check finds and doctor mends: nothing that can be read is lost for it."""

from __future__ import annotations

import os
import shutil

import pytest

import mulligan
from checker import judge
from mulligan.doctor import check as checking
from mulligan.doctor.check import look
from mulligan.model.policy import Retention
from mulligan.timeline.checkpoints import Checkpoints
from scans import settings_for
from tree import put


def lines(ws: mulligan.Workspace) -> list[tuple[object, ...]]:
    """Everything the log says of each checkpoint."""
    return [(cp.to_dict(), cp.files_changed, cp.not_captured) for cp in ws.log()]


@pytest.fixture
def history(ws, project):
    """Checkpoints of several kinds, with a deleted one in between, permission bits, state and odd names."""
    put(project, ".env", "secret")
    for number, kind in enumerate(["manual", "step", "step", "session", "manual"]):
        put(project, f"f{number}", str(number))
        ws.save(
            f"n{number}\udcff\n",
            kind=kind,
            description="d",
            context={"k": number},
            state={"s": "x" * 20_000},
            metadata={"m": 1},
        )
    (project / "f1").chmod(0o600)
    ws.save("mode")
    (project / "f2").unlink()
    ws.restore("mode")
    ws.delete(ws.log()[3].id)
    return ws


def test_a_lost_timeline_is_rebuilt_as_it_was(history, project, store):
    before, position = lines(history), history.position()
    history.close()
    (store / "timeline.db").unlink()
    with pytest.raises(mulligan.StoreDamaged):
        history.log()
    assert history.doctor().ok
    assert (lines(history), history.position()) == (before, position)
    history.close()
    assert judge(store, project) == []


@pytest.mark.parametrize("content", [b"", b"garbage" * 999])
def test_a_timeline_that_cannot_be_read_is_rebuilt_and_kept_aside(history, store, content):
    before = lines(history)
    history.close()
    for number in (1, 2):
        (store / "timeline.db").write_bytes(content)
        assert history.doctor().ok
        assert lines(history) == before
        history.close()
        assert (store / f"timeline.db.damaged-{number}").exists()
    assert judge(store) == []


def test_a_clock_that_was_set_back_does_not_put_children_before_their_parents(project, store):
    times = iter([5, 9, 2, 3, 1, 8])
    settings = settings_for(project)
    ws = mulligan.Workspace(settings, now_ns=lambda: now)
    for now in (seconds * 10**9 for seconds in times):
        put(project, "f", str(now))
        ws.save(str(now))
    before = lines(ws)
    ws.close()
    (store / "timeline.db").unlink()
    ws.doctor()
    assert lines(ws) == before


def test_the_position_after_a_rebuild_is_no_safety_checkpoint(ws, project, store):
    put(project, "f", "1")
    ws.save("one")
    put(project, "f", "2")
    ws.save("two")
    put(project, "f", "3")
    ws.restore("one")
    ws.close()
    (store / "timeline.db").unlink()
    ws.doctor()
    assert ws.get("@").name == "two" and ws.log()[0].kind == "safety"


def test_checkpoints_that_only_the_repository_knows_are_taken_in_with_their_changes(ws, project, store, tmp_path):
    """As after a timeline was put back from an older copy."""
    put(project, "f", "1")
    ws.save("one")
    ws.close()
    old = (store / "timeline.db").read_bytes()
    for number in (2, 3):
        put(project, f"f{number}", str(number))
        ws.save(str(number))
    before = lines(ws)
    ws.close()
    (store / "timeline.db").write_bytes(old)
    assert len(ws.log()) == 1 and not ws.check().ok
    assert ws.doctor().ok
    assert lines(ws) == before


@pytest.mark.parametrize("what", ["ref", "index", "cache"])
def test_what_can_be_derived_is_made_anew(ws, project, store, what):
    put(project, "f", "1")
    cp = ws.save("one")
    ws.close()
    if what == "ref":
        (store / "refs/checkpoints" / cp.id).write_text("garbage\n")
    elif what == "index":
        next((store / "objects/pack").glob("*.idx")).unlink()
    else:
        (store / "cache").write_bytes(b"\xff" * 100)
    assert ws.doctor().ok
    put(project, "g", "2")
    ws.save("two")
    assert ws.cat("one", "f") == b"1"
    ws.close()
    assert judge(store) == []


def test_a_lost_object_is_named_with_its_checkpoint_and_comes_back_from_the_workspace(ws, project, store):
    put(project, "f", "1")
    cp = ws.save("one")
    ws.close()
    for pack in (store / "objects/pack").iterdir():
        pack.unlink()
    report = ws.check()
    assert not report.ok and any(cp.id in problem.checkpoints for problem in report.problems)
    ws.close()
    assert not ws.doctor().ok
    put(project, "f", "1")
    assert ws.save("two").complete and ws.cat("two", "f") == b"1"


def test_a_doctor_who_may_not_write_says_so(ws, project, store):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    put(project, "f", "1")
    ws.save("one")
    ws.close()
    store.chmod(0o500)
    try:
        with pytest.raises(mulligan.StoreError, match="refused"):
            ws.doctor()
    finally:
        store.chmod(0o700)


@pytest.mark.parametrize("byte", [18, 19])
def test_a_head_that_keeps_everybody_from_writing_is_found_and_mended(history, project, store, byte):
    """SQLite reads such a file as if nothing were wrong, and refuses the next save."""
    before = lines(history)
    history.close()
    with open(store / "timeline.db", "r+b") as file:
        file.seek(byte)
        file.write(b"\x03" if byte == 18 else b"\x01")
    with mulligan.open(project, store=store) as ws:
        assert not ws.check().ok
        assert ws.doctor().ok and ws.check().ok
        assert lines(ws) == before
        put(project, "more", "m")
        ws.save("again")
    assert judge(store, project) == []


def test_a_check_of_a_store_that_may_not_be_written_finds_nothing(history, project, store):
    history.close()
    for path in [store, *store.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    with mulligan.open(project, store=store) as ws:
        assert ws.check().ok


def test_a_check_sees_the_timeline_at_one_moment_whoever_saves_meanwhile(ws, project, store, monkeypatch):
    """A position that is newer than the rows that were read is no damage."""
    put(project, "f", "1")
    ws.save("one")
    believable = Checkpoints.believable

    def and_then_somebody_saves(self):
        rows = believable(self)
        put(project, "f", "2")
        with mulligan.open(project, store=store) as other:
            monkeypatch.undo()
            other.save("two")
        return rows

    monkeypatch.setattr(Checkpoints, "believable", and_then_somebody_saves)
    vault = ws.bench.store
    assert vault.exists()
    assert checking.compare_timeline(vault).breaches == []
    assert [cp.name for cp in ws.log()] == ["two", "one"]


def test_a_check_takes_what_others_save_and_delete_meanwhile_for_no_damage(ws, project, store, monkeypatch):
    """In the first of its two looks a checkpoint comes, in the second the same one goes: its ref never fits the rows."""
    put(project, "f", "1")
    ws.save("one")
    read = checking.compare_timeline
    looks = []

    def and_then_somebody_works(vault):
        said = read(vault)
        looks.append(len(said.rows))
        with mulligan.open(project, store=store) as other:
            if len(looks) == 1:
                put(project, "f", "2")
                other.save("two")
            else:
                other.delete("two")
        return said

    monkeypatch.setattr(checking, "compare_timeline", and_then_somebody_works)
    for _ in range(2):
        found = look(ws.bench.store).problems
        assert found == ()
    assert looks == [1, 2]


def test_a_ref_that_came_back_with_the_power_is_owed_its_end_and_no_damage(ws, project, store):
    """Retention removes refs without waiting for the disk; after a cut they may be back until the next writing command."""
    for number in range(3):
        put(project, "f", str(number))
        ws.save(f"n{number}", kind="step")
    gone = ws.log()[-1]
    ref = store / "refs/checkpoints" / gone.id
    value = ref.read_bytes()
    with mulligan.Workspace(settings_for(project, retention=Retention(step=2))) as other:
        put(project, "f", "3")
        other.save("n3", kind="step")
    assert not ref.exists()
    ref.write_bytes(value)
    assert ws.check().ok
    put(project, "f", "4")
    with mulligan.open(project, store=store) as other:
        other.save("n4")
    assert not ref.exists()


@pytest.mark.parametrize("spoil", ["bit", "cut"])
def test_a_damaged_id_of_the_store_is_mended_by_the_timeline_that_belongs_to_it(history, project, store, spoil):
    """One bit of it, and every command said that the timeline was another store's; the doctor said so too."""
    history.close()
    config = store / "config"
    text = config.read_text()
    at = text.index("storeid = ") + len("storeid = ")
    whose = text[at : at + 32]
    config.write_text(text[: at + 7] if spoil == "cut" else text.replace(whose, whose[:-1] + "g"))
    before = mulligan.open(project, store=store)
    with pytest.raises(mulligan.StoreDamaged, match="another store"):
        before.log()
    before.close()
    with mulligan.open(project, store=store) as ws:
        report = ws.doctor()
        assert report.ok and any("config" in line for line in report.repaired)
        assert ws.log() and config.read_text() == text
    assert judge(store) == []


def test_a_format_that_there_never_was_is_found_and_mended(history, project, store):
    """The highest bit of the format's number: every command went on as if nothing were."""
    wanted = [cp.id for cp in history.log()]
    history.close()
    content = bytearray((store / "timeline.db").read_bytes())
    content[60] ^= 0x80
    (store / "timeline.db").write_bytes(content)
    with mulligan.open(project, store=store) as ws:
        with pytest.raises(mulligan.StoreDamaged):
            ws.check()
        assert ws.doctor().ok and [cp.id for cp in ws.log()] == wanted
    assert judge(store) == []


def test_a_checkpoint_that_only_the_repository_knows_is_taken_in_although_its_parent_is_lost(project, store, tmp_path):
    """A store that was copied while it was used: an old timeline, the newest pack, and none of those between."""
    packs = store / "objects/pack"
    with mulligan.open(project, store=store) as ws:
        put(project, "a", "0")
        ws.save("zero")
        before = {*packs.iterdir()}
        put(project, "f", "1")
        one = ws.save("one")
        between = {*packs.iterdir()} - before
    shutil.copy(store / "timeline.db", tmp_path / "old")
    with mulligan.open(project, store=store) as ws:
        put(project, "a", "2")
        put(project, "f", "2")
        two = ws.save("two")
    shutil.copy(tmp_path / "old", store / "timeline.db")
    for path in between | {store / "refs/checkpoints" / one.id}:
        path.unlink()
    with mulligan.open(project, store=store) as ws:
        report = ws.doctor()
        assert {name for problem in report.problems for name in problem.checkpoints} == {one.id}
        assert [cp.name for cp in ws.log()] == ["two", "one", "zero"]
        assert ws.cat(two.id, "f") == b"2" and ws.cat("zero", "a") == b"0"
