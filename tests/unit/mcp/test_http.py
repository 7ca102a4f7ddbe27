"""`mulligan mcp --http`: the SDK's own client over a real port, and each rule that protects the port, attacked."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import mulligan
from mulligan.mcp.stdio import LONGEST
from mulligan.mcp.tools import TOOLS
from tools import SERVERS, ServingCommand, cli
from tree import put

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class Served:
    """One server in a process of its own."""

    def __init__(self, process: ServingCommand) -> None:
        self.process = process
        said = json.loads(process.stdout.readline())
        self.url, self.token = said["url"], said["token"]
        self.port = urlsplit(self.url).port

    @asynccontextmanager
    async def client(self, mode="auto"):
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode) as client,
        ):
            yield client

    def ask(self, method="POST", path="/mcp", body: bytes | None = None, **headers: str | None):
        """Sends one request as a client with the token would; a header given as None is left out."""
        data = json.dumps(PING).encode() if body is None else body
        sent = {
            "host": f"127.0.0.1:{self.port}",
            "authorization": f"Bearer {self.token}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "content-length": str(len(data)),
        } | {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as link:
            link.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value is not None:
                    link.putheader(name, value)
            link.endheaders(data)
            answer = link.getresponse()
            assert not [name for name in answer.headers if name.lower().startswith("access-control")]
            return answer.status, answer.read()


@contextmanager
def serving(project, store) -> Iterator[Served]:
    process = ServingCommand("--store", store, "--json", "mcp", "--http", cwd=project)
    try:
        yield Served(process)
    finally:
        ended = process.end()
    assert ended == (0, "", "")


@pytest.fixture
def served(project, store):
    put(project, "a.txt", "one\n")
    with serving(project, store) as found:
        yield found


async def call(client, tool, **arguments):
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer
    return answer.structured_content


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_of_the_sdk_saves_looks_and_goes_back_over_http(served, project, mode):
    async def talk():
        async with served.client(mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == list(TOOLS)
            assert (await client.list_prompts()).prompts and (await client.list_resources()).resources
            await call(client, "save", name="first")
            assert (await call(client, "story"))["chapters"] == []
            put(project, "a.txt", "two\n")
            assert (await call(client, "undo"))["undone"]["kind"] == "unsaved"
            assert (project / "a.txt").read_text() == "one\n"
            await call(client, "redo")
            assert (project / "a.txt").read_text() == "two\n"
            plan = await call(client, "plan_restore", ref="first")
            assert (await call(client, "apply_restore", plan_id=plan["plan_id"]))["complete"] is True
            assert (project / "a.txt").read_text() == "one\n"

    asyncio.run(talk())


def test_calls_of_two_clients_at_once_are_carried_out_one_after_the_other(served, project, store):
    async def saves(client, who):
        for number in range(5):
            await call(client, "save", name=f"{who} {number}", only_if_changed=False)

    async def talk():
        async with served.client() as one, served.client("legacy") as two:
            await asyncio.gather(saves(one, "one"), saves(two, "two"))

    asyncio.run(talk())
    with mulligan.open(project, store=store) as ws:
        names = [each.name for each in ws.log()]
    assert sorted(names) == sorted(f"{who} {number}" for who in ("one", "two") for number in range(5))


def test_a_server_with_a_client_connected_ends_cleanly_when_it_is_asked_to(project, store):
    put(project, "a.txt", "one\n")

    async def talk(served):
        async with served.client("legacy") as client:
            await call(client, "save")
            served.process.send_signal(signal.SIGINT)
            await asyncio.to_thread(served.process.wait, 60)

    it = ServingCommand("--store", store, "--json", "mcp", "--http", cwd=project)
    try:
        asyncio.run(talk(Served(it)))
    finally:
        ended = it.end()
    assert ended == (0, "", "")


def test_every_rule_of_the_port_refuses_what_breaks_it(served):
    """A rebound name, another site, a missing or wrong token, a form, a body without end: each gets its status."""
    assert served.ask()[0] not in {401, 403, 404, 413, 415}  # the request that the attacks below change in one place
    port, token = served.port, served.token
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1.evil.example:{port}"):
        for method in ("POST", "GET", "DELETE", "OPTIONS"):
            assert served.ask(method, host=host)[0] == 403, (host, method)
    for origin in ("null", "http://evil.example", f"https://127.0.0.1:{port}", "http://127.0.0.1:1", ""):
        assert served.ask(origin=origin)[0] == 403, origin
    for site in ("cross-site", "same-site"):
        assert served.ask(sec_fetch_site=site)[0] == 403, site
    wrong = (
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {token[:-1]}",
        f"Bearer {token}x",
        f"Basic {token}",
        token,
        "Bearer \xe9",
    )
    for given in wrong:
        for method in ("POST", "GET", "DELETE"):
            assert served.ask(method, authorization=given)[0] == 401, (given, method)
    assert served.ask(path=f"/mcp?token={token}", authorization=None)[0] == 401
    for kind in ("text/plain", "application/x-www-form-urlencoded", "text/plain, application/json", None):
        assert served.ask(content_type=kind)[0] == 415, kind
    assert served.ask(path="/")[0] == 404
    big = json.dumps(PING).encode() + b" " * LONGEST
    assert served.ask(body=big)[0] == 413
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(big), big)
    assert served.ask(body=chunked, content_length=None, transfer_encoding="chunked")[0] == 413


def test_the_names_of_this_machine_and_its_own_origin_pass(served):
    for name in ("127.0.0.1", "localhost", "[::1]"):
        host = f"{name}:{served.port}"
        assert served.ask(host=host)[0] == served.ask(host=host, origin=f"http://{host}")[0] == served.ask()[0]


def test_each_start_has_a_token_of_its_own_that_no_file_holds(project, store, tmp_path):
    tokens = []
    for _ in range(2):
        with serving(project, store) as found:
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", found.url) and re.fullmatch(r"[\w-]{43}", found.token)
            tokens.append(found.token)
    assert tokens[0] != tokens[1]
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files for token in tokens if token.encode() in file.read_bytes()]


def test_the_printed_lines_are_a_configuration_of_a_client(project, store):
    it = ServingCommand("--store", store, "mcp", "--http", cwd=project)
    lines = [it.stdout.readline() for _ in range(4)]
    assert it.end(signal.SIGINT) == (0, "", "")
    server = json.loads(lines[2])["mcpServers"]["mulligan"]
    assert server["type"] == "http" and server["url"] in lines[0]
    assert re.fullmatch(r"Bearer [\w-]{43}", server["headers"]["Authorization"])


def test_what_cannot_be_served_is_refused_in_one_sentence(project, store, served):
    for words, reason in (
        (("mcp", "--port", "7777"), "A port is for --http."),
        (("mcp", "--http", "--port", str(served.port)), f"Port {served.port} cannot be used"),
        (("-C", "/", "mcp", "--http"), "mulligan: "),
    ):
        done = cli("--store", store, *words, cwd=project, **SERVERS)
        assert (done.returncode, done.stdout) == (1, "") and reason in done.stderr, done
