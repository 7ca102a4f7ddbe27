"""
An MCP client of our own for tests: raw lines to and from a real `mulligan mcp` process.

It believes nothing: every line that comes out must be one JSON-RPC message, whatever went in.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema

from forked import Forked
from mulligan.mcp.tools import TOOLS
from tools import SERVERS, plain_environment, start_mulligan

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "wire", "version": "1"},
}
#: How long an answer may take before the test gives up; never a measurement.
PATIENCE = 60


class Gone(Exception):
    """The server closed its output."""


class Wire:
    """One server and the lines to and from it, over any two descriptors."""

    process: Forked | subprocess.Popen[bytes]

    def __init__(self, into: int, out_of: int) -> None:
        self.into = into
        self.out_of = out_of
        self.notices: list[dict[str, Any]] = []
        self._held = b""
        self._number = 0

    def greet(self) -> None:
        """Shakes hands."""
        self.request("initialize", HELLO)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def hang_up(self) -> None:
        """Ends the server's input."""
        if self.into >= 0:
            os.close(self.into)
            self.into = -1

    def stop_reading(self) -> None:
        """Closes our end of the server's output."""
        if self.out_of >= 0:
            os.close(self.out_of)
            self.out_of = -1

    def put(self, data: bytes) -> None:
        """Sends bytes as they are."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.into, view) :]

    def send(self, message: Any) -> None:
        """Sends one message."""
        self.put(json.dumps(message).encode() + b"\n")

    def line(self, patience: float = PATIENCE) -> bytes:
        """Returns the next line of output."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.out_of, selectors.EVENT_READ)
            while b"\n" not in self._held:
                if not selector.select(patience):
                    raise TimeoutError("the server does not answer")
                chunk = os.read(self.out_of, 1 << 16)
                if not chunk:
                    raise Gone
                self._held += chunk
        line, _, self._held = self._held.partition(b"\n")
        return line

    def message(self, patience: float = PATIENCE) -> dict[str, Any]:
        """Returns the next message; anything else on the wire fails."""
        message = json.loads(self.line(patience))
        assert isinstance(message, dict)
        assert message["jsonrpc"] == "2.0"
        assert ("method" in message) + ("result" in message) + ("error" in message) == 1
        return message

    def ask(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Sends a request and returns its id."""
        self._number += 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self._number, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return self._number

    def answer(self, request: int) -> dict[str, Any]:
        """Returns the answer to a request; notices on the way are kept."""
        while True:
            message = self.message()
            if "method" in message:
                self.notices.append(message)
            elif message["id"] == request:
                return message

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Sends a request and returns its answer."""
        return self.answer(self.ask(method, params))

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Calls a tool and returns the value it answered with, which must be of the shape that the tool declares."""
        return told(tool, self.request("tools/call", {"name": tool, "arguments": arguments})["result"])


def told(tool: str, result: dict[str, Any]) -> dict[str, Any]:
    """
    Returns what an answer of a tool says.

    A value is of the shape that the tool declares; an error is text alone, because clients check any value.
    """
    text: dict[str, Any] = json.loads(result["content"][0]["text"])
    assert result["isError"] == ("error" in text)
    if result["isError"]:
        assert "structuredContent" not in result
        return text
    assert text == result["structuredContent"]
    if tool in TOOLS:
        jsonschema.validate(text, TOOLS[tool].result.schema)
    return text


@contextmanager
def own_process(root: Path, *, store: Path | None = None, hello: bool = True, **env: str) -> Iterator[Wire]:
    """Starts `mulligan mcp` as an agent does; `wire.process` is the process."""
    options = ["--store", store] if store is not None else []
    theirs_in, ours_in = os.pipe()
    ours_out, theirs_out = os.pipe()
    environment = plain_environment(**SERVERS, **env)
    with open(os.devnull, "wb") as nothing:
        streams = (theirs_in, theirs_out, nothing.fileno())
        process = start_mulligan(["-C", root, *options, "mcp"], cwd=root, env=environment, streams=streams)
    os.close(theirs_in)
    os.close(theirs_out)
    wire = Wire(ours_in, ours_out)
    wire.process = process
    try:
        if hello:
            wire.greet()
        yield wire
        wire.hang_up()
        process.wait(PATIENCE)
    finally:
        wire.hang_up()
        process.kill()
        process.wait()
        wire.stop_reading()


@contextmanager
def same_process(root: Path, *, store: Path | None = None, hello: bool = True) -> Iterator[Wire]:
    """Runs the server in a thread over two pipes: the same code from the first byte on, without a second interpreter."""
    from mulligan.engine.workspace import Workspace
    from mulligan.mcp.session import converse
    from mulligan.settings import resolve

    workspace = Workspace(resolve(root, store=store)._replace(append_only=True))
    theirs_in, ours_in = os.pipe()
    ours_out, theirs_out = os.pipe()

    def serve() -> None:
        with os.fdopen(theirs_in, "rb", buffering=0) as source, os.fdopen(theirs_out, "wb") as sink:
            converse(workspace, source, sink, "0.0")

    thread = threading.Thread(target=serve)
    thread.start()
    wire = Wire(ours_in, ours_out)
    try:
        if hello:
            wire.greet()
        yield wire
    finally:
        wire.hang_up()
        thread.join(PATIENCE)
        os.close(ours_out)
        workspace.close()
