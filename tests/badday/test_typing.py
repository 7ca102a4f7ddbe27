"""What a person may type: words of other tools, paths without `--`, patterns; and a typo in the configuration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tools
from play import typed


@pytest.fixture
def saved(project: Path) -> Path:
    (project / "src").mkdir()
    (project / "src/app.py").write_text("1\n")
    (project / "notes.md").write_text("1\n")
    typed(project, "save", "base")
    return project


@pytest.mark.parametrize("text", ["[retention", "[retention]\nbudgett = 1\n", "[nope]\nx = 1\n"])
def test_a_typo_in_the_configuration_never_disables_undo(saved: Path, text: str) -> None:
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "mulligan"
    folder.mkdir()
    (folder / "config.toml").write_text(text)
    (saved / "notes.md").write_text("2\n")
    assert "warning: " in typed(saved, "undo")
    assert (saved / "notes.md").read_text() == "1\n"
    assert "config.toml" in typed(saved, "status") and "config.toml" in typed(saved, "doctor")


@pytest.mark.parametrize("name", ["latest", "latest~2", "@", "@prompt-1"])
def test_a_name_that_could_never_be_found_is_refused(saved: Path, name: str) -> None:
    assert "is a reserved word. Nothing was saved." in typed(saved, "save", name, expect=1)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("list", "log"),
        ("ls", "log"),
        ("delete", "rm"),
        ("prune", "gc"),
        ("stop", "watch --stop"),
        ("rewind", "restore REF"),
        ("settings", "config"),
        ("grep", "search"),
    ],
)
def test_a_word_of_another_tool_leads_to_the_right_command(saved: Path, word: str, meant: str) -> None:
    said = typed(saved, word, expect=0 if word in typed(saved, "-h").split() else 2)
    assert f"Did you mean: mulligan {meant}" in said


def test_paths_need_no_dashes_where_they_are_no_checkpoint(saved: Path) -> None:
    (saved / "src/app.py").write_text("2\n")
    (saved / "notes.md").write_text("2\n")
    assert "app.py" in typed(saved, "diff", "src/app.py") and "notes" not in typed(saved, "diff", "src/app.py")
    assert "1 file changed" in typed(saved, "diff", "base", "*.py", "--stat")
    assert "restored src/app.py." in typed(saved, "restore", "base", "src/app.py", "-y")
    assert "restored notes.md." in typed(saved, "restore", "base", "*.md", "-y")
    assert "'nonexist' is neither here nor in the checkpoint" in typed(saved, "diff", "--", "nonexist", expect=1)


def test_a_word_that_is_both_needs_dashes(saved: Path) -> None:
    (saved / "base").write_text("a file\n")
    assert "'base' is a checkpoint and a path." in typed(saved, "diff", "base", expect=2)
    assert "base" in typed(saved, "diff", "--", "base")


def test_log_takes_several_paths_and_patterns(saved: Path) -> None:
    (saved / "notes.md").write_text("2\n")
    typed(saved, "save", "notes")
    (saved / "src/app.py").write_text("2\n")
    typed(saved, "save", "app")
    assert typed(saved, "log", "notes.md").count("\n") == 2
    assert typed(saved, "log", "--", "notes.md", "src/app.py").count("\n") == 3
    assert typed(saved, "log", "*.py").count("\n") == 2
    assert "No checkpoint to show." in typed(saved, "log", "-n", "0")


def test_log_folds_safety_checkpoints_and_json_lists_them(saved: Path) -> None:
    (saved / "notes.md").write_text("2\n")
    typed(saved, "undo")
    assert "1 safety checkpoint not shown: mulligan log --kind safety" in typed(saved, "log")
    assert len(tools.cli_json("log", cwd=saved)["checkpoints"]) == 2


def test_a_row_of_log_fits_eighty_columns_and_counts_files(saved: Path) -> None:
    for number in range(30):
        (saved / f"a rather long name of a file {number}").write_text("x\n")
    typed(saved, "save", "Bash: rm -rf src; echo x > junk.txt; exit 3; and then something much longer than that")
    assert all(len(line) <= 90 for line in typed(saved, "log").splitlines())
    assert "30 files" in typed(saved, "log")


def test_an_empty_directory_is_a_difference(saved: Path) -> None:
    (saved / "deep/empty").mkdir(parents=True)
    assert "No file differs. Directories: + deep/empty/" in typed(saved, "diff")
    assert "only directories or permissions since the last checkpoint" in typed(saved, "status")


def test_a_first_checkpoint_shows_its_patch(saved: Path) -> None:
    assert "+++ b/src/app.py\n" in typed(saved, "show", "base", "-p")


def test_a_changed_mode_is_named(saved: Path) -> None:
    (saved / "notes.md").chmod(0o755)
    assert "mode 100644 => 100755" in typed(saved, "diff", "--stat")


def test_watch_stop_where_nothing_was_saved_says_that_none_runs(project: Path) -> None:
    assert typed(project, "watch", "--stop") == "No watcher runs here.\n"


def test_the_help_of_each_command_fits_a_screen(project: Path) -> None:
    from mulligan.cli.commands import COMMANDS

    for words in [["-h"], *([name, "-h"] for name in COMMANDS)]:
        shown = tools.cli(*words, cwd=project, COLUMNS="80").stdout.splitlines()
        assert len(shown) <= 24, words
        assert max(map(len, shown)) <= 80, words
