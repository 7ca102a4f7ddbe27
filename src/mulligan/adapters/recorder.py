"""Telling the engine what an agent did, from inside the agent's own process, without stopping it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import uuid4

from mulligan.engine.workspace import Workspace
from mulligan.hooks.calls import summary
from mulligan.hooks.events import HookCall
from mulligan.hooks.handling import failed, handle
from mulligan.model.event import AFTER, BEFORE, FAILED, PROMPT, STOP, AgentEvent

_TEXT = 300
_MOST_TROUBLES = 100


class Recorder:
    """One session of an agent in one workspace; `troubles` says what could not be saved, newest last."""

    def __init__(self, workspace: Workspace, agent: str, session: str | None = None) -> None:
        self.workspace = workspace
        self.agent = agent
        self.session = session or uuid4().hex
        self.troubles: list[str] = []

    def record(self, kind: str, *, tool: str = "", call: str = "", text: str = "") -> None:
        """Saves what changed, with its cause."""
        if kind == PROMPT and not call:
            call = uuid4().hex  # two prompts in the same words are two prompts
        event = AgentEvent(self.agent, self.session, kind, tool=tool, call=call, text=summary(text, longest=_TEXT))
        self.take(lambda: HookCall(event, self.workspace.root))

    def take(self, event: Callable[[], HookCall]) -> str:
        """Handles an event; returns the error text, empty for none. Never stops the agent."""
        try:
            trouble = handle(self.agent, event(), lambda _: self.workspace).message
        except Exception as error:  # noqa: BLE001 - the one boundary of this door
            trouble = self.failed(error)
        self.note(trouble)
        return trouble

    def failed(self, error: Exception) -> str:
        """Returns that something could not be saved, and why; `mulligan status` remembers it."""
        event = AgentEvent(self.agent, self.session, "unknown")
        return failed(self.agent, event, self.workspace.settings, f"{type(error).__name__}: {error}.").message

    @contextmanager
    def run(self, asked: Any = "") -> Iterator[None]:
        """Surrounds one run of the agent: a turn, which one `undo` takes back."""
        self.record(PROMPT, text=in_words(asked))
        try:
            yield
        finally:
            self.record(STOP)

    @contextmanager
    def tool(self, tool: str, call: str = "", arguments: Any = "") -> Iterator[None]:
        """Surrounds one call of a tool: saves before and after it, also when it fails."""
        told = {"tool": tool, "call": call or uuid4().hex, "text": in_words(arguments)}
        self.record(BEFORE, **told)
        try:
            yield
        except BaseException:
            self.record(FAILED, **told)
            raise
        self.record(AFTER, **told)

    @asynccontextmanager
    async def run_async(self, asked: Any = "") -> AsyncIterator[None]:
        """Surrounds one run of the agent, without blocking the event loop."""
        await self.tell(PROMPT, text=in_words(asked))
        try:
            yield
        finally:
            await self.tell(STOP)

    @asynccontextmanager
    async def tool_async(self, tool: str, call: str = "", arguments: Any = "") -> AsyncIterator[None]:
        """Surrounds one call of a tool, without blocking the event loop."""
        told = {"tool": tool, "call": call or uuid4().hex, "text": in_words(arguments)}
        await self.tell(BEFORE, **told)
        try:
            yield
        except BaseException:
            await self.tell(FAILED, **told)
            raise
        await self.tell(AFTER, **told)

    async def tell(self, kind: str, *, tool: str = "", call: str = "", text: str = "") -> None:
        """The same, without blocking the event loop; when it returns, the state is saved."""
        await asyncio.to_thread(self.record, kind, tool=tool, call=call, text=text)

    def note(self, trouble: str) -> None:
        """Remembers that something could not be saved."""
        if trouble:
            self.troubles = [*self.troubles, trouble][-_MOST_TROUBLES:]
            logging.getLogger("mulligan").warning(trouble)


def in_words(value: Any) -> str:
    """Returns the input of a tool, or of a run, as one line of text."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return str(type(value).__name__)
