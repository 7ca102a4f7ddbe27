"""
A server on the loopback interface: the rules for every request that each of our servers needs, and how it is run.

Any web site that a browser shows can send requests to a loopback port. So a request must name this server as its host (a name
that was rebound to 127.0.0.1 does not), and must not come from another site. There is no CORS: no other origin may read an answer.
Who may ask for what is for each server to say.
"""

from __future__ import annotations

import asyncio
import hmac
import signal
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: The status and the reason for which a request is refused; None for one that may pass.
Refusal = tuple[int, str] | None

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
OWN_SITES = frozenset({"same-origin", "none"})


class LoopbackGuard:
    """Passes on what was sent to this server by its own name and is not refused; all else gets a status and a sentence."""

    #: How to prove who one is, for an answer with status 401.
    challenge: str | None = None

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        app = self.app
        if refusal := self._refusal(scope):
            status, words = refusal
            challenge = {"WWW-Authenticate": self.challenge} if status == 401 and self.challenge else None
            app = JSONResponse({"error": {"message": words}}, status, challenge)
        await app(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Refusal:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 403, "This server answers to its own address on this machine only."
        return self.judge(scope, headers, hosts[0].lower())

    def judge(self, scope: Scope, headers: Headers, host: str) -> Refusal:
        """Returns why a request to this host is refused, None where it may pass."""
        raise NotImplementedError


def is_foreign(headers: Headers, host: str) -> bool:
    """Returns whether a browser says that another site than this host sent a request."""
    site = headers.get("sec-fetch-site", "none")
    return site not in OWN_SITES or any(each.lower() != f"http://{host}" for each in headers.getlist("origin"))


def is_json(headers: Headers) -> bool:
    """Returns whether the body is declared as JSON, which no form of a web page can send."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def bears(given: str, token: str) -> bool:
    """Returns whether a header `Authorization` carries a token, in a time that says nothing about it."""
    return hmac.compare_digest(given.encode(), f"Bearer {token}".encode())


class LoopbackServer(uvicorn.Server):
    """A server that ends with all its connections, those too that come while it ends."""

    async def shutdown(self, sockets: Any = None) -> None:
        """Accepts no more, lets the connections that were accepted begin, and ends them with the others."""
        for each in sockets or []:
            asyncio.get_running_loop().remove_reader(each)
        for _ in range(3):  # turns of the loop: a connection is accepted, made, and known to the server
            await asyncio.sleep(0)
        await super().shutdown(sockets)


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_server(serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a server in an event loop; a signal that comes while the loop is being made waits until the server runs."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)

    async def begin() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        await serve()

    try:
        asyncio.run(begin())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Returns a server that logs nothing and gives open requests two seconds when it is asked to end."""
    return LoopbackServer(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=2,
        )
    )
