"""
The rules for every request to the page, before anything else sees it.

On top of those of every loopback server: anything but the page itself needs a cookie that only a page opened by our link has,
and whatever could change something must come from that page, as JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import cookie_parser

from mulligan.loopback import OWN_SITES, LoopbackGuard, Refusal, is_foreign, is_json

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp, Scope

    from mulligan.ui.logins import Logins

SAFE = frozenset({"GET", "HEAD"})
#: Answered without a cookie: the exchange of a token, and a new link for a program with the key.
OPEN = frozenset({"/api/login", "/api/links"})
LARGEST_BODY = 8 << 20


class Guard(LoopbackGuard):
    """Passes on what comes from our own page."""

    def __init__(self, app: ASGIApp, logins: Logins, port: int) -> None:
        super().__init__(app, port)
        self._logins = logins

    def judge(self, scope: Scope, headers: Headers, host: str) -> Refusal:
        """Returns why a request is refused, None where it comes from our own page."""
        path = scope["path"]
        if scope["method"] not in SAFE and (refusal := _unsafe(headers, host)):
            return refusal
        if not path.startswith("/api/") or path in OPEN:
            return None
        if headers.get("sec-fetch-site", "same-origin") not in OWN_SITES:
            return 403, "Another site asked for this."
        scope["page"] = self._logins.page(cookie_parser(headers.get("cookie", "")))
        if scope["page"] is None:
            return 401, "This page is not logged in. Type `mulligan ui` again for a new link."
        return None


def _unsafe(headers: Headers, host: str) -> Refusal:
    """Returns why a request that may change something is refused, None where it comes from our own page."""
    if "sec-fetch-site" not in headers and "origin" not in headers:
        return 403, "A request that changes something has to say where it comes from."
    if is_foreign(headers, host):
        return 403, "Another site sent this."
    if not is_json(headers):
        return 415, "Requests that change something are JSON."
    length = headers.get("content-length", "")
    if not length.isdigit() or int(length) > LARGEST_BODY:
        return 413, "The request is too large, or does not say how large it is."
    return None
