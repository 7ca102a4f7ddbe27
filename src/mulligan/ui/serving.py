"""Runs the application on a socket of the loopback interface until it is idle or interrupted."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import uvicorn

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from mulligan.ui.live import LiveStreams

#: Seconds without an open page and without a request after which the server ends.
IDLE = 30 * 60.0


def serve(app: ASGIApp, live: LiveStreams, listener: Any, *, idle: float = IDLE) -> None:
    """Serves until a signal, or until no page was open for a while."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    asyncio.run(_run(server, live, listener, idle))


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
