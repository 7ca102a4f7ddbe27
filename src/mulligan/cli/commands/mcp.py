"""`mulligan mcp`: the MCP server on standard input and output, or on a port of this machine."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from contextlib import suppress
from typing import Any, BinaryIO

from mulligan.cli.arguments import bounded
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.failure import interrupted_by_signals, write_report
from mulligan.cli.help import version
from mulligan.cli.listening import listening
from mulligan.engine.workspace import Workspace
from mulligan.errors import MulliganError, UserError

USAGE = "mcp [--http [--port N]]"
DESCRIPTION = """\
Serve the Model Context Protocol on standard input and output, for an agent that starts it.
Where nothing can be protected, as in a home directory, it serves the project that the client names as its root, if it names one;
otherwise it answers each call with the reason.

The workspace is fixed here: the one that `-C DIR`, or the current directory, means. The agent can save, list, compare, read, plan
and apply restores, undo and redo. It cannot delete a checkpoint, name another directory, or apply a plan that it was not shown.

With `--http` it serves clients that connect to an address, on 127.0.0.1 only, until Ctrl-C. It prints the address and a token,
new with each start, as the lines of a client's configuration. With `--json` they are the first line, as JSON.
"""
EXAMPLES = (
    ("mulligan mcp", "what an agent starts; see docs/howto/mcp.md for the lines of its configuration"),
    ("mulligan -C ~/shop mcp", "for a client that starts it somewhere else"),
    ("mulligan mcp --http", "for a client that connects to an address"),
)
EXIT_CODES = (0, 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("--http", action="store_true", help="serve on a port of 127.0.0.1, with a token")
    parser.add_argument(
        "--port",
        type=bounded("port", 0, 65535, int),
        metavar="N",
        help="with --http: the port (default: any that is free)",
    )


def run(context: Context, args: argparse.Namespace) -> Result:
    """Serves until the client leaves; with `--http`, until it is interrupted."""
    if not args.http and args.port is not None:
        raise UserError("A port is for --http.", hint=f"mulligan mcp --http --port {args.port}")
    if not args.http and context.json:
        raise UserError("The protocol has its own JSON; --json is not for it.", hint="mulligan mcp")
    try:
        from mulligan.mcp.session import converse
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "mulligan":
            raise
        raise UserError(
            "The MCP server needs the official SDK, and it is not installed.", hint="pip install 'mulligan[mcp]'"
        ) from None
    if args.http:
        return _serve(context, args.port or 0)
    from mulligan.mcp.unopened import Unopened

    workspace: Any
    reopen = None
    try:
        workspace = _open(context)
    except MulliganError as error:
        # It answers every call with the reason, until the client names a project.
        workspace, reopen = Unopened(error), lambda address: _open_root(context, address)
    source, sink = _claim_streams()
    converse(workspace, source, sink, version(), lambda error: write_report(error, ["mcp"], context.environ), reopen)
    return Result(None, dict)


def _serve(context: Context, port: int) -> Result:
    """Serves over HTTP until it is interrupted. The token is printed and kept nowhere."""
    from mulligan.mcp.http import PATH, serve

    token = secrets.token_urlsafe(32)
    with listening(port, "mulligan mcp --http") as listener:
        workspace = _open(context)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}"
        with suppress(KeyboardInterrupt), interrupted_by_signals():
            _announce(context, url, token)
            serve(workspace, listener, token, version(), lambda error: write_report(error, ["mcp"], context.environ))
    return Result(None, dict)


def _announce(context: Context, url: str, token: str) -> None:
    if context.json:
        context.json = (
            False  # before the line, which a signal may follow: the end of the server is not a second document
        )
        sys.stdout.write(json.dumps({"url": url, "token": token}) + "\n")
        sys.stdout.flush()
        return
    server = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}}
    context.out.line(f"The MCP server of this project: {url}")
    context.out.line(
        "For the configuration of a client; the token opens this server until it ends, so keep it to yourself:"
    )
    context.out.line(json.dumps({"mcpServers": {"mulligan": server}}))
    context.out.line("Ctrl-C ends it.")
    context.out.stream.flush()


def _open(context: Context) -> Workspace:
    return Workspace(context.settings._replace(append_only=True))


def _open_root(context: Context, address: str) -> Workspace | None:
    """Returns the workspace at a `file:` address of the client; None where there is none."""
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(address)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
        return None
    there = Context(directory=unquote(parts.path), store=None, wait=None, json=False, environ=context.environ)
    try:
        return _open(there)
    except MulliganError:
        return None


def _claim_streams() -> tuple[BinaryIO, BinaryIO]:
    """Reserves stdin and stdout for the protocol; other readers get nothing, prints go to stderr."""
    # Unbuffered: a thread that waits in a buffered read cannot be left behind when the interpreter ends.
    source = os.fdopen(os.dup(0), "rb", buffering=0)
    sink = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(nowhere, 1)  # there is no standard error
    os.close(nowhere)
    return source, sink
