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


def deeds(agent):
    lines = (FOLDER / f"{agent.partition('-')[0]}.jsonl").read_text().splitlines()
    told = [understand(CLIENTS[agent], json.loads(line), directory="") for line in lines]
    return [each.deed for each in told if each.deed is not None], [each for each in told if each.deed is not None]


@pytest.mark.parametrize("agent", TOLD)
def test_recorded_events_are_understood(agent):
    found, events = deeds(agent)
    seen = [(deed.kind, deed.tool, deed.text.split(" <task-id>")[0], deed.paths) for deed in found]
    assert seen == TOLD[agent]
    assert len({deed.session for deed in found}) == 1 and found[0].session
    assert {event.directory for event in events} == {"/home/dev/project"}


@pytest.mark.parametrize("agent", ["claude-code", "codex", "opencode", "cursor"])
def test_the_end_of_a_call_has_the_id_of_its_beginning(agent):
    found, _ = deeds(agent)
    begun = {deed.call for deed in found if deed.kind == "before"}
    ended = {
        deed.call for deed in found if deed.kind in {"after", "failed"} and deed.tool != "Edit" and deed.text != "false"
    }
    assert begun and "" not in begun and ended <= begun


def test_claude_code_says_who_and_what_goes_on():
    found, _ = deeds("claude-code")
    people = [deed.person for deed in found if deed.kind == "prompt"]
    assert people == [True, False]
    assert [deed.pending for deed in found if deed.kind == "stop"] == [1, 0]
    assert [bool(deed.subagent) for deed in found if deed.text == "echo sub > sub.txt"] == [True, True]
    assert all(deed.transcript.endswith(".jsonl") for deed in found)


def test_codex_says_what_a_subagent_does_and_its_own_tools_for_them_are_no_work():
    found, _ = deeds("codex")
    assert [bool(deed.subagent) for deed in found if "deep/sub.txt" in deed.text] == [True, True]
    assert not [deed for deed in found if "agent" in deed.tool]


@pytest.mark.parametrize("agent", TOLD)
def test_silence_and_sentences_are_in_the_form_that_the_client_reads(agent):
    _, events = deeds(agent)
    for event in events:
        quiet = rendered(agent, event, Reply())
        assert quiet == "" or (agent == "cursor" and json.loads(quiet) in ({}, {"continue": True}))
        said = json.loads(rendered(agent, event, Reply("trouble")) or "{}")
        if agent != "cursor":
            assert said == {"systemMessage": "trouble"}
    before = next(event for event in events if event.deed.kind == "before")
    asked = json.loads(rendered(agent, before, Reply(ask="sure?")))
    assert "ask" in json.dumps(asked) and "sure?" in json.dumps(asked)
