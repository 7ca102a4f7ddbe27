"""
Streamable HTTP: the same server for clients that connect to an address instead of starting a program.

The SDK speaks the protocol. Before it sees a request, a guard asks for this server's own name as the host, for no other site as
the origin, and for the token of this start. All clients share one workspace and one line of calls.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from mulligan.loopback import LoopbackGuard, Refusal, bears, is_foreign, is_json, run_server, server_of
from mulligan.mcp.server import Door, Unforeseen, build
from mulligan.mcp.stdio import LONGEST

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp, Scope

    from mulligan.engine.workspace import Workspace

PATH = "/mcp"
#: Clients that have a session at the same time; one without a request for half an hour loses it.
SESSIONS = 64


class TokenGuard(LoopbackGuard):
    """Passes on what carries the token and comes from no other site."""

    challenge = "Bearer"

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        super().__init__(app, port)
        self._token = token

    def judge(self, scope: Scope, headers: Headers, host: str) -> Refusal:
        """Returns why a request is refused, None where it may pass."""
        if is_foreign(headers, host):
            return 403, "Another site sent this."
        given = headers.getlist("authorization")
        if len(given) != 1 or not bears(given[0], self._token):
            return 401, "This needs the token that `mulligan mcp --http` printed when it started."
        if scope["path"] != PATH:
            return 404, f"There is nothing here; the address ends in {PATH}."
        if scope["method"] == "POST" and not is_json(headers):
            return 415, "Messages are JSON."
        return None


def serve(workspace: Workspace, listener: Any, token: str, version: str, unforeseen: Unforeseen) -> None:
    """Serves a workspace until a signal; work that has begun is finished, then the workspace is closed."""
    for name in ("mcp", "asyncio", "uvicorn"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    door = Door(workspace, unforeseen=unforeseen)
    try:
        run_server(lambda: _run(door, listener, token, version))
    except* KeyboardInterrupt:  # alone, or among those of the SDK's group of tasks
        pass
    finally:
        door.close()


async def _run(door: Door, listener: Any, token: str, version: str) -> None:
    manager = StreamableHTTPSessionManager(build(door, version), max_request_body_size=LONGEST, max_sessions=SESSIONS)
    guard = TokenGuard(manager.handle_request, token, listener.getsockname()[1])
    async with manager.run():
        await server_of(guard).serve(sockets=[listener])
