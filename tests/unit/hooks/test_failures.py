"""When protection fails: the agent goes on, the person is told, and `status` remembers it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mulligan
from mulligan import settings
from mulligan.engine.workspace import Workspace
from mulligan.hooks.clients import CLIENTS, understand
from mulligan.hooks.handling import handle
from mulligan.safefs import syscalls
from told import hook, write
from tools import cli, cli_json, plain_environment, run_mulligan


def event(project, name="PreToolUse", **more):
    return {"session_id": "s", "cwd": str(project), "hook_event_name": name, "tool_name": "Bash", **more}


@pytest.fixture
def saved(project):
    write(project, {"a.txt": "1\n"})
    with mulligan.open(project) as ws:
        ws.save("start")
        return Path(ws.store_path)


def told(done):
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)["systemMessage"]


def test_a_store_that_cannot_be_used_stops_nobody_and_is_seen_in_status(project, saved):
    (saved / "timeline.db").write_bytes(b"no database at all" * 1000)
    for _ in range(2):
        said = told(hook("claude-code", event(project), project))
        assert "could not save this step" in said and "mulligan status" in said
    assert cli("doctor", cwd=project).returncode == 0
    write(project, {"b.txt": "2\n"})
    assert hook("claude-code", event(project), project).stdout == ""


@pytest.mark.parametrize("sent", ["no JSON", "[" * 100_000])
def test_an_event_that_cannot_be_read_is_seen_in_status(project, saved, sent):
    done = run_mulligan(["hook", "claude-code"], cwd=project, env=plain_environment(), given=sent)
    assert "mulligan status" in told(done)
    assert cli_json("status", cwd=project)["failures"]["count"] == 1


@pytest.mark.parametrize("before", [[], ["-C", "."]])
def test_no_mistake_in_the_words_of_a_hook_stops_a_tool(project, before):
    """Exit code 2 would."""
    assert cli(*before, "hook", "claude-code", "--nonsense", cwd=project).returncode == 1
    assert cli(*before, "save", "hook", "--nonsense", cwd=project).returncode == 2


def test_failures_are_counted_shown_and_begun_anew_by_doctor(project, saved):
    with open(saved / "lock", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for _ in range(3):
            busy = handle("codex", understand(CLIENTS["codex"], event(project), directory=""), impatient)
            assert "did not become free" in busy.message and not busy.ask
    status = cli_json("status", cwd=project)["failures"]
    assert status["count"] == 3 and status["last"]["agent"] == "codex" and "in use" in status["last"]["why"]
    assert "Protection failed 3 times" in cli("status", cwd=project).stdout
    assert "hooks failed 3 times" in cli("doctor", cwd=project).stdout
    assert cli_json("status", cwd=project)["failures"]["count"] == 0


def impatient(directory):
    return Workspace(settings.resolve(directory, wait=0.05))


class Full(syscalls.Calls):
    """A disk that takes no more."""

    def open(self, path, flags, *more, **options):
        if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.open(path, flags, *more, **options)


def test_a_full_disk_is_told_even_where_nothing_can_be_noted(project, saved):
    write(project, {"b.txt": "2\n"})
    with syscalls.using(Full()):
        reply = handle("claude-code", understand(CLIENTS["claude-code"], event(project), directory=""), impatient)
    assert "could not be noted" in reply.message


def test_a_hook_that_takes_too_long_gives_up_by_itself(project, saved):
    """Held up for as long as somebody holds the store; nothing is measured, the answer says what happened."""
    program = (
        "import sys; import mulligan.cli.commands.hook as hook; hook.USUALLY, hook.WAIT = 0.3, 3600.0; "
        "from mulligan.cli import main; sys.exit(main(['hook', 'claude-code']))"
    )
    with open(saved / "lock", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(event(project)),
            cwd=project,
            env=plain_environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert "took too long" in told(done)
    assert cli_json("status", cwd=project)["failures"]["count"] == 1


def test_a_client_that_never_closes_stdin_is_not_waited_for(project):
    program = (
        "import sys; import mulligan.cli.commands.hook as hook; hook.USUALLY = 0.3; "
        "from mulligan.cli import main; sys.exit(main(['hook', 'claude-code']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=project,
        env=plain_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as agent:
        assert "took too long" in agent.stdout.read()
        assert agent.wait() == 0


def test_a_directory_that_is_never_protected_is_said_once(private_home):
    first = told(hook("claude-code", event(private_home, "SessionStart"), private_home))
    assert "does not protect" in first
    assert hook("claude-code", event(private_home), private_home).stdout == ""


def test_a_mistake_in_the_user_s_configuration_stops_no_hook_and_status_tells_it(project, private_home):
    folder = private_home / "xdg-config" / "mulligan"
    folder.mkdir()
    (folder / "config.toml").write_text('[hooks]\ndestructive = "perhaps"\n')
    assert hook("claude-code", event(project), project).stdout == ""
    assert 'must be "off", "save" or "ask"' in cli("status", cwd=project).stderr


DESTRUCTIVE = ["rm -rf build", "cd x && git reset --hard HEAD~3", "git clean -fdx", "git push --force origin main"]


@pytest.mark.parametrize("policy", ["off", "save", "ask"])
def test_destructive_commands_are_saved_told_or_asked_about(project, private_home, policy):
    write(project, {"a.txt": "1\n", "build/out.txt": "1\n"})
    folder = private_home / "xdg-config" / "mulligan"
    folder.mkdir()
    (folder / "config.toml").write_text(f'[hooks]\ndestructive = "{policy}"\n')

    def answer(agent, command):
        payload = event(project, tool_input={"command": command})
        return handle(agent, understand(CLIENTS[agent], payload, directory=""), mulligan.open)

    for command in ("ls -la", "echo x > y", "python build.py", "git commit -am x"):
        assert answer("claude-code", command) == ("", "", "")
    for command in DESTRUCTIVE:
        said, ask, _ = answer("claude-code", command)
        assert (bool(said), bool(ask)) == {"off": (False, False), "save": (True, False), "ask": (False, True)}[policy]
        # Codex refuses to be asked: there the person is told.
        assert bool(answer("codex", command).message) == (policy != "off")


@pytest.mark.parametrize(
    "words", [["-C", "{project}", "hook", "claude-code"], ["hook", "-C", "{project}", "claude-code"]]
)
def test_a_hook_that_is_told_where_is_about_that_place_wherever_the_agent_stands(project, saved, tmp_path, words):
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, {"b.txt": "1\n"})
    write(project, {"a.txt": "2\n"})
    typed, sent = [word.format(project=project) for word in words], json.dumps(event(elsewhere))
    assert run_mulligan(typed, cwd=elsewhere, env=plain_environment(), given=sent).returncode == 0
    assert cli_json("log", cwd=project)["checkpoints"][0]["files_changed"] == ["a.txt"]
    assert not Path(settings.resolve(elsewhere).store).exists()
