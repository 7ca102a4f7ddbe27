"""`restore` without a reference and `undo --pick`, at a real terminal."""

from __future__ import annotations

import sys

import pytest

import mulligan
from mulligan.cli.choices import choices
from terminal import Terminal
from told import Session, write
from tools import cli

ONE = "aaaa1111-0000-4000-8000-000000000001"
READY = "Enter choose"


@pytest.fixture
def day(project):
    """A save, a prompt with two commands, an edit by hand, another prompt."""
    write(project, {"a.py": "one\n", "keep.py": "k\n"})
    mulligan.open(project).save("start")
    agent = Session(project, ONE)
    agent.prompt("make it better")
    agent.does("edit a", {"a.py": "two\n"})
    agent.does("make b", {"b.py": "b\n"})
    agent.stop()
    write(project, {"mine.py": "m\n"})
    agent.prompt("add c")
    agent.does("make c", {"c.py": "c\n"})
    agent.stop()
    return project


def test_the_list_has_prompts_commands_saves_and_edits_by_hand_newest_first(day):
    rows = choices(mulligan.open(day), steps=False)
    assert [(row.kind, row.title) for row in rows] == [
        ("command", "Bash: make c"),
        ("prompt", "2: add c"),
        ("you", "changed between turns"),
        ("command", "Bash: make b"),
        ("command", "Bash: edit a"),
        ("prompt", "1: make it better"),
        ("saved", "start"),
    ]
    ws = mulligan.open(day)
    for row in rows:
        assert ws.get(row.ref)
    for row in choices(ws, steps=True):
        ws.revert(row.ref, dry_run=True)


def test_a_state_is_picked_previewed_and_restored_on_80_columns(day):
    pytest.importorskip("prompt_toolkit")
    screen = Terminal("restore", cwd=day)
    first = screen.until(READY)
    assert "Restore which state?" in first and "make it better" in first and "changes nothing" in first
    screen.type("G")
    assert "+one" in screen.until("+one")
    screen.type("\r")
    screen.until("[y/N]")
    screen.type("y\n")
    code, text = screen.end()
    assert code == 0 and 'Restored "start"' in text
    assert (day / "a.py").read_text() == "one\n" and not (day / "c.py").exists()


def test_undo_pick_takes_back_one_step_in_the_middle(day):
    pytest.importorskip("prompt_toolkit")
    screen = Terminal("undo", "--pick", cwd=day, rows=30, columns=120)
    screen.until(READY)
    screen.type("/make b\r\r")
    screen.until("[y/N]")
    screen.type("y\n")
    code, _ = screen.end()
    assert code == 0 and not (day / "b.py").exists()
    assert (day / "c.py").exists() and (day / "mine.py").exists() and (day / "a.py").read_text() == "two\n"


@pytest.mark.parametrize("keys", ["q", "\x1b", "\x03"])
def test_leaving_the_picker_changes_nothing(day, keys):
    pytest.importorskip("prompt_toolkit")
    screen = Terminal("restore", cwd=day, rows=12, columns=40)
    screen.until(READY)
    screen.type("?jj")
    screen.type(keys)
    code, text = screen.end()
    assert code == 1 and "Cancelled; nothing changed." in text
    assert (day / "c.py").exists()


def test_without_the_library_there_is_a_numbered_list(day, tmp_path):
    hidden = tmp_path / "hidden"
    write(hidden, {"prompt_toolkit/__init__.py": "raise ImportError\n"})
    path = f"{hidden}:{':'.join(sys.path)}"
    screen = Terminal("restore", cwd=day, PYTHONPATH=path)
    assert "  7  " in screen.until("Number, or Enter to leave:")
    screen.type("7\n")
    screen.until("[y/N]")
    screen.type("y\n")
    assert screen.end()[0] == 0 and (day / "a.py").read_text() == "one\n"


def test_without_a_terminal_a_reference_is_needed(day):
    assert cli("restore", cwd=day).returncode == 2
    assert cli("undo", "--pick", cwd=day).returncode == 2
