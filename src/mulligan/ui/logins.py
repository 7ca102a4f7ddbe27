"""
Who may talk to the server: pages that were opened by a link that this very process printed.

A link carries a token, which a page exchanges once for a cookie that scripts cannot read. Tokens, cookies and the key by which
another `mulligan ui` of the same user asks for a further link are 256 random bits each, and none outlives the process.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping

from mulligan.loopback import bears

#: Seconds that a link works, so that one found later in a log or a scrollback opens nothing.
LINK_LASTS = 3600.0


class Logins:
    """The links that were handed out and the pages that used one."""

    def __init__(self, port: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.cookie = f"mulligan-{port}"
        self.key = secrets.token_urlsafe(32)
        self._clock = clock
        self._links: dict[str, float] = {}
        self._pages: set[str] = set()

    def new_link(self) -> str:
        """Returns a token for a new link; older ones work until they expire."""
        token = secrets.token_urlsafe(32)
        self._links[_digest(token)] = self._clock() + LINK_LASTS
        return token

    def enter(self, token: str) -> str | None:
        """Returns the cookie for a page that has a token, None for a token that is unknown or expired."""
        until = self._links.get(_digest(token))
        if until is None or self._clock() > until:
            return None
        value = secrets.token_urlsafe(32)
        self._pages.add(_digest(value))
        return value

    def page(self, cookies: Mapping[str, str]) -> str | None:
        """Returns which page a request comes from, None where it has no cookie of this server."""
        found = _digest(cookies.get(self.cookie, ""))
        return found if found in self._pages else None

    def is_key(self, given: str) -> bool:
        """Returns whether a request has the key that stands in this user's private directory."""
        return bears(given, self.key)


def _digest(secret: str) -> str:
    # Looked up by digest, so that the time of a lookup says nothing about the secret.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
