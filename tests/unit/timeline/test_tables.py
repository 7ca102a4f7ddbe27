"""A changed value in the timeline: found, named, never believed, and mended from what the repository still knows."""

from __future__ import annotations

import sqlite3

import pytest

import mulligan
from checker import judge
from mulligan.timeline.tables import COLUMNS, checksum
from seals import reseal
from seals import seal as by_the_page
from tree import put

# What a flipped bit could make of one value in each kind of row.
SPOILT = {
    "a name": "UPDATE checkpoint SET name='onf' WHERE name='one'",
    "a kind": "UPDATE checkpoint SET kind='safety' WHERE name='one'",
    "a time": "UPDATE checkpoint SET created_ns=created_ns+1 WHERE name='one'",
    "a parent": "UPDATE checkpoint SET parent=NULL WHERE name='two'",
    "what changed": "UPDATE checkpoint SET changes=x'' WHERE name='one'",
    "permission bits": "UPDATE checkpoint SET defaults='[436, 493, 493]' WHERE name='one'",
    "a tree": "UPDATE checkpoint SET files_tree=zeroblob(20) WHERE name='one'",
    "a number": "UPDATE checkpoint SET seq=seq+100 WHERE name='one'",
    "text that is none": "UPDATE checkpoint SET description=CAST(x'fffe' AS TEXT) WHERE name='one'",
    "the position": "UPDATE meta SET value='x' WHERE key='position'",
    "the name of a value": "UPDATE meta SET key='positiom' WHERE key='position'",
    "a note": "UPDATE meta SET value='[2]' WHERE key='note:n'",
    "a step of undo": "UPDATE move SET what='all' WHERE seq=1",
    "a step of redo": "UPDATE redo SET what='all'",
    "a ref to be written": "UPDATE fresh_ref SET commit_id='0'",
    "SQLite's count": "UPDATE sqlite_sequence SET seq=0",
    "SQLite's count, at its end": "UPDATE sqlite_sequence SET seq=9223372036854775807",
}


@pytest.fixture
def history(ws, project):
    """Two checkpoints, a note, and something to redo."""
    for name in ("one", "two"):
        put(project, "f", name)
        ws.save(name, state={"s": name})
    ws.update_note("n", lambda _: [1])
    ws.undo()
    ws.close()
    return ws


def told(ws) -> list[dict]:
    return [cp.to_dict() for cp in ws.log()]


def run(store, statement: str) -> None:
    with sqlite3.connect(store / "timeline.db") as database:
        database.execute(statement)
    database.close()


@pytest.mark.parametrize("what", SPOILT)
def test_a_changed_value_is_found_and_mended_and_everything_else_stays(history, project, store, what):
    before, position = told(history), history.position()
    history.close()
    run(store, SPOILT[what])
    report = history.check()
    assert not report.ok
    assert all(problem.kind == "timeline" for problem in report.problems if problem.kind != "ref")
    named = {each for problem in report.problems for each in problem.checkpoints}
    assert not SPOILT[what].startswith("UPDATE checkpoint") or before[0]["id"] in named or before[1]["id"] in named
    history.close()
    assert history.doctor().ok
    assert (told(history), history.position()) == (before, position)
    assert history.note("n") == (None if what == "a note" else [1])
    assert history.restore("two").complete
    assert (project / "f").read_text() == "two"
    history.close()
    assert judge(store, project) == []


@pytest.mark.parametrize("what", ["permission bits", "a tree", "a name", "text that is none"])
def test_a_checkpoint_whose_record_is_damaged_is_not_restored_from_it(history, project, store, what):
    run(store, SPOILT[what])
    for ref in ("one", "onf"):
        with pytest.raises((mulligan.StoreDamaged, mulligan.UnknownCheckpoint)):
            history.restore(ref)
    assert (project / "f").read_text() == "one"


def test_undo_does_not_follow_a_step_that_is_damaged(history, project, store):
    run(store, "UPDATE redo SET id=(SELECT id FROM checkpoint WHERE name='one')")
    with pytest.raises(mulligan.StoreDamaged, match="is damaged"):
        history.redo()
    assert (project / "f").read_text() == "one"


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON checkpoint BEGIN DELETE FROM move; END",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE more (x)",
        "DROP INDEX checkpoint_name",
        "ALTER TABLE move ADD COLUMN more",
    ],
)
def test_a_timeline_with_other_tables_than_ours_is_refused_and_rebuilt(history, project, store, statement):
    before = told(history)
    history.close()
    run(store, statement)
    for verb in (history.log, history.save, history.check):
        with pytest.raises(mulligan.StoreDamaged, match="does not have the tables"):
            verb()
        history.close()
    assert history.doctor().ok
    assert told(history) == before


def test_a_row_that_contradicts_its_commit_is_found_although_it_is_sealed(history, store):
    run(store, "UPDATE checkpoint SET name='other' WHERE name='one'")
    reseal(store)
    (problem,) = history.check().problems
    assert "is not what its commit says" in problem.detail


def test_the_seal_is_the_one_that_the_page_describes():
    values = ["é", "\udcff", b"\0", 5, -1, None, 1.5, ""]
    assert checksum(*values) == by_the_page(*values)
    assert len({checksum(1), checksum("1"), checksum(b"1"), checksum("1", ""), checksum("", "1"), checksum()}) == 6


def test_every_column_is_under_seal(history, store):
    with sqlite3.connect(store / "timeline.db") as database:
        for table, columns in COLUMNS.items():
            there = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            assert there == [*columns, "seal"]
    database.close()


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("HEAD", b"main", b"maim"),
        ("config", b"auto = 0", b"auto = 1"),
        ("config", b"preciousObjects", b"preciousobkects"),
        ("refs/heads/main", b"\n", b"\x0b"),
        ("config", b"storeid = ", b"storeid = \\"),
        ("packed-refs", b"# pack", b"# qack"),
        ("packed-refs", b" refs/", b"\x00refs/"),
        ("packed-refs", b"refs/checkpoints/", b"refs/checkpoints/\xb1"),
        ("config", b"\tauto = 0\n", b"\tauto = 0\x0b"),
    ],
)
def test_a_small_file_of_the_repository_that_says_something_else_is_found_and_mended(history, store, path, old, new):
    from mulligan.safefs.directory import Directory
    from mulligan.store.gc import pack_refs

    with Directory.open(store) as directory:
        pack_refs(directory)
    whole = (store / path).read_bytes()
    (store / path).write_bytes(whole.replace(old, new, 1))
    assert path in {problem.subject for problem in history.check().problems}
    history.close()
    assert history.doctor().ok
    assert judge(store) == []
