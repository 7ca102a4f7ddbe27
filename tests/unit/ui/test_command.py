"""`mulligan ui` as a program: its one line of JSON, the second one that finds the first, and the exported file."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

import tools
from mulligan.ui.export import MARK, export, redacted_lines
from timelines import Agent, shop
from tools import ServingCommand

pytest.importorskip("starlette")


def start(project, store, *words):
    return ServingCommand("--store", store, "--json", "ui", "--no-open", *words, cwd=project)


def log_in(url):
    host, _, token = url.removeprefix("http://").partition("/#")
    link = HTTPConnection(host)
    headers = {"Content-Type": "application/json", "Origin": f"http://{host}"}
    link.request("POST", "/api/login", json.dumps({"token": token}), headers)
    status = link.getresponse().status
    link.close()
    return status


def test_one_server_per_project_prints_its_address_and_the_second_finds_it(project, store):
    shop(project, store)
    first = start(project, store)
    try:
        url = json.loads(first.stdout.readline())["url"]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#[\w-]{43}", url)
        second = start(project, store)
        code, said, _ = second.finish()
        again = json.loads(said)["url"]
        assert code == 0 and again.partition("#")[0] == url.partition("#")[0] and again != url
        assert log_in(url) == log_in(again) == 200
        notes = [
            os.path.join(where, name) for where, _, names in os.walk(os.environ["XDG_RUNTIME_DIR"]) for name in names
        ]
        assert notes and all(os.stat(name).st_mode & 0o077 == 0 for name in notes)
    finally:
        ended = first.end()
    assert ended == (0, "", "")
    assert not [name for name in os.listdir(os.path.dirname(notes[0])) if name.endswith(".json")]


def missed(url, seen):
    """Logs in as a page whose server was started again, and returns the first event after the last one that it saw."""
    host, _, token = url.removeprefix("http://").partition("/#")
    headers = {"Content-Type": "application/json", "Origin": f"http://{host}"}
    with closing(HTTPConnection(host, timeout=30)) as link:
        link.request("POST", "/api/login", json.dumps({"token": token}), headers)
        answer = link.getresponse()
        answer.read()
        cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
        if seen is None:
            link.request("GET", "/api/steps", headers=cookie)
            return json.loads(link.getresponse().read())["version"]
        link.request("GET", "/api/events", headers={**cookie, "Last-Event-ID": seen})
        told = {}
        with link.getresponse() as stream:
            while "data" not in told:
                name, _, value = stream.readline().decode().strip().partition(": ")
                told[name] = value
        return told["event"], json.loads(told["data"])


def test_a_server_that_was_killed_and_started_again_tells_a_page_what_it_missed(project, store):
    workspace = shop(project, store)
    agent = Agent(workspace, "gemini", "restarted")
    first = start(project, store)
    url = json.loads(first.stdout.readline())["url"]
    agent.prompt("seen before")
    seen = missed(url, None)
    first.end(signal.SIGKILL)
    agent.prompt("asked while no server ran")
    agent.tool("Edit", "README.md", lambda: (project / "README.md").write_text("away\n"))
    workspace.save("saved while no server ran")
    second = start(project, store)
    try:
        again = json.loads(second.stdout.readline())["url"]
        assert again.partition("#")[0] == url.partition("#")[0]  # where the open page asks
        name, news = missed(again, seen)
        assert name == "steps" and news["removed"] == [] and news["position"] == workspace.position()
        texts = [each.get("name") or each["text"] for each in news["entries"]]
        assert texts == [
            "saved while no server ran",
            "asked while no server ran",
            "seen before",
        ]  # which is interrupted now
        workspace.undo()
        assert missed(again, seen)[0] == "reset"  # older entries changed too: the page loads again
    finally:
        second.end()


def test_a_port_that_is_taken_is_named(project, store):
    shop(project, store)
    first = start(project, store)
    try:
        port = json.loads(first.stdout.readline())["url"].split(":")[2].split("/")[0]
        other = project.parent / "other"
        other.mkdir()
        second = start(other, other.parent / "other store", "--port", port)
        code, said, _ = second.finish()
        assert code == 1 and f"Port {port}" in json.loads(said)["error"]["message"]
    finally:
        first.end(signal.SIGINT)


def test_without_the_extra_the_command_says_what_to_install(project):
    hide = "import sys; sys.modules['starlette'] = None; sys.modules['uvicorn'] = None; from mulligan.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", hide, "ui"],
        cwd=project,
        capture_output=True,
        text=True,
        env=tools.plain_environment(),
        check=False,
    )
    assert done.returncode == 1 and "pip install 'mulligan[ui]'" in done.stderr


def test_an_export_is_one_file_without_secrets(project, store):
    workspace = shop(project, store)
    agent = Agent(workspace, "claude-code", "export")
    agent.prompt("use the token ghp_0123456789abcdefghijABCDEFGHIJ012345 please")
    secret = (
        'password = "hunter2-secret"\n-----BEGIN RSA PRIVATE KEY-----\nAAAAB3NzaC1yc2E\n-----END RSA PRIVATE KEY-----\n'
    )
    agent.tool("Write", "settings.py", lambda: (project / "settings.py").write_text(secret))
    agent.tool("Write", "x.html", lambda: (project / "x.html").write_text("</script><script>alert(1)</script>\n"))
    page, entries = export(workspace, None, "0")
    text = page.decode()
    assert page.startswith(MARK) and entries == 1
    for said in ("hunter2", "ghp_0123456789", "AAAAB3NzaC1yc2E", str(project)):
        assert said not in text
    assert "alert(1)" in text and "</script><script>alert(1)" not in text
    assert not re.search(r"""(src|href)=["']?https?:""", text)


def test_a_private_key_is_left_out_line_by_line():
    lines = ["+a", "+-----BEGIN PRIVATE KEY-----", "+abc", "+-----END PRIVATE KEY-----", "+b"]
    assert redacted_lines(lines) == ["+a", "+[left-out]", "+[left-out]", "+[left-out]", "+b"]


def test_an_export_replaces_nothing_but_an_export(project, store):
    shop(project, store)

    def run(name):
        return tools.cli("--store", store, "ui", "--export", name, cwd=project, **tools.SERVERS)

    target = project.parent / "out.html"
    assert run(str(target)).returncode == 0 and run(str(target)).returncode == 0
    assert target.stat().st_mode & 0o077 == 0
    mine = project.parent / "mine.html"
    mine.write_text("mine")
    assert run(str(mine)).returncode == 1 and mine.read_text() == "mine"


class Screen:
    """`mulligan ui` with its output on a terminal, as a process that takes signals."""

    def __init__(self, project, store, **env):
        self._ours, theirs = pty.openpty()
        environment = tools.plain_environment(**tools.SERVERS, **env)
        if "SSH_CONNECTION" not in env:
            environment.pop("SSH_CONNECTION", None)
        self._process = tools.start_mulligan(
            ["--store", store, "ui"], cwd=project, env=environment, streams=(theirs, theirs, theirs)
        )
        os.close(theirs)

    def until(self, text):
        shown = ""
        while text not in shown:
            assert select.select([self._ours], [], [], 60)[0], shown
            shown += os.read(self._ours, 65536).decode()
        return shown

    def end(self):
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(60)
        os.close(self._ours)
        return code


CONTAINER = any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv")))


def test_the_browser_is_opened_by_a_private_page_and_never_sees_the_token(project, store, tmp_path):
    shop(project, store)
    seen, program = tmp_path / "seen", tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$@" > {seen}.new && mv {seen}.new {seen}\n')
    program.chmod(0o700)
    screen = Screen(project, store, BROWSER=f"{program} %s")
    said = screen.until("Ctrl-C ends it.")
    token = re.search(r"/#([\w-]{43})", said)[1]
    if CONTAINER:  # whose browser is on another machine
        assert "This is a container" in said and "mulligan ui --export" in said and not seen.exists()
    else:
        argument = seen.read_text().strip()
        page = argument.removeprefix("file://")
        assert token not in argument and f"/#{token}" in Path(page).read_text()
        assert os.stat(page).st_mode & 0o777 == 0o600
    assert screen.end() == 0


def test_over_ssh_the_command_says_what_to_type(project, store):
    shop(project, store)
    screen = Screen(project, store, SSH_CONNECTION="10.0.0.1 5000 10.0.0.2 22")
    said = screen.until("Ctrl-C ends it.")
    port = re.search(r"http://127\.0\.0\.1:(\d+)/#", said)[1]
    assert f"ssh -N -L {port}:127.0.0.1:{port} 10.0.0.2" in said
    assert screen.end() == 0
