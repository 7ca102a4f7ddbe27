"""Undo and redo: one operation at a time, back and forth, never past either end, never losing a byte."""

from __future__ import annotations

import pytest

import mulligan
from mulligan.model.event import AFTER, BEFORE, STOP
from timelines import Agent
from tree import contents, put, snapshot


@pytest.fixture
def a(project):
    """Reads and writes the one file these stories are about."""

    class File:
        def __eq__(self, other: object) -> bool:
            return (project / "a").read_text() == other

        __hash__ = None  # type: ignore[assignment]

        def __repr__(self) -> str:
            return (project / "a").read_text()

        def set(self, text: str) -> None:
            put(project, "a", text)

    return File()


def test_unsaved_edits_are_undone_first_then_the_steps_before(ws, a):
    for text in "12":
        a.set(text)
        ws.save(text)
    a.set("unsaved")
    ws.undo()
    assert a == "2"
    ws.undo()
    assert a == "1"
    with pytest.raises(mulligan.NothingToUndo):
        ws.undo()
    assert a == "1"
    ws.redo()
    assert a == "2"
    ws.redo()
    assert a == "unsaved"
    with pytest.raises(mulligan.NothingToRedo):
        ws.redo()
    assert a == "unsaved"


def test_a_restore_is_one_operation(ws, a):
    for text in "123":
        a.set(text)
        ws.save(text)
    ws.restore("1")
    assert a == "1"
    ws.undo()
    assert a == "3"
    ws.undo()
    assert a == "2"
    ws.redo()
    assert a == "3"
    ws.redo()
    assert a == "1"


def test_a_restore_over_unsaved_edits_is_undone_to_those_edits(ws, a):
    a.set("1")
    ws.save("1")
    a.set("unsaved")
    report = ws.restore("1")
    assert ws.cat(report.undo, "a") == b"unsaved"
    ws.undo()
    assert a == "unsaved"
    ws.redo()
    assert a == "1"


def test_equal_states_are_stepped_over(ws, a):
    a.set("1")
    ws.save("1")
    a.set("2")
    for name in ("2", "2 again", "2 once more"):
        ws.save(name)
    ws.undo()
    assert a == "1"


def test_a_new_save_or_restore_ends_redo(ws, a):
    for text in "123":
        a.set(text)
        ws.save(text)
    ws.undo()
    a.set("4")
    ws.save("4")
    with pytest.raises(mulligan.NothingToRedo):
        ws.redo()
    ws.undo()
    assert a == "2"
    ws.restore("3")
    with pytest.raises(mulligan.NothingToRedo):
        ws.redo()
    assert a == "3"


def test_redo_before_any_undo_is_refused(ws, a):
    a.set("1")
    ws.save("1")
    with pytest.raises(mulligan.NothingToRedo):
        ws.redo()


def test_the_position_follows_undo_and_redo(ws, a):
    a.set("1")
    one = ws.save("1")
    a.set("2")
    two = ws.save("2")
    ws.undo()
    assert ws.get("@") == one
    assert ws.save(if_changed=True) is None
    ws.redo()
    assert ws.get("@") == two


def test_mixed_undo_and_redo_are_deterministic_over_many_steps(ws, a):
    texts = [str(number) for number in range(8)]
    for text in texts:
        a.set(text)
        ws.save(text)
    at = 7
    for step in "uuruuurruuurrrrrruuuuuuu":
        if step == "u":
            ws.undo()
            at -= 1
        elif at < 7:
            ws.redo()
            at += 1
        assert a == texts[at], step
    with pytest.raises(mulligan.NothingToUndo):
        for _ in range(9):
            ws.undo()
    assert a == "0"


def test_undo_survives_a_new_workspace_object(ws, a, project, store):
    for text in "12":
        a.set(text)
        ws.save(text)
    mulligan.open(project, store=store).undo()
    assert a == "1"
    mulligan.open(project, store=store).redo()
    assert a == "2"


def test_undo_of_a_partial_restore_brings_back_exactly_what_was_there(ws, project):
    put(project, "d/x", "1")
    put(project, "y", "1")
    ws.save("one")
    put(project, "d/x", "2")
    put(project, "d/new", "2")
    put(project, "y", "2")
    before = contents(project)
    ws.restore("one", paths=["d"])
    ws.undo()
    assert contents(project) == before


def test_undo_keeps_edits_made_after_it_in_a_safety_checkpoint(ws, a):
    for text in "12":
        a.set(text)
        ws.save(text)
    ws.undo()
    a.set("mine")
    report = ws.restore("2")
    assert ws.cat(report.undo, "a") == b"mine"
    ws.undo()
    assert a == "mine"


def test_undo_touches_no_file_that_is_already_right(ws, project):
    put(project, "same", "s")
    put(project, "a", "1")
    ws.save("1")
    put(project, "a", "2")
    ws.save("2")
    before = snapshot(project)["same"]
    ws.undo()
    ws.redo()
    assert snapshot(project)["same"] == before


def test_a_restore_after_an_undo_that_could_change_nothing_is_undone(ws, project):
    """Two agents worked at once, so nothing tells what either changed: the undos leave all alone, and say so."""
    put(project, "a.txt", "one\n")
    ws.save("first")
    agents = Agent(ws, "codex", "one"), Agent(ws, "codex", "two")
    for agent in agents:
        agent.prompt("work")
        agent.tell(BEFORE, tool="Bash", call=agent.session, text="make")
    put(project, "a.txt", "two\n")
    put(project, "b.txt", "b\n")
    for agent in agents:
        agent.tell(AFTER, tool="Bash", call=agent.session, text="make")
        agent.tell(STOP)
    there = contents(project)
    for _ in agents:
        assert {kept.path for kept in ws.undo().kept} == {"a.txt", "b.txt"}
    ws.restore("first")
    assert ws.undo().undone.kind == "restore"
    assert contents(project) == there
