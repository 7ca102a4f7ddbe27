"""The MCP server, looked at by the protocol's own tools: the inspector over stdio, the conformance suite over HTTP."""

from __future__ import annotations

import json
import socket
import socketserver
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import mulligan
from mulligan.mcp.prompts import PROMPTS
from mulligan.mcp.tools import TOOLS
from tools import plain_environment
from tree import put

#: What the suite can ask of any server; its other scenarios call tools that only its own example server has.
SCENARIOS = (
    *("server-initialize", "ping", "tools-list", "resources-list", "prompts-list"),
    *("server-sse-polling", "server-sse-multiple-streams", "dns-rebinding-protection"),
)


def inspected(inspector, project, store, *words, failing=False):
    server = [sys.executable, "-m", "mulligan", "-C", str(project), "--store", str(store), "mcp"]
    done = subprocess.run(
        [inspector, "--cli", *server, *words, "--connect-timeout", "150000"],
        cwd=project,
        env=plain_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (done.returncode != 0) == failing, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_inspector_sees_and_uses_everything_over_stdio(inspector, project, store):
    put(project, "a.txt", "good\n")
    listed = inspected(inspector, project, store, "--method", "tools/list")["tools"]
    assert [tool["name"] for tool in listed] == list(TOOLS)
    saved = inspected(
        inspector, project, store, "--method", "tools/call", "--tool-name", "save", "--tool-arg", "name=one"
    )
    assert saved["structuredContent"]["checkpoint"]["name"] == "one"
    put(project, "a.txt", "bad\n")
    inspected(inspector, project, store, "--method", "tools/call", "--tool-name", "undo")
    assert (project / "a.txt").read_text() == "good\n"
    words = ("--method", "tools/call", "--tool-name", "show", "--tool-arg", "ref=nowhere")
    refused = inspected(inspector, project, store, *words, failing=True)
    assert json.loads(refused["content"][0]["text"])["error"]["hint"] == "Call list to see the checkpoints."
    resources = inspected(inspector, project, store, "--method", "resources/list")["resources"]
    assert "one" in [each["name"] for each in resources]
    prompts = inspected(inspector, project, store, "--method", "prompts/list")["prompts"]
    assert [each["name"] for each in prompts] == list(PROMPTS)


class Relay(socketserver.ThreadingTCPServer):
    """Passes requests on with the token: the suite cannot send one. Names of hosts and sites arrive as they were sent."""

    daemon_threads = True

    def __init__(self, url: str, token: str) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.server_port = urlsplit(url).port or 0
        self.token = token
        self.own_port = self.server_address[1]


class Passing(socketserver.StreamRequestHandler):
    """One connection: each head gets the token and the port of the server; everything else goes through unchanged."""

    server: Relay

    def handle(self) -> None:
        """Passes on until one side hangs up."""
        with socket.create_connection(("127.0.0.1", self.server.server_port)) as link:
            back = threading.Thread(target=self.back, args=(link,))
            back.start()
            while request := self.rfile.readline():
                head = [request, f"Authorization: Bearer {self.server.token}\r\n".encode()]
                length = 0
                while (line := self.rfile.readline()).strip():
                    head.append(line.replace(b":%d" % self.server.own_port, b":%d" % self.server.server_port))
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                link.sendall(b"".join(head) + b"\r\n" + self.rfile.read(length))
            link.shutdown(socket.SHUT_WR)
            back.join()

    def back(self, link: socket.socket) -> None:
        """Passes answers back as they come, those too that never end."""
        with suppress(OSError):
            while data := link.recv(65536):
                self.wfile.write(data)
            self.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def over_http(project, store):
    """Starts `mulligan mcp --http` and yields an address that needs no token."""
    words = ["-C", str(project), "--store", str(store), "--json", "mcp", "--http"]
    process = subprocess.Popen(
        [sys.executable, "-m", "mulligan", *words],
        env=plain_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        started = json.loads(process.stdout.readline())
        with Relay(started["url"], started["token"]) as relay:
            threading.Thread(target=relay.serve_forever).start()
            yield f"http://127.0.0.1:{relay.own_port}/mcp"
            relay.shutdown()
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_the_conformance_suite_finds_nothing(conformance, node, project, store, tmp_path):
    put(project, "a.txt", "1")
    mulligan.open(project, store=store).save("one")
    with over_http(project, store) as url:
        for scenario in SCENARIOS:
            done = subprocess.run(
                [node, conformance, "server", "--url", url, "--scenario", scenario],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=180,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert "0 failed" in done.stdout
