"""
One thread that does the work, one job after another.

The engine is synchronous and a store has one writer, so calls wait in a queue and the event loop stays free. Cancelling a
waiting job takes it out of the queue; one that is looking at files is stopped there, before anything is changed; a restore that
has begun is finished, since half of one is not on offer.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace

Tell = Callable[[float, str], Awaitable[None]]
_Result = TypeVar("_Result")

#: Seconds between two notices of progress.
INTERVAL = 0.25
#: The work that may be left off: reading files. Nothing has been changed by then.
_MAY_STOP = "reading"


class Stopped(BaseException):
    """A job was cancelled while it was reading; like KeyboardInterrupt, it must not be swallowed."""


class WorkspaceQueue:
    """The line in front of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="mulligan")

    async def run(self, job: Callable[[], _Result], tell: Tell | None = None) -> _Result:
        """Runs a job when its turn comes and returns what it returns; `tell` hears how far it is."""
        loop = asyncio.get_running_loop()
        watch = _Watch(loop, tell)
        try:
            return await loop.run_in_executor(self._pool, self._watched, watch, job)
        except asyncio.CancelledError:
            watch.stop.set()
            raise
        finally:
            watch.over.set()

    def _watched(self, watch: _Watch, job: Callable[[], _Result]) -> _Result:
        self._workspace.progress = watch
        try:
            watch.look()
            return job()
        finally:
            self._workspace.progress = None

    def close(self) -> None:
        """Lets the running job end, drops those that wait."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class _Watch:
    """Receives one job's progress from the engine: forwards it, and stops a job that was cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Tell | None) -> None:
        self.stop = threading.Event()
        self.over = threading.Event()
        self._loop = loop
        self._tell = tell
        self._told = time.monotonic()
        self._count = 0
        self._notice: asyncio.Task[None] | None = None

    def look(self) -> None:
        if self.stop.is_set():
            raise Stopped

    def __call__(self, label: str, done: int, total: int | None) -> None:
        if label == _MAY_STOP:
            self.look()
        now = time.monotonic()
        if self._tell is None or now - self._told < INTERVAL or self.over.is_set():
            return
        self._told = now
        # Phases count from zero each; what is reported must only ever grow.
        self._count = max(self._count + 1, done)
        words = f"{label} {done:,}" + (f" of {total:,}" if total else "")
        with suppress(RuntimeError):  # the loop has ended; the work goes on to its own end
            self._loop.call_soon_threadsafe(self._pass_on, self._count, words)

    def _pass_on(self, count: int, words: str) -> None:
        if self._tell is not None and not self.over.is_set():
            self._notice = self._loop.create_task(_quietly(self._tell(count, words)))


async def _quietly(telling: Awaitable[None]) -> None:
    # A notice that cannot be delivered, because the client is gone, must not harm the work.
    with suppress(Exception):
        await telling
