"""Paths that a program asks for by name: captured whatever hides them, and going back to such a checkpoint concerns them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mulligan
from mulligan.engine.workspace import Workspace
from mulligan.errors import NothingToUndo
from mulligan.settings import resolve


@pytest.fixture
def naming(project: Path, store: Path) -> Workspace:
    """The workspace as a program opens it that asks for `notes.txt`, which is ignored."""
    (project / ".gitignore").write_text("notes.txt\nother.txt\n")
    settings = resolve(project, store=store)
    return Workspace(settings._replace(capture=settings.capture.naming(["notes.txt"])))


def test_an_undo_by_anybody_concerns_what_was_named(project: Path, ws: Any, naming: Workspace) -> None:
    (project / "notes.txt").write_text("one")
    (project / "other.txt").write_text("one")
    first = naming.save()
    (project / "notes.txt").write_text("two")
    (project / "other.txt").write_text("two")
    naming.restore(first)
    assert (project / "notes.txt").read_text() == "one"

    ws.undo()
    assert (project / "notes.txt").read_text() == "two"
    ws.redo()
    assert (project / "notes.txt").read_text() == "one"
    assert (project / "other.txt").read_text() == "two", "nobody asked for it"


def test_a_restore_by_anybody_brings_back_what_was_named(project: Path, ws: Any, naming: Workspace) -> None:
    (project / "notes.txt").write_text("one")
    first = naming.save()
    (project / "notes.txt").unlink()
    assert ws.diff(first).deleted == ["notes.txt"]
    plan = ws.plan(first)
    assert [action.path for action in plan.actions] == [b"notes.txt"]
    ws.apply(plan)
    assert (project / "notes.txt").read_text() == "one"
    ws.undo()
    assert not (project / "notes.txt").exists()


def test_what_was_not_there_when_it_was_named_goes_and_comes_back(project: Path, ws: Any, naming: Workspace) -> None:
    first = naming.save()
    (project / "notes.txt").write_text("new")
    ws.restore(first)
    assert not (project / "notes.txt").exists()
    ws.undo()
    assert (project / "notes.txt").read_text() == "new"


def test_an_undo_takes_away_what_a_restore_brought_although_the_position_did_not_look_at_it(
    project: Path, ws: Any, naming: Workspace
) -> None:
    (project / "notes.txt").write_text("one")
    first = naming.save()
    (project / "notes.txt").unlink()
    ws.save("a position that looks at no ignored file")
    naming.restore(first)
    assert (project / "notes.txt").exists()
    ws.undo()
    assert not (project / "notes.txt").exists()


def test_a_state_that_was_saved_without_names_leaves_ignored_files_alone(
    project: Path, ws: Any, naming: Workspace
) -> None:
    (project / "a.txt").write_text("one")
    ws.save("plain")
    (project / "a.txt").write_text("two")
    (project / "notes.txt").write_text("made since")
    naming.save("named")
    assert ws.undo().deleted == []
    assert (project / "a.txt").read_text() == "one"
    assert (project / "notes.txt").read_text() == "made since"


def test_a_plain_save_after_a_named_one_is_complete(project: Path, ws: Any, naming: Workspace) -> None:
    (project / "notes.txt").write_text("one")
    naming.save()
    plain = ws.save()
    assert plain.complete, "nobody hid it since: it was captured because it was named"
    assert "captured_by_name" not in plain.metadata
    with pytest.raises(NothingToUndo):
        ws.undo()


def test_names_are_paths_and_no_patterns(project: Path, store: Path) -> None:
    (project / ".gitignore").write_text("*.txt\n")
    names = ["a*.txt", "b[1].txt", "!c.txt", "#d.txt", " e.txt ", "f\\.txt", "with\nbreak.txt"]
    for name in (*names, "ab.txt", "b1.txt"):
        (project / name).write_text("x")
    settings = resolve(project, store=store)
    saved = Workspace(settings._replace(capture=settings.capture.naming(names))).save()
    assert saved is not None
    assert sorted(saved.files_changed) == sorted([".gitignore", *names])


@pytest.mark.parametrize("odd", ["notes.txt", 7, {"a": 1}, [7, None]])
def test_what_somebody_else_keeps_under_that_word_is_no_name(project: Path, ws: Any, odd: object) -> None:
    (project / "a.txt").write_text("one")
    saved = ws.save(metadata={"captured_by_name": odd})
    (project / "a.txt").write_text("two")
    ws.restore(saved)
    assert mulligan.open(project, store=ws.store_path).get(saved.id).metadata["captured_by_name"] == odd
