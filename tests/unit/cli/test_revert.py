"""`mulligan revert`, and `-p` of restore, undo and revert, as a person types them."""

from __future__ import annotations

import pytest

import mulligan
from mulligan.model.event import AFTER, BEFORE, PROMPT, STOP, AgentEvent
from tools import at_a_terminal, cli, cli_json
from tree import put

LINES = "".join(f"line {number}\n" for number in range(1, 21))


@pytest.fixture
def told(project):
    """A project in which an agent changed both ends of a file for one prompt, and a person its middle."""
    put(project, "a", LINES)
    ws = mulligan.open(project)
    ws.save("start")
    ws.record(AgentEvent("claude-code", "1bd24cd5", PROMPT, text="both ends"))
    ws.record(AgentEvent("claude-code", "1bd24cd5", BEFORE, tool="Bash", call="1"))
    put(project, "a", changed(1, 20))
    put(project, "junk", "x\n")
    ws.record(AgentEvent("claude-code", "1bd24cd5", AFTER, tool="Bash", call="1"))
    ws.record(AgentEvent("claude-code", "1bd24cd5", STOP))
    put(project, "a", changed(1, 10, 20))
    return project


def changed(*numbers):
    text = LINES
    for number in numbers:
        text = text.replace(f"line {number}\n", f"changed {number}\n")
    return text


def test_revert_says_what_it_did_and_how_to_undo_it(told):
    done = cli("revert", "@prompt-1", cwd=told)
    assert done.returncode == 0
    assert done.stdout.startswith('Reverted prompt 1 "both ends" (')
    assert "restored a; removed junk. Undo: mulligan undo\nKept later changes in: a.\n" in done.stdout
    assert (told / "a").read_text() == changed(10)
    assert cli("undo", cwd=told).stdout.startswith('Undid the revert of prompt 1 "both ends"')
    assert (told / "a").read_text() == changed(1, 10, 20)


def test_a_conflict_shows_both_sides_and_ends_with_3(told):
    put(told, "a", changed(1, 20).replace("changed 1\n", "mine\n"))
    done = cli("revert", "@prompt-1", cwd=told)
    assert done.returncode == 3
    assert "Conflict in a, line 1:\n  now     mine\n  before  line 1\n" in done.stdout
    document = cli_json("revert", "@prompt-1", "--markers", cwd=told, expect=3)
    assert [each["path"] for each in document["report"]["conflicts"]] == ["a"]
    assert (told / "a").read_text().startswith("<<<<<<< now\nmine\n=======\nline 1\n>>>>>>> before prompt 1")


def test_the_plan_of_a_revert_changes_nothing(told):
    plan = cli_json("revert", "@tool-1", "--dry-run", cwd=told)["plan"]
    assert (plan["modifies"], plan["deletes"], plan["merged"]) == (["a"], ["junk"], ["a"])
    assert (told / "junk").exists()
    assert cli("revert", "@prompt-1", "--dry-run", cwd=told).stdout.startswith("Would revert prompt 1")


@pytest.mark.parametrize("words", [["revert", "@prompt-1"], ["restore", "start"], ["undo"]])
def test_choosing_hunks_needs_a_terminal(told, words):
    done = cli(*words, "-p", cwd=told)
    assert done.returncode == 2
    assert "no terminal" in done.stderr
    assert (told / "a").read_text() == changed(1, 10, 20)


@pytest.mark.parametrize(
    ("words", "typed", "expected", "junk"),
    [
        (["revert", "@prompt-1"], "y\nn\nn\n", changed(10, 20), True),
        (["revert", "@prompt-1"], "?\nn\na\ny\n", changed(1, 10), False),
        (["restore", "start"], "n\ny\nq\n", changed(1, 20), True),
        (["restore", "start"], "a\ny\n", LINES, False),
        (["restore", "start"], "d\ny\n", changed(1, 10, 20), False),
        (["undo", "--session", "1bd2"], "v\ny\nq\n", changed(10, 20), True),
    ],
)
def test_chosen_hunks_are_all_that_changes(told, words, typed, expected, junk):
    code, shown = at_a_terminal(*words, "-p", cwd=told, typed=typed)
    assert code == 0, shown
    assert (told / "a").read_text() == expected
    assert (told / "junk").exists() == junk
    cli("undo" if words[0] != "undo" else "redo", cwd=told)
    assert (told / "a").read_text() == changed(1, 10, 20)
    assert (told / "junk").exists()


def test_no_chosen_hunk_changes_nothing(told):
    code, shown = at_a_terminal("revert", "@prompt-1", "-p", cwd=told, typed="q\n")
    assert code == 1
    assert "nothing changed" in shown
    assert (told / "a").read_text() == changed(1, 10, 20)


def test_a_long_hunk_fits_the_screen(told):
    put(told, "a", "".join(f"other {number}\n" for number in range(200)))
    code, shown = at_a_terminal("restore", "start", "-p", cwd=told, typed="q\n", LINES="24", COLUMNS="80")
    assert code == 1
    assert "more lines; v shows all" in shown
    assert len(shown.splitlines()) <= 30
