"""A server on the loopback interface ends with all its connections."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import subprocess
import sys

import pytest

pytest.importorskip("starlette")

from starlette.responses import PlainTextResponse

from mulligan.loopback import server_of

#: A signal comes in the middle of making the event loop; the server must end without a word all the same.
INTERRUPTED = """
import asyncio, signal, sys
from mulligan.cli.failure import interrupted_by_signals
from mulligan.loopback import run_server


class Policy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self):
        signal.raise_signal(int(sys.argv[1]))
        return super().new_event_loop()


async def serve():
    await asyncio.Event().wait()


asyncio.set_event_loop_policy(Policy())
try:
    with interrupted_by_signals():
        run_server(serve)
except KeyboardInterrupt:
    print("ended")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_very_start_ends_the_server_without_a_word(number):
    words = [sys.executable, "-W", "error", "-c", INTERRUPTED, str(int(number))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


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
