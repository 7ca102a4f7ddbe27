"""The MCP server, looked at by the protocol's own tools: the inspector over stdio, the conformance suite over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import contextmanager

import mulligan
from mulligan.mcp.prompts import PROMPTS
from mulligan.mcp.tools import TOOLS
from tools import plain_environment
from tree import put

#: What the suite can ask of any server; its other scenarios call tools that only its own example server has.
SCENARIOS = ("server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection")


def inspected(inspector, project, store, *words):
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
    assert done.returncode == 0, done.stdout + done.stderr
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
    resources = inspected(inspector, project, store, "--method", "resources/list")["resources"]
    assert "one" in [each["name"] for each in resources]
    prompts = inspected(inspector, project, store, "--method", "prompts/list")["prompts"]
    assert [each["name"] for each in prompts] == list(PROMPTS)


@contextmanager
def over_http(project, store):
    """The same server behind the SDK's HTTP transport, for the suite alone: mulligan itself serves no port."""
    import uvicorn

    from mulligan.engine.workspace import Workspace
    from mulligan.mcp.server import Door, build
    from mulligan.settings import resolve

    workspace = Workspace(resolve(project, store=store)._replace(append_only=True))
    door = Door(workspace)
    app = build(door, mulligan.__version__).streamable_http_app()
    served = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=served.run)
    thread.start()
    try:
        while not served.started:
            assert thread.is_alive()
            thread.join(0.01)
        port = served.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        served.should_exit = True
        thread.join(60)
        door.worker.close()
        workspace.close()


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
