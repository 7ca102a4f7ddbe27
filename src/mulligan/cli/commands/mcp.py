"""`mulligan mcp`: the MCP server on standard input and output."""

from __future__ import annotations

import argparse
import os
from typing import Any, BinaryIO

from mulligan.cli.arguments import version
from mulligan.cli.command import Result
from mulligan.cli.command import no_arguments as add_arguments
from mulligan.cli.command import print_nothing as render
from mulligan.cli.context import Context
from mulligan.cli.failure import write_report
from mulligan.engine.workspace import Workspace
from mulligan.errors import MulliganError, UserError

__all__ = ["add_arguments", "render"]
USAGE = "mcp"
DESCRIPTION = """\
Serve the Model Context Protocol on standard input and output, for an agent that starts it.
Where nothing can be protected, as in a home directory, it serves the project that the client names as its root, if it names one;
otherwise it answers each call with the reason.

The workspace is fixed here: the one that `-C DIR`, or the current directory, means. The agent can save, list, compare, read, plan
and apply restores, undo and redo. It cannot delete a checkpoint, name another directory, or apply a plan that it was not shown.
"""
EXAMPLES = (
    ("mulligan mcp", "what an agent starts; see docs/howto/mcp.md for the lines of its configuration"),
    ("mulligan -C ~/shop mcp", "for a client that starts it somewhere else"),
)
EXIT_CODES = (0, 1)


def run(context: Context, _args: argparse.Namespace) -> Result:
    """Serves until the client leaves."""
    if context.json:
        raise UserError("The protocol has its own JSON; --json is not for it.", hint="mulligan mcp")
    try:
        from mulligan.mcp.session import converse
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "mulligan":
            raise
        raise UserError(
            "The MCP server needs the official SDK, and it is not installed.", hint="pip install 'mulligan[mcp]'"
        ) from None
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
