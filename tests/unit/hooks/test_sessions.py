"""What hooks make of a session: checkpoints with their cause, one undo per turn, references by prompt and tool."""

from __future__ import annotations

import pytest

import mulligan
from told import Session, files, hook, write
from tools import cli, cli_json


@pytest.fixture
def start(project):
    write(project, {"a.txt": "hello\n", "src/b.txt": "b\n"})
    return files(project)


@pytest.fixture
def session(project, start):
    told = Session(project, "s1")
    told.tell("SessionStart", source="startup")
    return told


def checkpoints(project):
    return [each.to_dict() for each in mulligan.open(project).log()]


def undo(project):
    return mulligan.open(project).undo()


def test_each_change_is_a_step_with_its_cause(project, session):
    session.prompt("make it better")
    session.does("echo 2 > a.txt", {"a.txt": "2\n"})
    newest = checkpoints(project)[0]
    cause = newest["metadata"]["agent"]
    assert newest["kind"] == "step" and newest["files_changed"] == ["a.txt"]
    assert newest["description"] == "Bash: echo 2 > a.txt"
    assert (cause["agent"], cause["session"], cause["when"]) == ("claude-code", "s1", "after")
    assert (cause["prompt"], cause["tool"], cause["name"], cause["input"]) == (1, 1, "Bash", "echo 2 > a.txt")


def test_where_nothing_changed_there_is_no_checkpoint(project, session):
    session.prompt("look around")
    session.does("ls", {})
    session.stop()
    assert len(checkpoints(project)) == 1


def test_one_undo_takes_back_a_whole_turn_and_the_next_one_the_turn_before(project, session, start):
    session.prompt("first")
    session.does("one", {"a.txt": "1\n"})
    session.does("two", {"new.txt": "n\n"})
    session.stop()
    after_first = files(project)
    session.prompt("second")
    session.does("three", {"a.txt": None, "src/b.txt": "x\n"})
    session.does("four", {"c.txt": "c\n"}, failed=True)
    session.stop()
    broken = files(project)
    undo(project)
    assert files(project) == after_first
    undo(project)
    assert files(project) == start
    with pytest.raises(mulligan.NothingToUndo):
        undo(project)
    mulligan.open(project).redo()
    assert files(project) == after_first
    mulligan.open(project).redo()
    assert files(project) == broken


def test_a_turn_that_changed_nothing_is_no_operation(project, session, start):
    session.prompt("change")
    session.does("one", {"a.txt": "1\n"})
    session.does("two", {"a.txt": "2\n"})
    session.stop()
    session.prompt("explain")
    session.stop()
    undo(project)
    assert files(project) == start


def test_what_a_person_changed_after_the_turn_is_kept(project, session, start):
    session.prompt("change")
    session.does("one", {"a.txt": "1\n", "src/b.txt": "by the agent\n"})
    session.stop()
    write(project, {"a.txt": "mine\n", "mine.txt": "mine\n"})
    report = undo(project)
    assert files(project) == {**start, "a.txt": "mine\n", "mine.txt": "mine\n"}
    assert [keep.path for keep in report.kept] == ["a.txt"] and not report.complete


def test_an_agent_that_was_killed_in_the_middle_of_a_tool_loses_its_whole_turn_to_one_undo(project, session, start):
    session.prompt("change")
    session.does("one", {"a.txt": "1\n"})
    session.before("Bash", command="half of it")
    write(project, {"half.txt": "half\n", "src/b.txt": None})
    undo(project)
    assert files(project) == start


def test_prompts_and_tools_are_references(project, session, start):
    session.prompt("first: the migration")
    session.does("one", {"a.txt": "1\n"})
    session.stop()
    session.prompt("second")
    session.does("two", {"a.txt": "2\n"})
    session.does("ls", {})
    session.stop()
    ws = mulligan.open(project)
    seen = {ref: ws.cat(ref, "a.txt") for ref in ("@prompt-1", "@prompt-2", "@tool-1", "@tool-2", "@tool-3")}
    assert seen == {
        "@prompt-1": b"hello\n",
        "@prompt-2": b"1\n",
        "@tool-1": b"hello\n",
        "@tool-2": b"1\n",
        "@tool-3": b"2\n",
    }
    assert ws.cat("@after-tool-1", "a.txt") == b"1\n" and ws.cat("@after-prompt-2", "a.txt") == b"2\n"
    assert ws.cat("@s1/prompt-2", "a.txt") == b"1\n"
    assert ws.cat("@before:THE MIGRATION", "a.txt") == b"hello\n"
    for unknown in ("@prompt-9", "@tool-0", "@nobody/prompt-1", "@before:no such words"):
        with pytest.raises(mulligan.UnknownCheckpoint):
            ws.get(unknown)


def test_the_same_event_told_by_two_installed_hooks_counts_once(project, session):
    session.prompt("change")
    call = session.before("Bash", command="x")
    session.tell("PreToolUse", **call)
    write(project, {"a.txt": "1\n"})
    session.after(call)
    session.after(call)
    session.does("y", {"a.txt": "2\n"})
    numbers = [each["metadata"]["agent"]["tool"] for each in checkpoints(project)[:-1]]
    assert numbers == [2, 1]


def test_a_notification_is_no_prompt_of_a_person_and_background_work_belongs_to_its_turn(project, session, start):
    session.prompt("start the server")
    session.does("server &", {"a.txt": "1\n"})
    session.stop(background_tasks=[{"id": "b1"}])
    write(project, {"late.txt": "from the background\n"})
    session.tell("UserPromptSubmit", prompt="<task-notification>\n<task-id>b1</task-id>", prompt_id="n1")
    session.stop()
    assert checkpoints(project)[0]["metadata"]["agent"]["prompt"] == 1
    undo(project)
    assert files(project) == start


def test_a_turn_longer_than_what_is_kept_is_still_taken_back_whole(project, private_home, session, start):
    folder = private_home / "xdg-config" / "mulligan"
    folder.mkdir()
    (folder / "config.toml").write_text("[retention]\nstep = 4\n")
    session.prompt("work hard")
    for number in range(12):
        session.does("x", {"a.txt": f"{number}\n"})
    session.stop()
    assert len(checkpoints(project)) < 8
    undo(project)
    assert files(project) == start


def test_events_without_a_prompt_are_taken_back_one_by_one(project, start):
    """As git tells them, and as a session does in which hooks were installed while it ran."""
    for number in (1, 2, 3):
        write(project, {"a.txt": f"{number}\n"})
        assert cli("hook", "git", "after", "post-commit", cwd=project).returncode == 0
    undo(project)
    assert files(project)["a.txt"] == "2\n"
    undo(project)
    assert files(project)["a.txt"] == "1\n"


def test_a_prompt_after_a_kill_begins_a_new_turn(project, session):
    session.prompt("first")
    session.before("Bash", command="x")
    write(project, {"a.txt": "killed\n"})
    session.prompt("again")
    killed = files(project)
    session.does("y", {"a.txt": "2\n"})
    session.stop()
    undo(project)
    assert files(project) == killed


def test_secrets_in_commands_and_prompts_are_left_out(project, session):
    session.prompt("use token=ghp_0123456789abcdefghijABCDEFGHIJ0123456789 please")
    session.does("curl -H 'Authorization: Bearer abcdefghijklmnop' https://joe:hunter2@example.org", {"a.txt": "1\n"})
    told = str(checkpoints(project)) + str(mulligan.open(project).agent_events())
    assert "left-out" in told
    for secret in ("ghp_0123", "abcdefghijklmnop", "hunter2"):
        assert secret not in told


def test_reading_tools_touch_no_store(project, start):
    for tool in ("Read", "Grep", "WebSearch"):
        payload = {"session_id": "s", "cwd": str(project), "hook_event_name": "PreToolUse", "tool_name": tool}
        assert hook("claude-code", payload, project).stdout == ""
    assert cli_json("stores", cwd=project)["stores"] == []


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{", '{"hook_event_name": 7}', '{"hook_event_name": "PreToolUse"', "\x00\xff", '"x"']
)
def test_whatever_comes_on_stdin_the_agent_goes_on(project, text):
    done = hook("claude-code", None, project, text=text)
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize("words", [[], ["nobody"], ["claude-code", "x", "y"], ["--odd"], ["claude-code", "--odd"]])
def test_an_odd_command_line_never_exits_with_the_code_that_stops_tools(project, words):
    assert cli("hook", *words, cwd=project).returncode in {0, 1}
