"""The MCP server over HTTP: the same tools for a client with the token, and nothing for anything else."""

from __future__ import annotations

import asyncio
import json
import subprocess
import urllib.error
import urllib.request

import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tools import cli, mulligan_argv, plain_environment
from tree import put


@pytest.fixture
def served(project):
    """Starts a server and returns its address and header."""
    put(project, "a.txt", "one\n")
    process = subprocess.Popen(
        mulligan_argv("--json", "mcp", "--http"), cwd=project, env=plain_environment(), stdout=subprocess.PIPE
    )
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def refusal(served, **headers):
    """Returns the status of a request with other headers than a client's."""
    name, _, value = served["header"].partition(": ")
    given = {name: value, "Content-Type": "application/json", **headers}
    request = urllib.request.Request(
        served["url"], data=b"{}", headers={key: text for key, text in given.items() if text}, method="POST"
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_real_client_saves_and_reads_the_story(served, project):
    async def talk():
        name, _, value = served["header"].partition(": ")
        async with (
            create_mcp_http_client(headers={name: value}) as web,
            streamable_http_client(served["url"], http_client=web) as (reading, writing),
            ClientSession(reading, writing) as session,
        ):
            await session.initialize()
            saved = await session.call_tool("save", {"name": "first"})
            listed = await session.call_tool("list", {})
            return saved.structured_content, listed.structured_content

    saved, listed = asyncio.run(talk())
    assert saved["saved"] is True
    assert [row["name"] for row in listed["checkpoints"]] == ["first"]
    assert cli("log", cwd=project).stdout.count("first") == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:80"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 403),
    ],
)
def test_what_is_not_the_users_own_program_gets_nothing(served, headers, status):
    assert refusal(served, **headers) == status


def test_a_token_file_that_others_may_read_starts_nothing(project, tmp_path):
    token = tmp_path / "token"
    token.write_text("x" * 40)
    token.chmod(0o644)
    done = cli("mcp", "--http", "--token-file", token, cwd=project)
    assert done.returncode == 1
    assert "chmod 600" in done.stderr
    token.chmod(0o600)
    token.write_text("short")
    assert "fewer than 32" in cli("mcp", "--http", "--token-file", token, cwd=project).stderr
