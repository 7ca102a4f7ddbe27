"""`mulligan hook --as NAME`: any agent that sends events in the form of Claude Code, under its own name."""

from __future__ import annotations

import json

import pytest

import mulligan
from tools import cli, cli_json, plain_environment, run_mulligan


def tell(project, *words, env=None, **payload):
    event = {"session_id": "s", "cwd": str(project), **payload}
    env = plain_environment(**(env or {}))
    done = run_mulligan(["hook", *words], cwd=project, env=env, given=json.dumps(event))
    assert done.returncode == 0, done.stderr
    return done.stdout


def a_turn(project, *words, prompt="do it", file="new", **more):
    """A prompt, and a command that makes a file."""
    tell(project, *words, hook_event_name="UserPromptSubmit", prompt=prompt, **more)
    call = {"tool_name": "shell", "tool_input": {"command": f"touch {file}"}}
    tell(project, *words, hook_event_name="PreToolUse", **call, **more)
    (project / file).write_text("made\n")
    tell(project, *words, hook_event_name="PostToolUse", **call, **more)


def test_an_unknown_agent_is_protected_under_its_name_and_one_undo_takes_one_prompt_back(project):
    (project / "a").write_text("1")
    a_turn(project, "--as", "my-agent", file="one")
    a_turn(project, "--as", "my-agent", file="two")
    story = cli_json("log", "--story", cwd=project)["story"]
    assert {chapter["agent"] for chapter in story} == {"my-agent"} and len(story) == 2
    cli("undo", cwd=project)
    assert (project / "one").exists() and not (project / "two").exists()


def test_an_empty_prompt_after_a_tool_does_not_split_the_turn(project):
    (project / "a").write_text("1")
    a_turn(project, "--as", "qwen", file="one")
    tell(project, "--as", "qwen", hook_event_name="UserPromptSubmit", prompt="")
    call = {"tool_name": "edit", "tool_input": {"file_path": str(project / "a")}}
    tell(project, "--as", "qwen", hook_event_name="PreToolUse", **call)
    (project / "a").write_text("2")
    tell(project, "--as", "qwen", hook_event_name="PostToolUse", **call)
    cli("undo", cwd=project)
    assert not (project / "one").exists() and (project / "a").read_text() == "1"


@pytest.mark.parametrize("own_hooks", [False, True])
def test_copilot_that_reads_the_hooks_of_claude_code_has_its_own_name_and_is_heard_once(project, own_hooks):
    (project / "a").write_text("1")
    cli_json("install", "copilot" if own_hooks else "claude-code", cwd=project)
    env = {"COPILOT_CLI": "1", "COPILOT_PROJECT_DIR": str(project)}
    a_turn(project, "claude-code", env=env, timestamp="2026-11-18T07:27:23.379Z")
    with mulligan.open(project) as ws:
        assert [each.event.agent for each in ws.agent_events()] == ([] if own_hooks else ["copilot"] * 3)


def test_a_first_word_must_be_an_agent_that_has_a_row(project):
    assert "knows no agent called 'nonsense'" in tell(project, "nonsense", hook_event_name="Stop")
