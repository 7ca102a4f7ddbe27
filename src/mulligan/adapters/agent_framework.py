"""
Microsoft's Agent Framework: middleware of an agent.

    agent = Agent(client, middleware=mulligan_middleware(mulligan.open(".")))
"""

from __future__ import annotations

from typing import Any

from agent_framework import AgentMiddleware, FunctionMiddleware

from mulligan.adapters.recorder import Recorder
from mulligan.engine.workspace import Workspace
from mulligan.model.event import PROMPT, STOP


def mulligan_middleware(workspace: Workspace, *, session: str | None = None) -> list[Any]:
    """Returns middleware that saves at each run and around each function; one `undo` takes back what a run did."""
    recorder = Recorder(workspace, "agent-framework", session)
    return [RunMiddleware(recorder), ToolMiddleware(recorder)]


class RunMiddleware(AgentMiddleware):
    """Tells where a run begins and ends."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    async def process(self, context: Any, call_next: Any) -> None:
        """A run is one turn; of a streaming run, its end is when the stream is read."""
        await self.recorder.tell(PROMPT, text=context.messages[-1].text if context.messages else "")
        if context.stream:
            context.stream_cleanup_hooks.append(lambda: self.recorder.tell(STOP))
            await call_next()
            return
        try:
            await call_next()
        finally:
            await self.recorder.tell(STOP)


class ToolMiddleware(FunctionMiddleware):
    """Saves around each function."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    async def process(self, context: Any, call_next: Any) -> None:
        """Saves what is there before a function runs, and what it leaves, also when it fails."""
        given = context.arguments
        async with self.recorder.tool_async(context.function.name, arguments=dict(given)):
            await call_next()
