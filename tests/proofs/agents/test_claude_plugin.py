"""The plugin in the real Claude Code: valid, installable, and one slash command takes back what the agent did."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from clients import PATIENCE, claude_argv, claude_variables, trust_claude
from scripted_model import Say, Use, scripted

from mulligan.install import agents

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "src" / "mulligan"
PLUGIN = PACKAGE / "plugin"
TOOL = "mcp__plugin_mulligan_mulligan__"


@pytest.fixture
def equipped(agents_project):
    """A project, a person who trusts it, and `mulligan` on the path."""
    trust_claude(agents_project)
    program = agents_project.home / "bin" / "mulligan"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m mulligan "$@"\n')
    program.chmod(0o755)
    return agents_project


def run(project, *argv, **more):
    env = project.environment(**more)
    env["PATH"] = f"{project.home / 'bin'}:{env['PATH']}"
    done = subprocess.run(
        argv,
        cwd=project.root,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def turn(project, claude, script, prompt, *more):
    with scripted({"": script}) as model:
        argv = claude_argv(claude, prompt, "--allowedTools", f"Bash,Write,Edit,{TOOL}undo,{TOOL}redo,{TOOL}save", *more)
        said = run(project, *argv, **claude_variables(model.url))
    return json.loads(said)


def bash(command):
    return Use("Bash", {"command": command, "description": "-"})


@pytest.mark.parametrize("what", [PLUGIN, PACKAGE, ROOT], ids=["plugin", "package", "checkout"])
def test_claude_code_finds_no_fault_with_the_manifests(equipped, claude, what):
    assert "Validation passed" in run(equipped, claude, "plugin", "validate", str(what))


@pytest.mark.parametrize("marketplace", [PACKAGE, ROOT], ids=["package", "checkout"])
def test_the_plugin_installs_from_a_marketplace_file_and_works(equipped, claude, marketplace):
    before = equipped.everything()
    run(equipped, claude, "plugin", "marketplace", "add", str(marketplace))
    run(equipped, claude, "plugin", "install", "mulligan@mulligan")
    assert "enabled" in run(equipped, claude, "plugin", "list")
    turn(equipped, claude, [bash("rm -rf src; echo x > a.txt"), Say("done")], "break it")
    assert equipped.everything() != before
    equipped.mulligan("undo")
    assert equipped.everything() == before


def test_one_slash_command_takes_back_the_whole_turn_whatever_made_the_changes(equipped, claude):
    before = equipped.everything()
    breaking = [
        Use("Write", {"file_path": str(equipped.root / "new.txt"), "content": "n\n"}),
        bash("rm -rf src data.bin; chmod 600 run.sh; echo broken > run.sh"),
        bash("mkdir -p deep && echo x > deep/x && ln -sf /etc/passwd link"),
        Say("All done."),
    ]
    plugin = ("--plugin-dir", str(PLUGIN))
    turn(equipped, claude, breaking, "break it", *plugin)
    broken = equipped.everything()
    assert "deep/x" in broken and "src/app.py" not in broken
    turn(equipped, claude, [Use(f"{TOOL}undo", {}), Say("taken back")], "/mulligan:undo", *plugin)
    assert equipped.everything() == before
    turn(equipped, claude, [Use(f"{TOOL}redo", {}), Say("again")], "bring it forward", *plugin)
    assert equipped.everything() == broken


def test_without_the_program_the_agent_works_on_and_the_start_of_the_session_says_so(equipped):
    script = PLUGIN / "bin" / "mulligan.sh"
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": "", "HOME": str(equipped.home)}
    env["PATH"] = str(equipped.home / "tools")
    Path(env["PATH"]).mkdir()
    (Path(env["PATH"]) / "cat").symlink_to("/bin/cat")

    def started(*words, said):
        return subprocess.run(
            ["/bin/sh", script, *words], env=env, input=said, capture_output=True, text=True, check=False, timeout=60
        )

    first = started("hook", "claude-code", said='{"hook_event_name": "SessionStart"}')
    assert first.returncode == 0 and "not installed" in json.loads(first.stdout)["systemMessage"]
    later = started("hook", "claude-code", said='{"hook_event_name": "PreToolUse"}')
    assert (later.returncode, later.stdout, later.stderr) == (0, "", "")
    server = started("mcp", said="")
    assert server.returncode == 1 and "pip install" in server.stderr


def test_the_hooks_of_the_plugin_are_those_that_install_writes():
    """After a change of events: the plugin's hooks.json is the same, with its own command."""
    plugin = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())["hooks"]
    command = 'sh "${CLAUDE_PLUGIN_ROOT}/bin/mulligan.sh" hook claude-code'
    assert plugin == agents._CLAUDE.groups(command, agents._events(agents._ALL, agents._CLAUDE_TOOLS), agents._SECONDS)


def test_the_manifests_agree_with_the_package():
    import mulligan

    assert json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())["version"] == mulligan.__version__
    shipped = json.loads((PACKAGE / ".claude-plugin" / "marketplace.json").read_text())
    shipped["plugins"][0]["source"] = "./src/mulligan/plugin"
    assert json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text()) == shipped
    assert {path.stem for path in (PLUGIN / "commands").glob("*.md")} == {"undo", "timeline", "restore"}
