"""
Copilot, Cline, Qwen Code, pi and Kilo, the real ones: each breaks things in two prompts, and one undo takes each back.

All but Kilo start in seconds. Kilo runs only in longer sweeps: MULLIGAN_SWEEP=10.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from clients import Project
from scripted_model import Say, Use, scripted

from conftest import _there
from tools import sweep


class Hooked(NamedTuple):
    """A client: how its tools are called, and how it is made to ask the scripted model."""

    scope: str
    shell: Callable[[str], Use]
    write: Callable[[str, str], Use]
    prepare: Callable[[Project, str, str], dict[str, str]]
    words: Callable[[str], list[str]]
    newer_node: bool = False
    slow: bool = False


def _copilot(_project: Project, url: str, _program: str) -> dict[str, str]:
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_ALLOW_ALL": "true",  # trusts the folder too
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_MODEL": "scripted",
    }


def _qwen(project: Project, url: str, _program: str) -> dict[str, str]:
    known = {"security": {"auth": {"selectedType": "openai"}}, "model": {"name": "scripted"}}
    (project.home / ".qwen").mkdir(exist_ok=True)
    (project.home / ".qwen/settings.json").write_text(json.dumps(known))
    return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "scripted"}


def _cline(project: Project, url: str, program: str) -> dict[str, str]:
    done = project.run([program, "auth", "-p", "openai-compatible", "-k", "none", "-b", f"{url}/v1", "-m", "scripted"])
    assert done.returncode == 0, done.stdout + done.stderr
    return {}


def _pi(project: Project, url: str, _program: str) -> dict[str, str]:
    folder = project.home / ".pi/agent"
    folder.mkdir(parents=True, exist_ok=True)
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "none", "models": [{"id": "scripted"}]}
    (folder / "models.json").write_text(json.dumps({"providers": {"scripted": provider}}))
    return {"PI_OFFLINE": "1"}


def _kilo(project: Project, url: str, _program: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"scripted": {}},
    }
    allowed = {"bash": "allow", "edit": "allow"}
    config = {"provider": {"scripted": provider}, "model": "scripted/scripted", "permission": allowed}
    (project.home / "kilo.json").write_text(json.dumps(config))
    locked = {"packages": {"": {"dependencies": {"@kilocode/plugin": "*", "@opencode-ai/plugin": "*"}}}}
    for folder in (Path(project.environment()["XDG_CONFIG_HOME"]) / "kilo", project.root / ".kilo"):
        (folder / "node_modules").mkdir(parents=True, exist_ok=True)
        (folder / "package-lock.json").write_text(json.dumps(locked))
    return {
        "KILO_CONFIG": str(project.home / "kilo.json"),
        "KILO_DISABLE_MODELS_FETCH": "1",
        "KILO_DISABLE_AUTOUPDATE": "1",
    }


CLIENTS = {
    "copilot": Hooked(
        "user",
        lambda command: Use("bash", {"command": command, "description": "-"}),
        lambda path, text: Use("create", {"path": path, "file_text": text}),
        _copilot,
        lambda prompt: ["-p", prompt],
    ),
    "cline": Hooked(
        "project",
        lambda command: Use("run_commands", {"commands": [command]}),
        lambda path, text: Use("editor", {"path": path, "new_text": text}),
        _cline,
        lambda prompt: [prompt],
    ),
    "qwen": Hooked(
        "project",
        lambda command: Use("run_shell_command", {"command": command, "description": "-", "is_background": False}),
        lambda path, text: Use("write_file", {"file_path": path, "content": text}),
        _qwen,
        lambda prompt: ["--yolo", "-p", prompt],
        newer_node=True,
    ),
    "pi": Hooked(
        "user",
        lambda command: Use("bash", {"command": command}),
        lambda path, text: Use("write", {"path": path, "content": text}),
        _pi,
        lambda prompt: ["--provider", "scripted", "--model", "scripted", "-p", prompt],
        newer_node=True,
    ),
    "kilo": Hooked(
        "project",
        lambda command: Use("bash", {"command": command, "description": "-"}),
        lambda path, text: Use("write", {"filePath": path, "content": text}),
        _kilo,
        lambda prompt: ["run", prompt],
        slow=True,
    ),
}


@pytest.fixture(params=CLIENTS)
def client(request):
    """The name of a client that is to run now."""
    if CLIENTS[request.param].slow and sweep(1) < 10:
        pytest.skip("the slow agents run with MULLIGAN_SWEEP=10")
    return request.param


@pytest.fixture(autouse=True)
def no_daemon_stays(agents_project):
    """Cline starts a process of its own for each home, which would outlive the test."""
    yield
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = entry.read_bytes().split(b"\0")
            if b"--cline-hub-daemon" in words and os.fsencode(agents_project.root) in words:
                os.kill(int(entry.parent.name), signal.SIGTERM)


def prepared(project: Project, name: str, url: str, cache: Path) -> tuple[str, dict[str, str]]:
    """Installs the hooks and returns the program and its variables."""
    about, program = CLIENTS[name], _there(name, cache)
    project.mulligan("install", name, "--scope", about.scope)
    env = about.prepare(project, url, program)
    if about.newer_node:
        env["PATH"] = f"{os.path.dirname(_there('node', cache))}:{os.environ['PATH']}"
    return program, env


def test_two_prompts_and_one_undo_for_each(agents_project, client, agents_cache):
    """By tool and by shell, and with a command that fails."""
    project, about = agents_project, CLIENTS[client]
    first = [about.shell("echo b > b.txt; rm -r src"), about.write(str(project.root / "new.txt"), "n\n"), Say("one.")]
    second = [about.shell("rm data.bin; rm nothere.txt; exit 3"), Say("two.")]
    with scripted({"the first": first, "the second": second}) as model:
        program, env = prepared(project, client, model.url, agents_cache)
        states = [project.everything()]
        for prompt in ("the first", "the second"):
            done = project.run([program, *about.words(prompt)], **env)
            assert done.returncode == 0, done.stdout + done.stderr
            states.append(project.everything())
    assert "src/app.py" in states[0] and "src/app.py" not in states[1] and "new.txt" in states[1]
    assert "data.bin" in states[1] and "data.bin" not in states[2]
    assert {chapter["agent"] for chapter in project.mulligan("log", "--story")["story"]} == {client}
    for earlier in (states[1], states[0]):
        project.mulligan("undo")
        assert project.everything() == earlier


def test_a_client_that_is_killed_over_a_command_is_undone(agents_project, client, agents_cache):
    project, about = agents_project, CLIENTS[client]
    breaking = [about.shell("rm -r src; echo $$ > begun; sleep 60"), Say("never.")]
    with scripted({"break it": breaking}) as model:
        program, env = prepared(project, client, model.url, agents_cache)
        before = project.everything()
        project.kill_in_the_middle([program, *about.words("break it")], **env)
    assert "src/app.py" not in project.everything()
    project.mulligan("undo")
    assert project.everything() == before
