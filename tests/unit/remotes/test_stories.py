"""What agents did on one machine is read on another: the story travels with the checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet import bare_repository, joined, machine
from mulligan.mcp import shapes
from mulligan.model.event import AgentEvent
from tools import cli
from tree import put

SESSION = "6f1d0c52-one"


@pytest.fixture
def url(tmp_path):
    return bare_repository(tmp_path / "srv.git")


def turn(ws, asked: str, path: str, text: str, session: str = SESSION) -> None:
    """One prompt with one tool call that writes a file."""
    ws.record(AgentEvent("claude-code", session, "prompt", call=asked, text=asked))
    ws.record(AgentEvent("claude-code", session, "before", tool="Write", call=f"{asked}!", text=path))
    put(Path(ws.root), path, text)
    ws.record(AgentEvent("claude-code", session, "after", tool="Write", call=f"{asked}!", text=path))
    ws.record(AgentEvent("claude-code", session, "stop"))


def told(chapters) -> list:
    return [
        (each.machine, each.text, [(one.name, one.text, one.changed) for one in each.happened]) for each in chapters
    ]


TWO = [
    ("laptop", "now the tests", [("Write", "test_app.py", ("test_app.py",))]),
    ("laptop", "add a page", [("Write", "app.py", ("app.py",))]),
]


@pytest.fixture
def laptop(tmp_path, url):
    with machine(tmp_path, "laptop", url) as ws:
        turn(ws, "add a page", "app.py", "1\n")
        turn(ws, "now the tests", "test_app.py", "2\n")
        yield ws


@pytest.mark.parametrize("lazy", [False, True])
def test_a_clone_tells_what_agents_did_on_the_other_machine(tmp_path, url, laptop, lazy):
    laptop.push()
    with joined(tmp_path, "desk", url, lazy=lazy) as desk:
        assert told(desk.story()) == TWO
        assert [each.ref for each in desk.story()] == [f"laptop:@{SESSION}/prompt-{n}" for n in (2, 1)]
        assert all(each.ended and each.certain for each in desk.story())
        assert desk.cat(desk.story()[0].ref, "app.py") == b"1\n"
        assert desk.get("laptop:@after-prompt-2").id == laptop.get("@after-prompt-2").id
        assert desk.get("laptop:@before:the tests").id == laptop.get("@prompt-2").id
        assert told(laptop.story()) == [("", *each[1:]) for each in TWO]


def test_the_stories_of_two_machines_are_told_together(tmp_path, url, laptop):
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        turn(desk, "one more", "more.py", "3\n", session="desk-session")
        assert [(each.machine, each.text) for each in desk.story()] == [
            ("", "one more"),
            ("laptop", "now the tests"),
            ("laptop", "add a page"),
        ]
        assert len(desk.story(limit=2)) == 2
        assert [each.text for each in desk.story(session="6f1d")] == ["now the tests", "add a page"]
        assert [each.text for each in desk.story(grep="tests")] == ["now the tests"]
        assert {each.machine for each in desk.log(grep="now the tests")} == {"laptop"}
        # A report is about this machine's agents.
        assert "now the tests" not in json.dumps(desk.report().to_dict())
        assert desk.undo().created == []
        assert not (Path(desk.root) / "more.py").exists()
        turn(laptop, "third", "third.py", "3\n")
        laptop.push()
        desk.pull()
        assert [each.text for each in desk.story(limit=1)] == ["third"]


def test_a_remote_tells_the_story_without_a_pull(tmp_path, url, laptop):
    laptop.push()
    with machine(tmp_path, "other", bare_repository(tmp_path / "empty.git")) as other:
        assert other.remotes.story("team") == []
    assert told(laptop.remotes.story("team")) == TWO
    assert [each.text for each in laptop.remotes.story("team", limit=1)] == ["now the tests"]


def test_a_turn_that_ended_after_the_last_checkpoint_is_told_too(tmp_path, url, laptop):
    laptop.push()
    assert laptop.remotes.behind() == []
    with joined(tmp_path, "desk", url) as desk:
        laptop.record(AgentEvent("claude-code", SESSION, "prompt", call="q", text="what does it do?"))
        laptop.record(AgentEvent("claude-code", SESSION, "stop"))
        assert laptop.remotes.behind() == ["team"]
        sent = laptop.push()
        assert (sent.checkpoints, sent.segments) == (0, 1)
        desk.pull()
        assert desk.story()[0].text == "what does it do?"
        assert desk.story()[0].ended


def test_a_forgotten_path_and_a_deleted_checkpoint_are_not_in_a_story(tmp_path, url, laptop):
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        laptop.forget("app.py")
        gone = laptop.story()[0].happened[0].checkpoint
        laptop.delete(gone)
        laptop.push()
        desk.pull()
        expected = [(name, asked, [(*one[:2], ()) for one in happened]) for name, asked, happened in TWO]
        assert told(desk.story()) == expected
        assert told(desk.remotes.story()) == expected


def test_what_this_machine_forgot_is_not_named_by_a_story_of_a_remote(tmp_path, url, laptop):
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        desk.forget("app.py")
        assert [each.changed for chapter in desk.remotes.story() for each in chapter.happened] == [
            ("test_app.py",),
            (),
        ]


def test_a_history_that_was_sent_anew_still_tells_its_story(tmp_path, url, laptop):
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        turn(laptop, "third", "third.py", "3\n")
        laptop.remotes.push("team", full=True)
        desk.pull()
        assert told(desk.story())[1:] == TWO
        with joined(tmp_path, "late", url) as late:
            assert told(late.story()) == told(desk.story())


def test_many_pushes_are_told_once_and_in_order(tmp_path, url, laptop):
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        for number in range(4):
            turn(laptop, f"step {number}", "app.py", f"{number}\n")
            laptop.push()
        desk.pull()
        desk.remotes.pull(everything=True)
        texts = [each.text for each in desk.story()]
        assert texts == ["step 3", "step 2", "step 1", "step 0", "now the tests", "add a page"]
        assert all(len(each.happened) == 1 for each in desk.story())


def test_the_command_line_shows_the_story_of_another_machine(tmp_path, url, laptop):
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        words, where = ("--store", desk.settings.store, "log"), {"cwd": Path(desk.root)}
    shown = cli(*words, "--story", **where)
    assert "now the tests" in shown.stdout
    assert "claude-code 6f1d0c52 on laptop" in shown.stdout
    asked = cli(*words, "--story", "--remote", "-n", "1", **where)
    assert "now the tests" in asked.stdout
    assert "add a page" not in asked.stdout
    none = cli(*words, "--story", "--remote", "--grep", "no such words", **where)
    assert "No prompt to show." in none.stderr
    refused = cli(*words, "--remote", "--since", "yesterday", **where)
    assert refused.returncode == 2
    assert "--remote lists all checkpoints" in refused.stderr


def test_a_model_gets_a_reference_with_the_machine(tmp_path, url, laptop):
    laptop.push()
    with joined(tmp_path, "desk", url) as desk:
        view = shapes.TOLD.show({"chapters": desk.story(), "more": False})["chapters"][0]
    assert (view["machine"], view["ref"]) == ("laptop", f"laptop:@{SESSION}/prompt-2")
