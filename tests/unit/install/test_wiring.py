"""Agents are wired up by editing their files: what a person wrote there stays, and everything can be taken back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import cycle
from pathlib import Path

import pytest
import yaml

import mulligan
from mulligan.install.agents import AGENTS, Here
from mulligan.install.checkup import codex_untrusted
from mulligan.install.hook_files import with_hooks, without_hooks
from mulligan.install.targets import Home
from mulligan.model.plan import is_agent_settings
from tools import cli, cli_json, git, plain_environment
from watchers import build_client

JSON_AGENTS = {
    "claude-code": ".claude/settings.local.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/hooks.json",
    "copilot": ".github/hooks/mulligan.json",
    "qwen": ".qwen/settings.json",
    "openhands": ".openhands/hooks.json",
    "droid": ".factory/settings.local.json",
    "letta": ".letta/settings.local.json",
    "auggie": ".augment/settings.local.json",
}
PLACES = JSON_AGENTS | {
    "opencode": ".opencode/plugin/mulligan.js",
    "kilo": ".kilo/plugin/mulligan.js",
    "pi": ".pi/extensions/mulligan.ts",
    "cline": ".clinerules/hooks/PreToolUse",
    "goose": ".agents/plugins/mulligan/hooks/hooks.json",
    "vibe": ".vibe/hooks.toml",
    "aider": ".aider.conf.yml",
}
MINE = {
    "permissions": {"allow": ["Bash(ls)"], "ü": "é"},
    "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "my-own"}]}]},
}


@pytest.fixture(autouse=True)
def no_client(monkeypatch):
    """Hooks start Python, whatever is installed beside these tests."""
    monkeypatch.setenv("MULLIGAN_NATIVE", "0")


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """The native client beside its script, compiled once."""
    return build_client(tmp_path_factory.mktemp("programs")).parent


@pytest.fixture
def installed(tmp_path, monkeypatch, programs):
    """The native client of an installation, as its list of files names it."""
    listed = tmp_path / "site" / f"mulligan-{mulligan.__version__}.dist-info"
    listed.mkdir(parents=True)
    (listed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mulligan\nVersion: {mulligan.__version__}\n")
    (listed / "RECORD").write_text("mulligan/__init__.py,,\n../programs of ours/mulligan-client,,\n")
    shutil.copytree(programs, tmp_path / "programs of ours")
    monkeypatch.delenv("MULLIGAN_NATIVE")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}")
    return tmp_path / "programs of ours" / "mulligan-client"


def install(project, *words, expect=0):
    return cli_json("install", *words, cwd=project, expect=expect)


def entries(project):
    return sorted(str(path.relative_to(project)) for path in project.rglob("*"))


@pytest.mark.parametrize("agent", PLACES)
def test_install_twice_then_uninstall_leaves_nothing(project, agent):
    assert {step["action"] for step in install(project, agent, "--dry-run")["steps"]} == {"create"}
    assert entries(project) == []
    assert {step["action"] for step in install(project, agent)["steps"]} == {"create"}
    text = (project / PLACES[agent]).read_text()
    assert "mulligan" in text and sys.executable in text
    assert {step["action"] for step in install(project, agent)["steps"]} == {"unchanged"}
    assert (project / PLACES[agent]).read_text() == text
    install(project, agent, "--uninstall")
    assert entries(project) == []
    assert install(project, agent, "--uninstall")["steps"] == []


@pytest.mark.parametrize(("agent", "indent"), list(zip(JSON_AGENTS, cycle([None, 2, 4, "\t"]), strict=False)))
def test_settings_that_are_there_stay_byte_for_byte(project, agent, indent):
    file = project / JSON_AGENTS[agent]
    file.parent.mkdir(parents=True)
    before = json.dumps(MINE, indent=indent, ensure_ascii=False) + "\n"
    file.write_text(before)
    install(project, agent)
    merged = json.loads(file.read_text())
    assert merged["permissions"] == MINE["permissions"]
    assert MINE["hooks"]["PreToolUse"][0] in merged["hooks"]["PreToolUse"]
    install(project, agent, "--uninstall")
    assert file.read_text() == before


@pytest.mark.parametrize(
    "before", ['{"model" :  "x",\n\n "a":[1,\n2]}\n', '{ "model": "x" }', "{}", '{"hooks": {}, "x": 1}', "\n{\r\n}\r\n"]
)
def test_a_file_in_its_own_style_comes_back_as_it_was(before):
    wanted = {"Stop": [{"hooks": [{"type": "command", "command": "py -m mulligan hook codex"}]}]}
    merged = with_hooks(before, wanted, "codex", {}, "f")
    assert json.loads(merged)["hooks"] == wanted
    assert {**json.loads(merged), "hooks": None} == {**json.loads(before), "hooks": None}
    after = without_hooks(merged, "codex", {}, "f")
    assert json.loads(after or "{}") == {key: value for key, value in json.loads(before).items() if value != {}}
    if after is not None and "hooks" not in before:
        assert after == before


def test_only_our_handler_leaves_a_group_that_is_shared(project):
    install(project, "claude-code")
    file = project / JSON_AGENTS["claude-code"]
    settings = json.loads(file.read_text())
    settings["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "notify-send done"})
    file.write_text(json.dumps(settings))
    install(project, "claude-code", "--uninstall")
    assert json.loads(file.read_text()) == {
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "notify-send done"}]}]}
    }


@pytest.mark.parametrize("text", ["{", "[1]", '{"hooks": []}', '{"hooks": {"Stop": {}}}', "// a comment\n{}", "\0"])
@pytest.mark.parametrize("words", [[], ["--uninstall"]])
def test_what_cannot_be_read_is_left_alone(project, text, words):
    file = project / JSON_AGENTS["claude-code"]
    file.parent.mkdir()
    file.write_text(text)
    done = cli("install", "claude-code", *words, cwd=project)
    assert done.returncode == 1 and "left alone" in done.stderr
    assert file.read_text() == text


def test_a_link_below_a_project_is_not_followed_and_one_below_home_is(project, private_home, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.symlink(elsewhere, project / ".claude")
    assert cli("install", "claude-code", cwd=project).returncode == 1
    assert os.listdir(elsewhere) == []
    os.symlink(elsewhere, private_home / ".claude")
    install(project, "claude-code", "--scope", "user")
    assert os.listdir(elsewhere) == ["settings.json"]


@pytest.mark.parametrize(
    ("agent", "variable", "file"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("codex", "CODEX_HOME", "hooks.json"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/plugin/mulligan.js"),
        ("claude-skill", "CLAUDE_CONFIG_DIR", "skills/checkpoint-manager/SKILL.md"),
    ],
)
def test_an_agent_that_lives_elsewhere_is_wired_up_there(project, tmp_path, monkeypatch, agent, variable, file):
    """Hooks in a directory that its agent does not read protect nobody."""
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    monkeypatch.setenv(variable, str(elsewhere))
    install(project, agent, "--scope", "user")
    assert (elsewhere / file).is_file()
    if agent != "claude-skill":
        assert cli_json("doctor", cwd=project)["agents"][0]["files"] == [str(elsewhere / file)]
    install(project, agent, "--scope", "user", "--uninstall")
    assert not (elsewhere / file).exists()


@pytest.mark.parametrize("value", ["", "not/a/whole/path"])
def test_a_variable_that_names_no_directory_counts_for_nothing(project, private_home, monkeypatch, value):
    monkeypatch.setenv("CODEX_HOME", value)
    install(project, "codex", "--scope", "user")
    assert (private_home / ".codex/hooks.json").is_file()


def test_aider_is_told_where_its_first_commands_are_wherever_it_is_started(project, private_home):
    for root, words in ((project, ()), (private_home, ("--scope", "user"))):
        install(project, "aider", *words)
        settings = yaml.safe_load((root / ".aider.conf.yml").read_text())
        commands = Path(settings["load"]).read_text()
        assert "/test" in commands and commands.count("hook aider session") == 1
        assert "hook aider stop" in settings["notifications-command"] and settings["notifications"] is True
        assert (f"cd {project} &&" in commands) == (root == project)


@pytest.mark.parametrize(
    "old",
    [
        "/gone/python -P -m mulligan hook claude-code",
        "'/gone/python of mine' -P -c 'from mulligan.cli import process; raise SystemExit(process())' hook claude-code",
        "/gone/bin/mulligan-client hook claude-code || echo gone",
        "'/gone/bin of mine/mulligan-client' hook claude-code || echo gone",
    ],
)
def test_an_older_installation_is_brought_up_to_date(project, old):
    file = project / JSON_AGENTS["claude-code"]
    file.parent.mkdir()
    old = {"type": "command", "command": old, "timeout": 5}
    file.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [old]}], "OldEvent": [{"hooks": [old]}]}}))
    assert [step["action"] for step in install(project, "claude-code")["steps"]] == ["update"]
    assert "/gone" not in file.read_text() and "OldEvent" not in file.read_text()


@pytest.mark.parametrize("agent", PLACES)
def test_an_installation_with_the_native_client_writes_it_into_hooks(project, installed, agent):
    install(project, agent)
    text = (project / PLACES[agent]).read_text()
    assert str(installed) in text and sys.executable not in text
    assert {step["action"] for step in install(project, agent)["steps"]} == {"unchanged"}
    if agent in JSON_AGENTS:
        assert cli_json("doctor", cwd=project)["agents"][0]["files"] == [str(project / PLACES[agent])]
    install(project, agent, "--uninstall")
    assert entries(project) == []


def test_the_native_client_in_a_hook_saves_and_says_when_mulligan_is_gone(project, installed):
    (project / "a").write_text("1")
    install(project, "claude-code")
    handlers = json.loads((project / JSON_AGENTS["claude-code"]).read_text())["hooks"]
    event = {
        "hook_event_name": "PostToolUse",
        "session_id": "s",
        "cwd": str(project),
        "tool_name": "Edit",
        "tool_input": {},
    }

    def run() -> str:
        line = handlers["PostToolUse"][0]["hooks"][0]["command"]
        words = {"cwd": project, "env": plain_environment(), "input": json.dumps(event), "text": True}
        return subprocess.run(
            line, shell=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, **words
        ).stdout

    assert run() == ""
    assert cli_json("log", cwd=project)["checkpoints"][0]["kind"] == "step"
    for gone in (installed.with_name("mulligan"), installed):
        gone.unlink()
        assert "was uninstalled" in json.loads(run())["systemMessage"]
    (agent,) = cli_json("doctor", cwd=project)["agents"]
    assert f"{installed} is gone" in agent["problem"]
    # The next installation has no client: its hooks start Python.
    install(project, "claude-code")
    assert sys.executable in (project / JSON_AGENTS["claude-code"]).read_text()


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini", "cursor"])
def test_the_command_works_wherever_the_agent_stands_and_imports_nothing_from_the_project(project, name):
    """Modules of the project must not be imported: whoever wrote it would decide what runs."""
    install(project, name)
    text = (project / JSON_AGENTS[name]).read_text()
    groups = next(iter(json.loads(text)["hooks"].values()))
    command = groups[0]["hooks"][0]["command"] if "hooks" in groups[0] else groups[0]["command"]
    for module in ("mulligan", "json", "argparse"):
        (project / f"{module}.py").write_text("import os; os.makedirs('TAKEN')")
    done = subprocess.run(
        command,
        shell=True,
        cwd=project,
        env=plain_environment(),
        input="{}",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "" and not (project / "TAKEN").exists()


def test_a_vanished_python_is_said_in_the_agents_channel_and_stops_nobody(project, tmp_path):
    command = AGENTS["claude-code"].project[0].put(None, Here((str(tmp_path / "gone" / "python"), "-m", "mulligan")))
    line = json.loads(command)["hooks"]["Stop"][0]["hooks"][0]["command"]
    done = subprocess.run(line, shell=True, cwd=project, input="{}", capture_output=True, text=True, check=True)
    assert "was uninstalled" in json.loads(done.stdout)["systemMessage"]


@pytest.mark.parametrize("end", ["", "exit 0\n", "exec true\n"])
def test_git_hooks_run_beside_what_was_there_and_never_fail_a_commit(project, end):
    git("init", "-q", cwd=project)
    hook = project / ".git/hooks/post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\necho mine >> "$(git rev-parse --git-dir)/seen"\n{end}')
    hook.chmod(0o755)
    install(project, "git")
    (project / "a").write_text("1\n")
    git("add", "a", cwd=project)
    git(
        "-c",
        "core.hooksPath=.git/hooks",
        "commit",
        "-qm",
        "one",
        cwd=project,
        PYTHONPATH=os.environ.get("PYTHONPATH", ""),
    )
    assert (project / ".git/seen").read_text() == "mine\n"
    newest = cli_json("log", cwd=project)["checkpoints"][0]
    assert newest["metadata"]["agent"]["agent"] == "git" and newest["description"] == "post-commit"
    install(project, "git", "--uninstall")
    assert hook.read_text() == f'#!/bin/sh\necho mine >> "$(git rev-parse --git-dir)/seen"\n{end}'
    assert sorted(path.name for path in hook.parent.iterdir() if not path.name.endswith(".sample")) == ["post-commit"]


@pytest.mark.parametrize("script", ["#!/usr/bin/env python3\nprint(1)\n", "#!/usr/bin/perl\nprint 1;\n"])
def test_a_hook_in_another_language_is_left_alone(project, script):
    git("init", "-q", cwd=project)
    hook = project / ".git/hooks/post-merge"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(script)
    done = cli("install", "git", cwd=project)
    assert done.returncode == 1 and "nothing was written" in done.stderr
    assert hook.read_text() == script and not (project / ".git/hooks/post-commit").exists()


def test_a_plugin_of_somebody_else_is_left_alone(project):
    plugin = project / ".opencode/plugin/mulligan.js"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("// mine\n")
    assert cli("install", "opencode", cwd=project).returncode == 1
    assert plugin.read_text() == "// mine\n"


def test_a_git_hook_that_may_not_be_executed_is_left_alone_and_said(project):
    """Git would pass over it, and our part with it; whoever took the permission away had a reason."""
    git("init", "-q", cwd=project)
    hook = project / ".git/hooks/post-merge"
    hook.write_text("#!/bin/sh\nexit 0\n")
    hook.chmod(0o644)
    done = cli("install", "git", cwd=project)
    assert done.returncode == 1 and "git does not run it" in done.stderr and "chmod +x" in done.stderr
    assert hook.read_text() == "#!/bin/sh\nexit 0\n" and not (project / ".git/hooks/post-commit").exists()
    hook.chmod(0o755)
    install(project, "git")
    hook.chmod(0o644)  # and afterwards, the doctor says it
    wired = {each["agent"]: each["problem"] for each in cli_json("doctor", cwd=project, expect=0)["agents"]}
    assert "git does not run it" in wired["git"]


def test_a_git_hook_of_ours_alone_that_lost_its_permission_gets_it_back(project):
    git("init", "-q", cwd=project)
    install(project, "git")
    hook = project / ".git/hooks/post-commit"
    hook.chmod(0o644)
    install(project, "git")
    assert hook.stat().st_mode & 0o111


def test_git_cannot_be_wired_up_for_everything(project):
    assert cli("install", "git", "--scope", "user", cwd=project).returncode == 1
    assert cli("install", "git", cwd=project).returncode == 1


def test_doctor_says_that_codex_does_not_trust_hooks_that_nobody_approved(project, private_home):
    install(project, "codex", "--scope", "user")
    (agent,) = cli_json("doctor", cwd=project)["agents"]
    assert agent["agent"] == "codex" and "does not trust 6" in agent["problem"] and "/hooks" in agent["problem"]
    path = private_home / ".codex/hooks.json"
    states = [
        f'[hooks.state."{path}:{event}:0:0"]\ntrusted_hash = "sha256:x"\n'
        for event in ("session_start", "user_prompt_submit", "pre_tool_use", "post_tool_use", "stop")
    ]
    (private_home / ".codex/config.toml").write_text("\n".join(states))
    assert codex_untrusted(str(path), Home(str(private_home))) == ["SessionEnd"]


def test_doctor_says_when_the_python_of_the_hooks_is_gone(project):
    install(project, "claude-code")
    file = project / JSON_AGENTS["claude-code"]
    file.write_text(file.read_text().replace(sys.executable, "/no/such/python"))
    (agent,) = cli_json("doctor", cwd=project)["agents"]
    assert "/no/such/python is gone" in agent["problem"]


@pytest.mark.skipif(shutil.which("node") is None, reason="NODE IS MISSING: the plugin for opencode was not looked at")
def test_the_opencode_plugin_is_javascript(project):
    install(project, "opencode")
    plugin = (project / PLACES["opencode"]).read_bytes()
    subprocess.run(["node", "--input-type=module", "--check"], input=plugin, check=True)


def test_an_undo_treats_every_file_of_an_agent_with_care():
    """What is installed into a project, git's own hooks aside, is in the list that restores look at."""
    files = [edit.path for agent in AGENTS.values() for edit in agent.project if not edit.path.startswith(".git/")]
    assert [path for path in files if not is_agent_settings(path.encode())] == []
