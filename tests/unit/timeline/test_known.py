"""What a process that holds the store knows of the timeline without asking, and when it asks again."""

from __future__ import annotations

import pytest

import mulligan
from mulligan.safefs.directory import Directory
from mulligan.timeline import saving
from mulligan.timeline.database import Database
from mulligan.timeline.moves import Move, Moves
from mulligan.timeline.retention import Aged, expired


@pytest.fixture
def both(tmp_path):
    """Two connections to one timeline."""
    with Directory.open(tmp_path) as directory:
        one = Database(str(tmp_path), create=True, directory=directory)
        other = Database(str(tmp_path), create=False, directory=directory)
    yield one, other
    one.close()
    other.close()


def test_what_another_connection_wrote_is_known_to_the_next_holder(both):
    one, other = both
    for database in both:
        assert (database.meta("position"), database.is_empty("pin")) == ("", True)
    one.hold()
    with one.transaction():
        one.set_meta("position", "mine")
        one.insert("pin", "mine", 1)
    assert (one.meta("position"), one.is_empty("pin")) == ("mine", False)
    one.let_go()
    other.hold()
    assert (other.meta("position"), other.is_empty("pin")) == ("mine", False)
    with other.transaction():
        other.set_meta("position", "yours")
        other.empty("pin")
    other.let_go()
    assert (one.meta("position"), one.is_empty("pin")) == ("yours", True)


def test_a_transaction_that_failed_is_not_known(both):
    one, _ = both
    assert one.is_empty("redo") and one.meta("position") == ""
    one.hold()
    with pytest.raises(RuntimeError), one.transaction():
        one.set_meta("position", "nowhere")
        one.insert("redo", None, "a", "files")
        raise RuntimeError
    assert (one.meta("position"), one.is_empty("redo")) == ("", True)
    with one.transaction():
        one.insert("redo", None, "b", "files")
    assert [tuple(row)[:2] for row in one.sealed("redo")] == [(1, "b")]


def test_a_commit_that_failed_is_not_known(both):
    one, _ = both
    assert one.meta("position") == ""
    real, one._connection = one._connection, FailsToCommit(one._connection)
    with pytest.raises(mulligan.MulliganError), one.transaction():
        one.set_meta("position", "nowhere")
    one._connection = real
    assert one.meta("position") == ""


class FailsToCommit:
    """A connection whose transactions cannot be written."""

    def __init__(self, real):
        self._real = real

    def execute(self, sql, *values):
        if sql == "COMMIT":
            raise mulligan.errors.DurabilityLost("The disk did not confirm it.")
        return self._real.execute(sql, *values)

    def __getattr__(self, name):
        return getattr(self._real, name)


def test_numbers_go_on_after_those_of_another_connection_and_are_never_given_twice(both):
    one, other = both
    for database, name in ((one, "a"), (other, "b"), (one, "c")):
        with database.transaction():
            Moves(database).push(Move(name))
    one.run("DELETE FROM move WHERE id='c'")
    with one.transaction():
        Moves(one).push(Move("d"), Move("d"), fresh=True)
    assert [tuple(row)[:2] for row in one.sealed("move", "ORDER BY seq")] == [(1, "a"), (2, "b"), (4, "d")]
    assert one.misnumbered() == [] == other.misnumbered()


def test_a_count_that_is_no_number_is_left_to_sqlite(both):
    one, _ = both
    with one.transaction():
        Moves(one).push(Move("a"))
    one._connection.execute("UPDATE sqlite_sequence SET seq='many' WHERE name='move'")
    one._forget()
    with one.transaction():
        Moves(one).push(Move("b"))
    assert [row["id"] for row in one.sealed("move", "ORDER BY seq")] == ["a", "b"]


def test_a_process_that_saves_again_asks_the_timeline_little(tmp_path):
    (tmp_path / "project").mkdir()
    said: list[str] = []
    with mulligan.open(tmp_path / "project", store=tmp_path / "store") as ws:
        for number in range(3):
            (tmp_path / "project" / "file").write_text(str(number))
            said.clear()
            ws.save("again")
            ws._bench.vault.database._connection.set_trace_callback(said.append)
    # One question whether somebody else wrote; one transaction of four rows. For pins nobody asks where nothing may go.
    assert [text.split()[0] for text in said] == ["PRAGMA", "BEGIN", *["INSERT"] * 4, "COMMIT"]


def test_the_position_that_was_just_saved_is_not_what_the_caller_was_given(tmp_path):
    (tmp_path / "project").mkdir()
    with mulligan.open(tmp_path / "project", store=tmp_path / "store") as ws:
        first = ws.save("first")
        first.metadata["captured_by_name"] = ["somebody's"]
        first.context["x"] = first.state["y"] = 1
        here = ws._bench.vault.checkpoints.current()
        assert (here.id, here.by_name, here.checkpoint.context, here.checkpoint.state) == (first.id, (), {}, {})
        assert ws.get("@").metadata == {}


def test_a_process_that_restores_again_asks_the_timeline_little(tmp_path):
    (tmp_path / "project").mkdir()
    file = tmp_path / "project" / "file"
    said: list[str] = []
    with mulligan.open(tmp_path / "project", store=tmp_path / "store") as ws:
        file.write_text("then")
        then = ws.save("then")
        for number in range(3):
            file.write_text(str(number))
            said.clear()
            ws.restore(then.id)
            ws._bench.vault.database._connection.set_trace_callback(said.append)
    # Checkpoint, owed ref and journal; then both moves, the position, and the end of the journal. The one question is whether
    # an agent must be told of it at its next prompt.
    first, second = ["BEGIN", *["INSERT"] * 3, "COMMIT"], ["BEGIN", *["INSERT"] * 3, "DELETE", "COMMIT"]
    assert [text.split()[0] for text in said] == ["PRAGMA", *first, *second, "SELECT"]


def test_the_newest_move_is_known_until_somebody_changes_one(both):
    one, other = both
    with one.transaction():
        Moves(one).push(Move("a"), Move("b"))
    assert Moves(one).top() == Move("b") == Moves(other).top()
    with other.transaction():
        Moves(other).push(Move("c", "all", git=True))
    assert Moves(one).top() == Move("c", "all", git=True) == Moves(other).top()
    with one.transaction():
        Moves(one).replace_top(Move("d"))
    assert [move.id for move in Moves(other).down()] == ["d", "b", "a"]
    with pytest.raises(RuntimeError), one.transaction():
        Moves(one).push(Move("e"))
        raise RuntimeError
    assert Moves(one).top() == Move("d")
    one.run("DELETE FROM move WHERE id='d'")
    assert Moves(one).top() == Move("b")
    with one.transaction():
        Moves(one).undone(2, Move("left"))
    assert Moves(one).top() is None is Moves(other).top()


def test_how_many_of_a_kind_there_are_is_known_until_one_goes(tmp_path):
    (tmp_path / "project").mkdir()
    with mulligan.open(tmp_path / "project", store=tmp_path / "store") as ws:
        for number in range(4):
            (tmp_path / "project" / "file").write_text(str(number))
            ws.save("again", kind="step")
            assert ws._bench.vault.checkpoints.count_of("step") == number + 1
        ws.delete("latest~1")
        with mulligan.open(tmp_path / "project", store=tmp_path / "store") as another:
            assert ws._bench.vault.checkpoints.count_of("step") == 3
            (tmp_path / "project" / "file").write_text("another")
            another.save("another", kind="step")
        assert ws._bench.vault.checkpoints.count_of("step") == 4


@pytest.mark.parametrize(("kind", "kept"), [("automatic", 5), ("safety", 20), ("step", 200)])
def test_what_is_not_asked_for_would_not_have_gone(kind, kept, tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    with mulligan.open(tmp_path / "project", store=tmp_path / "store") as ws:
        one = ws.save("one", kind=kind)
        entry = ws._bench.vault.checkpoints.resolve(one)
        monkeypatch.setattr("mulligan.timeline.checkpoints.Checkpoints.count_of", lambda *_: count)
        limit = ws.settings.retention.limit(kind)
        assert limit == kept
        for count in range(limit + 2):
            may = saving._may_expire(ws._bench.vault, entry)
            aged = [Aged(str(each), 0) for each in range(count)]
            gone = expired(aged, kind, ws.settings.retention, now_ns=1 << 62, pinned=())
            assert may or not gone


def test_a_restore_of_files_is_given_what_is_noted_of_the_position_and_hands_nothing_of_it_out(tmp_path):
    (tmp_path / "project").mkdir()
    with mulligan.open(tmp_path / "project", store=tmp_path / "store") as ws:
        first = ws.save("first", metadata={"list": [1]})
        checkpoints = ws._bench.vault.checkpoints
        assert checkpoints.find(first.id) == checkpoints.resolve(first)
        assert checkpoints.find("first") == checkpoints.resolve("first")
        assert ws.restore(first).target == first.id
        first.metadata["list"].append(2)
        assert checkpoints.find(first).checkpoint.metadata == {"list": [1]} == ws.get(first).metadata
        with pytest.raises(mulligan.errors.UnknownCheckpoint):
            checkpoints.find("nothing")
        with pytest.raises(TypeError):
            checkpoints.find(5)
