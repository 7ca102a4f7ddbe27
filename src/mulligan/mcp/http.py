"""
The protocol over HTTP ("streamable HTTP"), for clients that do not start their servers.

The server listens on the loopback interface. Any web page can send requests there, so each request must carry a token, must
name this server as its host (a name that was rebound to 127.0.0.1 does not), and must not come from a page: programs send no
`Origin`. There is no CORS.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from mulligan.mcp.server import Door, Unforeseen, build

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from mulligan.engine.workspace import Workspace

PATH = "/mcp"
LARGEST = 1 << 20


class Guard:
    """Passes on requests that carry the token; everything else gets a status and a sentence."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        app = JSONResponse({"error": refusal[1]}, refusal[0]) if refusal else self._app
        await app(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Returns the status and the reason to refuse a request, None for one that may pass."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 403, "This server answers to its own address on this machine only."
        if headers.get("origin") is not None or headers.get("sec-fetch-site", "none") != "none":
            return 403, "This server is for programs, not for web pages."
        given = headers.getlist("authorization")
        if len(given) != 1 or not hmac.compare_digest(given[0].encode("utf-8", "replace"), self._wanted):
            return 401, "The token is missing or wrong: Authorization: Bearer TOKEN."
        return None


def serve(
    workspace: Workspace, listener: Any, token: str, version: str, unforeseen: Unforeseen = lambda _: None
) -> None:
    """Serves a workspace on a listening socket until a signal; work that has begun is finished."""
    for name in ("mcp", "asyncio", "uvicorn"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    door = Door(workspace, unforeseen=unforeseen)
    # One workspace has one line of work; the sessions of several clients share it.
    app = build(door, version).streamable_http_app(streamable_http_path=PATH, max_request_body_size=LARGEST)
    guarded = Guard(app, token, listener.getsockname()[1])
    config = uvicorn.Config(
        guarded, log_config=None, access_log=False, server_header=False, ws="none", timeout_graceful_shutdown=2
    )
    try:
        asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
    finally:
        door.close()
