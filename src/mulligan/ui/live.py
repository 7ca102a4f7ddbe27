"""
What is new, sent to every open page as it happens.

One stream of server-sent events per page. An event's id names rows of the timeline. A page that lost its connection names the last
id it saw and gets what was added since, also from a server that was started again. It gets `reset`, which means "load again", where
more changed than that and this server did not see it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from mulligan.errors import MulliganError

if TYPE_CHECKING:
    from starlette.requests import Request

    from mulligan.ui.timeline import Timeline

#: Seconds between two looks at the timeline, and between two signs of life.
EVERY, ALIVE = 0.15, 10.0


class LiveStreams:
    """The open streams; `last` says when anything was asked of the server, for a server that ends when idle."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.pages = 0
        self.last = time.monotonic()
        self.ending = False
        self._dropped = 0

    def stop(self) -> None:
        """Asks the server and all streams to end."""
        self.ending = True

    def drop(self) -> None:
        """Ends all streams; pages connect again by themselves."""
        self._dropped += 1

    async def stream(self, request: Request, seen: str) -> AsyncIterator[bytes]:
        """Yields events until the page or the server goes."""
        self.pages += 1
        begun = self._dropped
        spoken = time.monotonic()
        try:
            yield b"retry: 1000\n\n"
            while not self.ending and begun == self._dropped and not await request.is_disconnected():
                try:
                    version = await run_in_threadpool(self._timeline.refresh)
                except MulliganError as error:
                    version, message = seen, json.dumps({"message": error.message, "hint": error.hint})
                    yield f"event: trouble\ndata: {message}\n\n".encode()
                    await asyncio.sleep(2)
                if version != seen:
                    yield await run_in_threadpool(self._event, seen, version)
                    seen, spoken = version, time.monotonic()
                elif time.monotonic() - spoken > ALIVE:
                    yield b"event: alive\ndata: {}\n\n"
                    spoken = time.monotonic()
                await asyncio.sleep(EVERY)
        finally:
            self.pages -= 1
            self.last = time.monotonic()

    def _event(self, seen: str, version: str) -> bytes:
        found = self._timeline.since(seen)
        name = "steps" if found is not None else "reset"
        data = json.dumps(found if found is not None else {"version": version})
        number = found["version"] if found is not None else version
        return f"id: {number}\nevent: {name}\ndata: {data}\n\n".encode()
