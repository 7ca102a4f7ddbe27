"""One client and one workspace, from the first message to the last."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, BinaryIO

from mulligan.mcp import stdio
from mulligan.mcp.server import Door, Reopen, Unforeseen, build

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace


def converse(
    workspace: Workspace,
    source: BinaryIO,
    sink: BinaryIO,
    version: str,
    unforeseen: Unforeseen = lambda _: None,
    reopen: Reopen | None = None,
) -> None:
    """Serves a workspace until the client leaves; work that has begun is finished, then the workspace is closed."""
    # A client need not read our standard error, and a full pipe there would stop the server.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    door = Door(workspace, unforeseen=unforeseen, reopen=reopen)
    try:
        asyncio.run(stdio.serve(build(door, version), source, sink))
    finally:
        door.close()
