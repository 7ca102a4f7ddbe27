"""An undo keeps the hooks and permissions of a user, and removes those that an agent gave itself."""

from __future__ import annotations

import json

import pytest

import tools
from play import Agent, typed

LOCAL = ".claude/settings.local.json"


@pytest.fixture
def start(project):
    (project / "a.txt").write_text("1\n")
    tools.git("init", "-q", cwd=project)
    tools.git("add", "-A", cwd=project)
    tools.git("commit", "-qm", "first", cwd=project)
    typed(project, "save", "base")
    typed(project, "install", "claude-code", "-y")
    return project


@pytest.fixture
def agent(start):
    told = Agent(start)
    told.event("SessionStart", source="startup")
    return told


def allowed(project):
    return json.loads((project / LOCAL).read_text()).get("permissions", {}).get("allow", [])


def grant(project, *rules):
    """Writes what the client writes when a person says `yes, and do not ask again`."""
    settings = json.loads((project / LOCAL).read_text())
    settings.setdefault("permissions", {})["allow"] = [*allowed(project), *rules]
    (project / LOCAL).write_text(json.dumps(settings, indent=2))


def test_an_undo_keeps_the_hooks_that_were_installed_since(start):
    (start / "a.txt").write_text("2\n")
    said = typed(start, "undo")
    assert (start / "a.txt").read_text() == "1\n" and (start / LOCAL).exists()
    assert LOCAL in said and "settings" in said
    assert "hook claude-code" in (start / LOCAL).read_text()


def test_a_restore_of_an_older_checkpoint_keeps_hooks_and_granted_permissions(start, agent):
    agent.turn("work", "echo 2 > a.txt")
    grant(start, "Bash(npm test:*)")
    agent.turn("more work", "echo 3 > a.txt")
    report = json.loads(typed(start, "--json", "restore", "base"))["report"]
    assert (start / "a.txt").read_text() == "1\n" and allowed(start) == ["Bash(npm test:*)"]
    assert [each["reason"] for each in report["kept"]] == ["agent settings"]


def test_a_permission_that_the_user_grants_while_a_tool_waits_survives_the_undo_of_the_turn(start, agent):
    agent.begin("run the tests")
    agent.bash(
        "npm test && echo 2 > a.txt", lambda: (grant(start, "Bash(npm test:*)"), (start / "a.txt").write_text("2\n"))
    )
    agent.stop()
    typed(start, "undo")
    assert (start / "a.txt").read_text() == "1\n" and allowed(start) == ["Bash(npm test:*)"]


@pytest.mark.parametrize("command", ["python sneak.py", f"cat x > {LOCAL}"])
def test_an_agent_does_not_keep_permissions_that_it_granted_itself(start, agent, command):
    before = (start / LOCAL).read_text()
    agent.begin("work")
    agent.bash(command, lambda: (grant(start, "Bash(*)"), (start / "a.txt").write_text("2\n")))
    agent.stop()
    typed(start, "undo")
    assert (start / "a.txt").read_text() == "1\n" and (start / LOCAL).read_text() == before


def test_a_restore_removes_what_an_agent_wrote_and_keeps_what_a_person_wrote_before(start, agent):
    agent.turn("work", "echo 2 > a.txt")
    grant(start, "Bash(npm test:*)")
    agent.begin("more work")
    agent.bash("python sneak.py", lambda: (grant(start, "Bash(*)"), (start / "a.txt").write_text("3\n")))
    agent.stop()
    typed(start, "restore", "base")
    assert (start / "a.txt").read_text() == "1\n" and allowed(start) == ["Bash(npm test:*)"]
    assert "hook claude-code" in (start / LOCAL).read_text()


def test_deleted_settings_come_back(start, agent):
    agent.turn("clean up", "rm -rf .claude a.txt")
    typed(start, "undo")
    assert (start / "a.txt").exists() and "hook claude-code" in (start / LOCAL).read_text()


def test_a_redo_after_an_undo_is_exact(start, agent):
    agent.begin("work")
    agent.bash("python sneak.py", lambda: (grant(start, "Bash(*)"), (start / "a.txt").write_text("2\n")))
    agent.stop()
    after = (start / LOCAL).read_text()
    typed(start, "undo")
    typed(start, "redo")
    assert (start / "a.txt").read_text() == "2\n" and (start / LOCAL).read_text() == after


def test_a_file_that_the_user_names_is_restored_whatever_it_holds(start, agent):
    agent.turn("work", "echo 2 > a.txt")
    before = (start / LOCAL).read_text()
    grant(start, "Bash(npm test:*)")
    typed(start, "restore", "latest", "--", LOCAL)
    assert (start / LOCAL).read_text() == before


def test_commands_say_that_hooks_are_gone(start, agent):
    agent.turn("work", "echo 2 > a.txt")
    assert "are gone" not in typed(start, "log")
    tools.git("add", "-A", cwd=start)
    tools.git("stash", "-q", cwd=start)
    for command in ("log", "status", "doctor"):
        said = typed(start, command)
        assert f"hooks of claude-code are gone from {LOCAL}" in said and "mulligan install claude-code" in said
    assert json.loads(tools.cli("--json", "status", cwd=start).stdout)["missing_hooks"] == [
        {"agent": "claude-code", "file": LOCAL}
    ]
    typed(start, "install", "claude-code", "-y")
    assert "are gone" not in typed(start, "log")
    typed(start, "install", "claude-code", "--uninstall", "-y")
    assert "are gone" not in typed(start, "log")
