"""`mulligan serve`: what a program hears is what the commands print, and what other processes save."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import plain_environment
from tree import put

ROOT = Path(__file__).resolve().parents[3]


class Conversation:
    """One `mulligan serve`."""

    def __init__(self, project, directory, *options):
        words = [sys.executable, "-m", "mulligan", "serve", *options]
        self.project = project
        self.process = subprocess.Popen(
            words,
            cwd=directory,
            env=plain_environment(MULLIGAN_WATCH="0"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def hear(self):
        return json.loads(self.process.stdout.readline())

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, *words, **more):
        self.say(json.dumps({"v": 1, "id": words[0], "run": list(words), **more}))
        return self.hear()

    def run(self, *words):
        """Runs a command in a process of its own."""
        command = [sys.executable, "-m", "mulligan", *words]
        environment = plain_environment(MULLIGAN_WATCH="0")
        done = subprocess.run(command, cwd=self.project, env=environment, capture_output=True, check=True)
        return json.loads(done.stdout)


@pytest.fixture
def conversation(project):
    begun = []

    def begin(*options):
        begun.append(Conversation(project, begin.directory, *options))
        assert begun[-1].hear()["event"] == "ready"
        return begun[-1]

    begin.directory = project
    yield begin
    for each in begun:
        each.process.stdin.close()
        assert each.process.wait() == 0
        each.process.stdout.close()


def test_an_answer_is_the_document_of_the_command(project, conversation):
    put(project, "a.txt", "one\n")
    host = conversation()
    saved = host.ask("save", "first")
    assert (saved["v"], saved["id"], saved["exit"]) == (1, "save", 0)
    assert host.ask("log")["result"] == host.run("--json", "log")
    assert host.ask("show", "first")["result"] == host.run("--json", "show", "first")


def test_an_undo_of_a_host_is_the_undo_of_the_engine(project, conversation):
    put(project, "a.txt", "one\n")
    host = conversation()
    host.ask("save", "first")
    put(project, "a.txt", "two\n")
    assert host.ask("undo")["result"]["report"]["modified"] == ["a.txt"]
    assert (project / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        '{"v": 2, "id": 1, "run": ["save"]}',
        '{"v": 1, "id": 1}',
        '{"v": 1, "id": 1, "run": "save"}',
        '{"v": 1, "id": 1, "run": ["mcp"]}',
        '{"v": 1, "id": 1, "run": ["save"], "stdin": 5}',
        '{"v": 1, "id": 1, "run": ["no such command"]}',
    ],
)
def test_what_is_no_request_runs_nothing_and_the_conversation_goes_on(project, conversation, line):
    put(project, "a.txt", "one\n")
    host = conversation()
    host.say(line)
    answer = host.hear()
    assert answer["exit"] == 2
    assert answer["result"]["error"]["message"]
    assert host.ask("log")["result"] == {"checkpoints": []}


def test_requests_are_about_the_workspace_that_serve_was_started_for(project, conversation, tmp_path):
    put(project, "a.txt", "one\n")
    put(tmp_path / "other", "b.txt", "two\n")
    (tmp_path / "elsewhere").mkdir()
    conversation.directory = tmp_path / "elsewhere"
    host = conversation("-C", str(project))
    assert host.ask("save", "first")["result"]["checkpoint"]["files_changed"] == ["a.txt"]
    other = host.ask("save", "second", "-C", str(tmp_path / "other"))
    assert other["result"]["checkpoint"]["files_changed"] == ["b.txt"]
    assert len(host.ask("log")["result"]["checkpoints"]) == 1


def test_a_follower_hears_of_checkpoints_that_others_make(project, conversation):
    put(project, "a.txt", "one\n")
    host = conversation("--follow")
    made = host.run("--json", "save", "from elsewhere")["checkpoint"]
    assert host.hear() == {"v": 1, "event": "checkpoint", "checkpoint": made}
    assert host.hear() == {"v": 1, "event": "position", "position": made["id"]}


def test_a_follower_hears_nothing_again_where_the_newest_checkpoint_is_deleted(project, conversation):
    host = conversation("--follow")
    for number in range(3):
        put(project, "a.txt", f"{number}\n")
        host.run("--json", "save", f"n{number}")
        assert [host.hear()["event"], host.hear()["event"]] == ["checkpoint", "position"]
    host.run("--json", "rm", "n2", "-y")
    put(project, "a.txt", "after\n")
    made = host.run("--json", "save", "after")["checkpoint"]
    heard = []
    while "after" not in [each.get("checkpoint", {}).get("name") for each in heard]:
        heard.append(host.hear())
    assert [each["checkpoint"] for each in heard if each["event"] == "checkpoint"] == [made]


@pytest.mark.parametrize("options", [[], ["--follow"]], ids=["plain", "following"])
def test_requests_may_come_from_a_file_and_the_last_line_needs_no_newline(project, tmp_path, options):
    put(project, "a.txt", "one\n")
    (tmp_path / "requests").write_text('{"v": 1, "id": 1, "run": ["save"]}\n{"v": 1, "id": 2, "run": ["log"]}')
    with (tmp_path / "requests").open() as requests:
        done = subprocess.run(
            [sys.executable, "-m", "mulligan", "serve", *options],
            cwd=project, env=plain_environment(MULLIGAN_WATCH="0"), stdin=requests, capture_output=True, check=True,
        )  # fmt: skip
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["exit"] for each in said if "id" in each] == [0, 0]


@pytest.mark.parametrize("end", ["\n", ""], ids=["an empty line", "the end of the input"])
def test_the_example_host_undoes_a_command(project, end):
    put(project, "a.txt", "precious\n")
    script = "rm a.txt\n:undo\n" + end
    programs = project.parent / "bin"
    programs.mkdir()
    (programs / "mulligan").write_text(f'#!/bin/sh\nexec {sys.executable} -m mulligan "$@"\n')
    (programs / "mulligan").chmod(0o755)
    environment = plain_environment(MULLIGAN_WATCH="0", PATH=f"{programs}:{os.environ['PATH']}")
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "host.py", project],
        env=environment, input=script, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "created: a.txt" in done.stdout
    assert (project / "a.txt").read_text() == "precious\n"
