"""Clients at odd moments: an event that is no JSON, a server started in the home directory, an uninstalled mulligan."""

from __future__ import annotations

import json
import subprocess

import pytest

import tools
from play import Agent, typed


@pytest.mark.parametrize("sent", ["no JSON", "[" * 100_000, '{"session_id": ', "\x00\x01"])
def test_an_event_that_is_no_json_is_one_clear_line_and_no_report(project, private_home, sent):
    (project / "a.txt").write_text("1\n")
    typed(project, "save", "base")
    done = tools.run_mulligan(["hook", "claude-code"], cwd=project, env=tools.plain_environment(), given=sent)
    said = json.loads(done.stdout)["systemMessage"]
    assert said == (
        "mulligan could not save this step: the event that the agent sent is no JSON that can be read. See: mulligan status"
    )
    assert done.stderr == "" and not list(private_home.rglob("*report*"))


def test_the_mcp_server_serves_in_a_home_directory_and_answers_with_the_reason(private_home):
    pytest.importorskip("mcp")
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "status", "arguments": {}}},
    ]
    with subprocess.Popen(
        tools.mulligan_argv("mcp"), cwd=private_home, env=tools.plain_environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        answers = []
        for message in asked:
            server.stdin.write(json.dumps(message) + "\n")
            server.stdin.flush()
            if "id" in message:
                answers.append(json.loads(server.stdout.readline()))
        server.stdin.close()
        assert server.wait(timeout=60) == 0, server.stderr.read()
    assert answers[0]["result"]["serverInfo"]["name"] == "mulligan"
    assert {"save", "undo", "status"} <= {tool["name"] for tool in answers[1]["result"]["tools"]}
    result = answers[2]["result"]
    assert result["isError"] and "home" in json.dumps(result["content"])


def test_hooks_that_outlive_mulligan_say_how_to_end_it(project):
    typed(project, "install", "claude-code", "-y")
    settings = json.loads((project / ".claude/settings.local.json").read_text())
    command = settings["hooks"]["Stop"][0]["hooks"][0]["command"]
    gone = command.replace(command.split()[0], "/nonexistent/python")
    done = subprocess.run(["/bin/sh", "-c", gone], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["systemMessage"] == (
        "mulligan was uninstalled, so this session has no undo. "
        "Reinstall it, or remove the hooks from .claude/settings.local.json."
    )


def test_cursor_gets_a_neutral_answer(project):
    (project / "a.txt").write_text("1\n")
    event = {"hook_event_name": "preToolUse", "conversation_id": "c", "workspace_roots": [str(project)]}
    sent = json.dumps({**event, "tool_name": "Shell", "tool_input": {"command": "ls"}})
    done = tools.run_mulligan(["hook", "cursor"], cwd=project, env=tools.plain_environment(), given=sent)
    assert json.loads(done.stdout) == {}


def test_sessions_are_shown_by_names_that_can_be_typed(project):
    ids = ["01a1eb9d-1111-7aaa-8bbb-000000000001", "01a1eb9d-1112-7aaa-8bbb-000000000002", "ses_e145xyz"]
    (project / "a.txt").write_text("0\n")
    for number, session in enumerate(ids):
        Agent(project, session).turn("work", f"echo {number} > f{number}.txt")
    story = typed(project, "log", "--story")
    shown = ["01a1eb9d-1111", "01a1eb9d-1112", "ses_e145"]
    assert all(f"claude-code {name}," in story for name in shown)
    for number, name in enumerate(shown):
        typed(project, "undo", "--session", name)
        assert not (project / f"f{number}.txt").exists()


def test_doctor_says_that_gemini_does_not_trust_the_folder(project, private_home):
    (project / "a.txt").write_text("1\n")
    typed(project, "install", "gemini", "-y")
    assert "trust the folder" in typed(project, "doctor")
    (private_home / ".gemini").mkdir()
    (private_home / ".gemini/trustedFolders.json").write_text(json.dumps({str(project.parent): "TRUST_FOLDER"}))
    assert "no events yet" in typed(project, "doctor") and "trust the folder" not in typed(project, "doctor")


def test_doctor_knows_the_plugin(project, private_home):
    (private_home / ".claude/plugins").mkdir(parents=True)
    (private_home / ".claude/plugins/installed_plugins.json").write_text('{"plugins": {"mulligan@mulligan": []}}')
    (project / "a.txt").write_text("1\n")
    assert "claude-code  hooks installed, no events yet" in typed(project, "doctor")
    Agent(project).turn("work", "echo 2 > a.txt")
    assert "claude-code  hooks installed and working" in typed(project, "doctor")


def test_doctor_hears_an_agent_whose_settings_file_is_newer_than_its_last_event(project):
    (project / "a.txt").write_text("1\n")
    typed(project, "install", "claude-code", "-y")
    Agent(project).turn("work", "echo 2 > a.txt")
    settings = project / ".claude/settings.local.json"
    settings.write_text(settings.read_text())
    assert "claude-code  hooks installed and working" in typed(project, "doctor")
