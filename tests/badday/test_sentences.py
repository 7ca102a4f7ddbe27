"""What a person reads after an undo, a redo or a restore: about what, which files, what to type next."""

from __future__ import annotations

import re
from pathlib import Path

from play import typed
from tools import at_a_terminal, git


def test_an_undo_names_the_files_and_the_way_back(project: Path) -> None:
    (project / "login.py").write_text("login\n")
    (project / "shop.py").write_text("shop\n")
    typed(project, "save", "base")
    (project / "login.py").unlink()
    (project / "shop.py").write_text("broken\n")
    (project / "junk.txt").write_text("junk\n")
    said = typed(project, "undo")
    assert "restored login.py, shop.py; removed junk.txt. Redo: mulligan redo" in said
    said = typed(project, "redo")
    assert "created junk.txt; changed shop.py; removed login.py. Undo: mulligan undo" in said


def test_a_restore_says_which_checkpoint_and_how_old(project: Path) -> None:
    (project / "a").write_text("1\n")
    typed(project, "save", "before the agent")
    (project / "a").write_text("2\n")
    said = typed(project, "restore", "before the agent", "-y")
    assert re.match(r'Restored "before the agent" \([0-9a-f]{8}, [^)]+\): restored a\. Undo: mulligan undo\n', said)
    assert re.match(r"Already at [0-9a-f]{8}; nothing to change\.\n", typed(project, "restore", "latest", "-y"))


def test_nothing_to_undo_and_nothing_to_redo_are_one_sentence(project: Path) -> None:
    (project / "a").write_text("1\n")
    typed(project, "save")
    assert typed(project, "undo", expect=1).startswith(
        "mulligan: Nothing to undo: your files match the oldest checkpoint.\n"
    )
    assert typed(project, "redo", expect=1).startswith("mulligan: Nothing to redo.\n")


def test_undo_and_redo_name_a_restore_as_a_restore(project: Path) -> None:
    (project / "a").write_text("1\n")
    typed(project, "save", "base")
    (project / "a").write_text("2\n")
    typed(project, "restore", "base", "-y")
    for _ in range(2):
        assert typed(project, "undo").startswith('Undid the restore of "base" (')
        assert typed(project, "redo").startswith('Redid the restore of "base" (')


def test_the_undo_of_a_restore_of_one_file_does_not_name_the_safety_checkpoint(project: Path) -> None:
    (project / "a").write_text("1\n")
    (project / "b").write_text("1\n")
    typed(project, "save", "base")
    (project / "a").write_text("2\n")
    (project / "b").write_text("2\n")
    typed(project, "restore", "base", "a", "-y")
    assert typed(project, "undo", "--dry-run").startswith("Would undo the last restore (")
    assert re.match(r"Undid the last restore \([^)]+\): restored a\.", typed(project, "undo"))
    assert re.match(r"Redid the last restore \([^)]+\): changed a\.", typed(project, "redo"))
    assert (project / "a").read_text() == "1\n" and (project / "b").read_text() == "2\n"


def test_a_diff_of_a_word_that_is_nothing_names_both_things_that_it_could_be(project: Path) -> None:
    (project / "a").write_text("1\n")
    typed(project, "save", "base")
    said = typed(project, "diff", "nonexist", expect=1)
    assert "'nonexist' is neither a checkpoint nor a path here. Nothing was changed." in said and " -- PATH" in said
    assert "neither" not in typed(project, "diff", "latest~9", expect=1)


def test_the_question_before_an_undo_on_another_branch_names_the_checkpoint(project: Path) -> None:
    git("init", "-q", "-b", "main", cwd=project)
    (project / "a").write_text("1\n")
    typed(project, "save", "first")
    (project / "a").write_text("2\n")
    typed(project, "save", "work on main")
    git("checkout", "-q", "-b", "other", cwd=project)
    code, shown = at_a_terminal("undo", cwd=project, typed="n\n")
    assert code == 1 and "saved on branch main" in shown and 'Undo checkpoint "work on main" (' in shown
    assert (project / "a").read_text() == "2\n"
