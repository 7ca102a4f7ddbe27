"""A project that was moved, and the history that stayed behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tools
from play import Agent, tree, typed


@pytest.fixture
def moved(project: Path, tmp_path: Path) -> Path:
    """A project with two checkpoints, moved to another place."""
    (project / "app.py").write_text("one\n")
    typed(project, "save", "one")
    (project / "app.py").write_text("two\n")
    typed(project, "save", "two")
    place = tmp_path / "moved"
    project.rename(place)
    return place


def names(cwd: Path) -> list[str]:
    return [row["name"] or row["kind"] for row in tools.cli_json("log", cwd=cwd)["checkpoints"]]


def test_a_moved_project_hears_of_adopt(project: Path, moved: Path) -> None:
    said = f"mulligan adopt {project}"
    assert said in typed(moved, "log")
    assert said in typed(moved, "undo", expect=10)
    assert said in typed(moved, "status")
    assert said in typed(moved, "check")
    assert said in typed(moved, "save", "three")
    assert said in str(Agent(moved).event("SessionStart", source="startup"))


def test_a_moved_project_adopts_its_history_after_an_agent_worked_in_the_new_place(project: Path, moved: Path) -> None:
    agent = Agent(moved)
    agent.begin("edit the program")
    agent.bash("echo three > app.py; echo new > new.py")
    agent.stop()
    since = names(moved)
    ids = [row["id"] for row in tools.cli_json("log", cwd=moved)["checkpoints"]]
    typed(moved, "adopt", str(project))
    assert names(moved) == [*since, "two", "one"]
    for each in ids:
        typed(moved, "show", each)
    assert "edit the program" in typed(moved, "log", "--story")
    typed(moved, "check")
    typed(moved, "undo")
    assert tree(moved) == {"app.py": "two\n"}
    typed(moved, "undo")
    assert tree(moved) == {"app.py": "one\n"}, "undo goes on in the history of the old place"
    typed(moved, "redo")
    assert tree(moved) == {"app.py": "two\n"}
    assert "mulligan adopt" not in typed(moved, "status")


def test_an_adoption_that_is_run_again_changes_nothing_more(project: Path, moved: Path) -> None:
    typed(moved, "save", "three")
    typed(moved, "adopt", str(project))
    found = names(moved)
    typed(moved, "adopt", str(project), expect=1)
    assert names(moved) == found == ["three", "two", "one"]
    typed(moved, "save", "four")
    typed(moved, "check")


def test_the_history_of_another_project_is_not_joined(project: Path, moved: Path, tmp_path: Path) -> None:
    shutil.rmtree(moved)
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("dear\n")
    typed(other, "save", "mine")
    assert "little in common" in typed(other, "adopt", str(project), expect=1)
    assert names(other) == ["mine"]
    assert "mulligan adopt" not in typed(other, "status")


def test_a_copy_does_not_hear_of_adopt_while_the_original_stands(project: Path, tmp_path: Path) -> None:
    (project / "app.py").write_text("one\n")
    typed(project, "save", "one")
    shutil.copytree(project, tmp_path / "copy")
    assert "mulligan adopt" not in typed(tmp_path / "copy", "status")


def test_a_session_that_goes_on_after_the_move_is_undone_turn_by_turn(project: Path, tmp_path: Path) -> None:
    (project / "app.py").write_text("one\n")
    agent = Agent(project)
    agent.turn("first", "echo two > app.py")
    moved = tmp_path / "moved"
    project.rename(moved)
    agent.project = agent.cwd = moved
    agent.turn("second", "echo new > new.py")
    typed(moved, "adopt", str(project))
    agent.turn("third", "echo newest > newest.py")
    typed(moved, "check")
    for text, left in (
        ("third", {"app.py": "two\n", "new.py": "new\n"}),
        ("second", {"app.py": "two\n"}),
        ("first", {"app.py": "one\n"}),
    ):
        assert tools.cli_json("undo", cwd=moved)["report"]["undone"]["text"] == text
        assert tree(moved) == left


def test_a_check_of_nothing_does_not_claim_checkpoints(project: Path) -> None:
    assert "nothing was saved here yet" in typed(project, "check")
