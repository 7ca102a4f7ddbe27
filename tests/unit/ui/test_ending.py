"""A server on the loopback interface ends with all its connections."""

from __future__ import annotations

import asyncio
import gc
import socket

import pytest

pytest.importorskip("starlette")

from starlette.responses import PlainTextResponse

from mulligan.loopback import server_of


def test_a_connection_that_comes_while_the_server_ends_is_closed():
    """A browser opens connections ahead of its requests, at any moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = server_of(PlainTextResponse("here"))
        late: list[socket.socket] = []

        async def on_tick(counter: int) -> bool:
            late.append(socket.create_connection(listener.getsockname(), timeout=30))
            await asyncio.sleep(0)  # the loop accepts
            await asyncio.sleep(0)  # and will start the connection after the server has counted its connections
            return True

        server.on_tick = on_tick
        asyncio.run(server.serve(sockets=[listener]))
    with late.pop() as link:
        assert link.recv(1) == b""
    gc.collect()
