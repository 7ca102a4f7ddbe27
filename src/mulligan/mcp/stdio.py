"""
The wire: one JSON message per line, in and out.

The SDK's own reader takes lines of any length and answers nothing to a line it cannot read. This one holds at most `LONGEST`
bytes of a message, reads on only while fewer than `WAITING` requests wait for their answer, answers what is not a message with
an error, and answers everything that was asked before the input ended. Nothing but messages goes out.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, BinaryIO

import anyio
import mcp_types as types
import pydantic_core
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from pydantic import ValidationError

LONGEST = 1 << 20
WAITING = 64
_CHUNK = 1 << 16

_Incoming = MemoryObjectSendStream[SessionMessage | Exception]
_Outgoing = MemoryObjectSendStream[SessionMessage]


async def serve(server: Server[Any], source: BinaryIO, sink: BinaryIO) -> None:
    """Serves one client until its input ends or it stops reading."""
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    waiting = _Waiting(WAITING)
    refusals = write_stream.clone()
    reader = _LineReader(source, incoming, refusals, waiting)
    reader.start()
    writing = asyncio.create_task(_write(sink, outgoing, waiting))
    serving = asyncio.create_task(server.run(read_stream, write_stream, server.create_initialization_options()))
    try:
        # Whichever ends first: the client closed its side, or it no longer reads ours.
        await asyncio.wait((serving, writing), return_when=asyncio.FIRST_COMPLETED)
    finally:
        reader.leave()
        for task in (serving, writing):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for stream in (incoming, read_stream, write_stream, refusals, outgoing):
            stream.close()


class _Waiting:
    """Counts the requests that have no answer yet, and lets in only so many."""

    def __init__(self, most: int) -> None:
        self._free = threading.Semaphore(most)
        self._most = most

    def enter(self) -> None:
        self._free.acquire()

    def leave(self) -> None:
        self._free.release()

    def open(self) -> None:
        """Removes the limit for all messages."""
        self._free.release(self._most)

    def all_left(self) -> None:
        for _ in range(self._most):
            self._free.acquire()


class _LineReader(threading.Thread):
    """Turns lines into messages. A thread, since reading blocks; a daemon, since it cannot be woken."""

    def __init__(self, source: BinaryIO, incoming: _Incoming, outgoing: _Outgoing, waiting: _Waiting) -> None:
        super().__init__(name="mulligan-reader", daemon=True)
        self._source = source
        self._incoming = incoming
        self._outgoing = outgoing
        self._waiting = waiting
        self._loop = asyncio.get_running_loop()
        self._left = False

    def leave(self) -> None:
        """Makes the reader stop at the next message."""
        self._left = True
        self._waiting.open()

    def run(self) -> None:
        """Reads until the end, then until everything is answered."""
        # The loop or the client may be gone at any moment: then reading ends.
        gone = (RuntimeError, OSError, ValueError, anyio.BrokenResourceError, anyio.ClosedResourceError)
        with suppress(*gone, CancelledError, _Left):
            for line in _lines(self._source):
                self._take(line)
            self._waiting.all_left()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._incoming.close)
            self._loop.call_soon_threadsafe(self._outgoing.close)

    def _take(self, line: bytes | None) -> None:
        if line is None:
            self._refuse(None, types.INVALID_REQUEST, f"A message has at most {LONGEST} bytes")
            return
        if not line.strip():
            return
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            self._refuse(*_fault(line))
            return
        if isinstance(message, types.JSONRPCRequest):
            self._waiting.enter()
            metadata = ServerMessageMetadata(on_request_unanswered=self._unanswered)
            self._hand_over(SessionMessage(message, metadata))
        else:
            self._hand_over(SessionMessage(message))

    async def _unanswered(self) -> None:
        self._waiting.leave()

    def _hand_over(self, message: SessionMessage) -> None:
        self._in_loop(lambda: self._incoming.send(message))

    def _refuse(self, request: int | str | None, code: int, about: str) -> None:
        error = types.JSONRPCError(jsonrpc="2.0", id=request, error=types.ErrorData(code=code, message=about))
        self._in_loop(lambda: self._outgoing.send(_Refusal(error)))

    def _in_loop(self, send: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Sends in the loop's own thread and waits until it is taken, so that no buffer is needed."""
        done: Future[None] = Future()

        def begin() -> None:
            task = self._loop.create_task(send())
            task.add_done_callback(lambda ended: _pass_on(ended, done))

        self._loop.call_soon_threadsafe(begin)
        while True:
            if self._left:
                raise _Left
            with suppress(TimeoutError):
                return done.result(1)


class _Left(Exception):
    """The receiver of messages is gone."""


def _pass_on(task: asyncio.Task[None], to: Future[None]) -> None:
    if task.cancelled():
        to.cancel()
    elif error := task.exception():
        to.set_exception(error)
    else:
        to.set_result(None)


def _lines(source: BinaryIO) -> Iterator[bytes | None]:
    """Yields lines; None for one that is too long, of which no more than that is ever held."""
    held, skipping = bytearray(), False
    while chunk := source.read(_CHUNK):
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            if skipping:
                skipping = False
            else:
                yield bytes(held + end) if len(held) + len(end) <= LONGEST else None
            held.clear()
        if skipping:
            continue
        held += rest
        if len(held) > LONGEST:
            yield None
            held.clear()
            skipping = True
    if held:
        yield bytes(held)


class _Refusal(SessionMessage):
    """An answer to a line that never became a request; no request waits for it."""


def _fault(line: bytes) -> tuple[int | str | None, int, str]:
    """Returns which request a broken line was, if that can be told, and what is wrong with it."""
    try:
        read = pydantic_core.from_json(line)
    except ValueError:
        return None, types.PARSE_ERROR, "This line is not JSON"
    request = read.get("id") if isinstance(read, dict) and "method" in read else None
    if isinstance(request, bool) or not isinstance(request, int | str) or len(str(request)[:65]) > 64:
        request = None
    return request, types.INVALID_REQUEST, "This line is not a JSON-RPC 2.0 message"


async def _write(sink: BinaryIO, outgoing: MemoryObjectReceiveStream[SessionMessage], waiting: _Waiting) -> None:
    """Writes what is sent, a line each; ends when the client no longer reads."""
    async for item in outgoing:
        try:
            await asyncio.to_thread(_put, sink, _line(item))
        except (OSError, ValueError):
            return  # EPIPE, or closed under us: the client is gone
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError) and not isinstance(item, _Refusal):
            waiting.leave()


def _put(sink: BinaryIO, line: bytes) -> None:
    sink.write(line)
    sink.flush()


def _line(item: SessionMessage) -> bytes:
    message = item.message
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8") + b"\n"
    except (ValueError, pydantic_core.PydanticSerializationError):
        # Only an id or a value that JSON cannot carry leads here; the line must be valid whatever it is about.
        return (
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"The answer could not be written as JSON"}}\n'
        )
