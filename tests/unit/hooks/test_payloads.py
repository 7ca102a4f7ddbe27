"""
What each client really sends, and what we take it for.

The payloads were recorded from Claude Code 2.1, Codex 0.166, Gemini CLI 0.61 and our plugin in opencode 1.18, with paths made plain and long
answers of tools cut; Cursor cannot be run here, so its are written from its documentation.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mulligan.hooks.clients import CLIENTS, understand
from mulligan.hooks.events import Reply
from mulligan.hooks.replies import rendered

FOLDER = Path(__file__).parent / "payloads"
TOLD = {
    "claude-code": [
        ("session", "", "", ()),
        ("prompt", "", "do the thing", ()),
        ("before", "Write", "new.txt", ("new.txt",)),
        ("after", "Write", "new.txt", ("new.txt",)),
        ("before", "Edit", "a.txt", ("a.txt",)),
        ("after", "Edit", "a.txt", ("a.txt",)),
        ("before", "Bash", "echo x > sh.txt; exit 3", ()),
        ("failed", "Bash", "echo x > sh.txt; exit 3", ()),
        ("before", "Agent", "sub", ()),
        ("before", "Bash", "echo sub > sub.txt", ()),
        ("after", "Bash", "echo sub > sub.txt", ()),
        ("subagent", "", "", ()),
        ("after", "Agent", "sub", ()),
        ("before", "Bash", "sleep 1; echo late > late.txt", ()),
        ("after", "Bash", "sleep 1; echo late > late.txt", ()),
        ("stop", "", "", ()),
        ("prompt", "", "<task-notification>", ()),
        ("stop", "", "", ()),
        ("end", "", "", ()),
    ],
    "codex": [
        ("session", "", "", ()),
        ("prompt", "", "do it", ()),
        ("before", "Bash", "echo from-shell > sh.txt; ls", ()),
        ("after", "Bash", "echo from-shell > sh.txt; ls", ()),
        ("before", "apply_patch", "patched.txt, a.txt", ("patched.txt", "a.txt")),
        ("after", "apply_patch", "patched.txt, a.txt", ("patched.txt", "a.txt")),
        ("before", "Bash", "mkdir deep && echo sub > deep/sub.txt", ()),
        ("after", "Bash", "mkdir deep && echo sub > deep/sub.txt", ()),
        ("stop", "", "", ()),
        ("end", "", "", ()),
    ],
    "gemini": [
        ("session", "", "", ()),
        ("prompt", "", "do it", ()),
        ("before", "write_file", "new.txt", ("new.txt",)),
        ("after", "write_file", "new.txt", ("new.txt",)),
        ("before", "run_shell_command", "echo sh > sh.txt; exit 2", ()),
        ("after", "run_shell_command", "echo sh > sh.txt; exit 2", ()),
        ("before", "replace", "a.txt", ("a.txt",)),
        ("after", "replace", "a.txt", ("a.txt",)),
        ("stop", "", "do it", ()),
        ("end", "", "", ()),
    ],
    "opencode": [
        ("session", "", "", ()),
        ("prompt", "", '"break it"', ()),
        ("before", "write", "new.txt", ("new.txt",)),
        ("after", "write", "new.txt", ("new.txt",)),
        ("before", "bash", "rm a.txt; exit 2", ()),
        ("after", "bash", "rm a.txt; exit 2", ()),
        ("stop", "", "", ()),
    ],
    "copilot": [
        ("session", "", "", ()),
        ("prompt", "", "do it", ()),
        ("before", "Bash", "echo b > b.txt", ()),
        ("after", "Bash", "echo b > b.txt", ()),
        ("before", "Edit", "a.txt", ("a.txt",)),
        ("failed", "Edit", "a.txt", ("a.txt",)),
        ("stop", "", "", ()),
        ("end", "", "", ()),
    ],
    "qwen": [
        ("session", "", "", ()),
        ("prompt", "", "do it", ()),
        ("before", "run_shell_command", "echo b > b.txt", ()),
        ("after", "run_shell_command", "echo b > b.txt", ()),
        ("before", "edit", "a.txt", ("a.txt",)),
        ("failed", "edit", "a.txt", ("a.txt",)),
        ("stop", "", "", ()),
    ],
    "cline": [
        ("prompt", "", "", ()),
        ("before", "run_commands", "echo b > b.txt", ()),
        ("after", "run_commands", "echo b > b.txt", ()),
        ("before", "editor", "c.txt", ("c.txt",)),
        ("failed", "editor", "c.txt", ("c.txt",)),
        ("stop", "", "", ()),
    ],
    "openhands": [
        ("session", "", "", ()),
        ("prompt", "", "do it", ()),
        ("before", "terminal", "echo b > b.txt", ()),
        ("after", "terminal", "echo b > b.txt", ()),
        ("before", "file_editor", "c.txt", ("c.txt",)),
        ("after", "file_editor", "c.txt", ("c.txt",)),
        ("stop", "", "", ()),
        ("end", "", "", ()),
    ],
    "cursor": [
        ("session", "", "", ()),
        ("prompt", "", "do it", ()),
        ("before", "Shell", "rm -rf build", ()),
        ("after", "Shell", "rm -rf build", ()),
        ("after", "Edit", "a.txt", ("a.txt",)),
        ("failed", "Shell", "false", ()),
        ("stop", "", "", ()),
        ("end", "", "", ()),
    ],
}


def recorded(agent):
    lines = (FOLDER / f"{agent.partition('-')[0]}.jsonl").read_text().splitlines()
    told = [understand(CLIENTS[agent], json.loads(line), directory="") for line in lines]
    return [each.event for each in told if each.event is not None], [each for each in told if each.event is not None]


@pytest.mark.parametrize("agent", TOLD)
def test_recorded_events_are_understood(agent):
    found, calls = recorded(agent)
    seen = [(event.kind, event.tool, event.text.split(" <task-id>")[0], event.paths) for event in found]
    assert seen == TOLD[agent]
    assert len({event.session for event in found}) == 1 and found[0].session
    assert {event.directory for event in calls} == {"/home/dev/project"}


@pytest.mark.parametrize("agent", ["claude-code", "codex", "opencode", "cursor", "qwen", "cline"])
def test_the_end_of_a_call_has_the_id_of_its_beginning(agent):
    found, _ = recorded(agent)
    begun = {event.call for event in found if event.kind == "before"}
    ended = {
        event.call
        for event in found
        if event.kind in {"after", "failed"} and event.tool != "Edit" and event.text != "false"
    }
    assert begun and "" not in begun and ended <= begun


def test_claude_code_says_who_and_what_goes_on():
    found, _ = recorded("claude-code")
    people = [event.person for event in found if event.kind == "prompt"]
    assert people == [True, False]
    assert [event.pending for event in found if event.kind == "stop"] == [1, 0]
    assert [bool(event.subagent) for event in found if event.text == "echo sub > sub.txt"] == [True, True]
    assert all(event.transcript.endswith(".jsonl") for event in found)


def test_codex_says_what_a_subagent_does_and_its_own_tools_for_them_are_no_work():
    found, _ = recorded("codex")
    assert [bool(event.subagent) for event in found if "deep/sub.txt" in event.text] == [True, True]
    assert not [event for event in found if "agent" in event.tool]


@pytest.mark.parametrize("agent", TOLD)
def test_silence_and_sentences_are_in_the_form_that_the_client_reads(agent):
    _, calls = recorded(agent)
    for event in calls:
        quiet = rendered(agent, event, Reply())
        assert quiet == "" or (agent == "cursor" and json.loads(quiet) in ({}, {"continue": True}))
        said = json.loads(rendered(agent, event, Reply("trouble")) or "{}")
        if agent == "cline":
            assert said == {"cancel": False, "contextModification": "trouble"}
        elif agent != "cursor":
            assert said == {"systemMessage": "trouble"}
    if not CLIENTS[agent].asks:
        return
    before = next(event for event in calls if event.event.kind == "before")
    asked = json.loads(rendered(agent, before, Reply(ask="sure?")))
    assert "ask" in json.dumps(asked) and "sure?" in json.dumps(asked)


@pytest.mark.parametrize(("tool", "recorded"), [("file_system.bash", True), ("vibe.todo", False)])
def test_vibe_names_its_tools_with_their_group(tool, recorded, tmp_path):
    """As Mistral Vibe 3.0.2 sent it, shortened."""
    payload = {"hook_event_name": "pre_tool", "session_id": "909a", "tool_name": tool, "tool_call_id": "call_1"}
    event = understand(CLIENTS["vibe"], {**payload, "tool_input": {}}, directory=str(tmp_path)).event
    assert (event is not None) == recorded
