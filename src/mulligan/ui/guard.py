"""
The rules for every request, before anything else sees it.

Any web site that a browser shows can send requests to a loopback port. So a request must name this server as its host (a name
that was rebound to 127.0.0.1 does not), anything but the page itself needs a cookie that only a page opened by our link has, and
whatever could change something must come from that page, as JSON. There is no CORS: no other origin may read an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from mulligan.ui.logins import Logins

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
SAFE = frozenset({"GET", "HEAD"})
#: Answered without a cookie: the exchange of a token, and a new link for a program with the key.
OPEN = frozenset({"/api/login", "/api/links"})
LARGEST_BODY = 8 << 20


class Guard:
    """Passes on what comes from our own page; everything else gets a status and a sentence."""

    def __init__(self, app: ASGIApp, logins: Logins, port: int) -> None:
        self.app = app
        self._logins = logins
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

        refusal = self._refusal(scope)
        app = JSONResponse({"error": {"message": refusal[1]}}, refusal[0]) if refusal else self.app
        await app(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Returns the status and the reason to refuse a request, None for one that may pass."""
        headers, path = Headers(scope=scope), scope["path"]
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 403, "This server answers to its own address on this machine only."
        if scope["method"] not in SAFE and (refusal := _unsafe(headers, hosts[0])):
            return refusal
        if not path.startswith("/api/") or path in OPEN:
            return None
        if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            return 403, "Another site asked for this."
        scope["page"] = self._logins.page(cookie_parser(headers.get("cookie", "")))
        if scope["page"] is None:
            return 401, "This page is not logged in. Type `mulligan ui` again for a new link."
        return None


def _unsafe(headers: Headers, host: str) -> tuple[int, str] | None:
    """Returns why a request that may change something is refused, None where it comes from our own page."""
    site, origins = headers.get("sec-fetch-site"), headers.getlist("origin")
    if site is None and not origins:
        return 403, "A request that changes something has to say where it comes from."
    if (site is not None and site not in {"same-origin", "none"}) or any(
        each.lower() != f"http://{host.lower()}" for each in origins
    ):
        return 403, "Another site sent this."
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return 415, "Requests that change something are JSON."
    length = headers.get("content-length", "")
    if not length.isdigit() or int(length) > LARGEST_BODY:
        return 413, "The request is too large, or does not say how large it is."
    return None
