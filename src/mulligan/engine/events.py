"""
Telling others what happened: `saved`, `restored`, `deleted`, `pruned`, `partial`, `error`.

A handler is called after the fact, with the store free again; an exception in a handler is logged and has no other effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mulligan.errors import UserError

EVENTS = ("saved", "restored", "deleted", "pruned", "partial", "error")
Handler = Callable[[Any], object]


class Events:
    """The handlers of one open workspace."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[Handler]] = {}

    def on(self, event: str, handler: Handler) -> None:
        """Adds a handler."""
        self._known(event).append(handler)

    def off(self, event: str, handler: Handler) -> None:
        """Removes a handler; one that was never added is harmless."""
        handlers = self._known(event)
        if handler in handlers:
            handlers.remove(handler)

    def _known(self, event: str) -> list[Handler]:
        if event not in EVENTS:
            raise UserError(f"There is no event {event!r}; there are {', '.join(EVENTS)}.")
        return self._handlers.setdefault(event, [])

    def emit(self, event: str, value: Any) -> None:
        """Calls the handlers of an event."""
        for handler in tuple(self._handlers.get(event, ())):
            try:
                handler(value)
            except Exception:
                import logging

                logging.getLogger("mulligan").debug("a handler of %r failed", event, exc_info=True)
