"""
The same verbs as coroutines.

    ws = await mulligan.aio.open("project")
    cp = await ws.save("before the refactor")

Each verb runs in a worker thread; the event loop is never blocked.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Any

import mulligan
from mulligan.engine.workbench import Handler
from mulligan.engine.workspace import Workspace as _Workspace
from mulligan.model.checkpoint import Checkpoint

__all__ = ["Workspace", "clone", "open"]

_VERBS = (
    "save", "log", "get", "position", "diff", "cat", "plan", "restore", "apply", "undo", "redo", "revert", "hunks", "delete", "trim", "prune",
    "forget", "check", "doctor", "stats", "status", "pending", "adopt", "close", "push", "pull",
    "git_position", "import_commit", "note", "update_note", "import_directory", "state_owed", "settle_state",
    "record", "agent_events", "agent_event_at", "story", "protection", "blame", "search", "report",
    "fork", "forks", "bisect",
)  # fmt: skip


class Workspace:
    """A workspace whose verbs are awaited."""

    def __init__(self, sync: _Workspace) -> None:
        self.sync = sync

    def __repr__(self) -> str:
        return f"<mulligan.aio.Workspace {self.sync.root!r}>"

    async def __aenter__(self) -> Workspace:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.sync.close)

    def on(self, event: str, handler: Handler) -> None:
        """Calls a handler after each such event, in the worker thread."""
        self.sync.on(event, handler)

    def off(self, event: str, handler: Handler) -> None:
        """Stops calling a handler."""
        self.sync.off(event, handler)

    @asynccontextmanager
    async def guard(self, name: str = "", *, on_error: str = "restore") -> AsyncIterator[Checkpoint]:
        """Saves on entry; on an exception restores and raises it again."""
        guard = self.sync.guard(name, on_error=on_error)
        checkpoint = await asyncio.to_thread(guard.__enter__)
        try:
            yield checkpoint
        except BaseException as error:
            # Shielded: a cancelled task must not cut its own restore short.
            await asyncio.shield(asyncio.to_thread(guard.__exit__, type(error), error, error.__traceback__))
            raise
        await asyncio.to_thread(guard.__exit__, None, None, None)


def _coroutine(verb: str) -> Callable[..., Any]:
    method = getattr(_Workspace, verb)

    @wraps(method)
    async def call(self: Workspace, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(partial(method, self.sync, *args, **options))

    return call


for _verb in _VERBS:
    setattr(Workspace, _verb, _coroutine(_verb))


async def open(path: str | os.PathLike[str] = ".", *, store: str | os.PathLike[str] | None = None) -> Workspace:  # noqa: A001 - the name users type
    """Opens a directory for protection. Nothing is written until the first save."""
    return Workspace(await asyncio.to_thread(mulligan.open, path, store=store))


async def clone(
    url: str,
    directory: str | os.PathLike[str],
    *,
    store: str | os.PathLike[str] | None = None,
    lazy: bool = False,
) -> Workspace:
    """Picks up a timeline from a remote in a directory that is new or empty; see `mulligan.clone`."""
    return Workspace(await asyncio.to_thread(mulligan.clone, url, directory, store=store, lazy=lazy))
