"""Runs the application on a socket of the loopback interface until it is idle or interrupted."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from mulligan.loopback import run_server, server_of

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from mulligan.ui.live import LiveStreams

#: Seconds without an open page and without a request after which the server ends.
IDLE = 30 * 60.0


def serve(app: ASGIApp, live: LiveStreams, listener: Any, *, idle: float = IDLE) -> None:
    """Serves until a signal, or until no page was open for a while."""
    run_server(lambda: _run(server_of(app), live, listener, idle))


async def _run(server: uvicorn.Server, live: LiveStreams, listener: Any, idle: float) -> None:
    async def watch() -> None:
        while not server.should_exit:
            if live.ending or (not live.pages and time.monotonic() - live.last > idle):
                server.should_exit = True
            await asyncio.sleep(min(0.25, idle / 4))
        live.stop()

    watching = asyncio.create_task(watch())
    try:
        await server.serve(sockets=[listener])
    finally:
        live.stop()
        watching.cancel()
