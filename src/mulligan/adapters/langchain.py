"""
LangChain's `create_agent`, and deepagents, which takes the same middleware.

    agent = create_agent(model, tools, middleware=[MulliganMiddleware(mulligan.open("."))])
    agent = create_deep_agent(model, tools, middleware=[MulliganMiddleware(mulligan.open("."))])
"""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import AgentMiddleware

from mulligan.adapters.recorder import Recorder, in_words
from mulligan.engine.workspace import Workspace
from mulligan.model.event import PROMPT, STOP


class MulliganMiddleware(AgentMiddleware[Any, Any, Any]):
    """A checkpoint at each run and around each tool; one `undo` takes back what a run did."""

    def __init__(self, workspace: Workspace, *, session: str | None = None) -> None:
        self.recorder = Recorder(workspace, "langchain", session)

    def before_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - the library's signature
        """A run begins."""
        self.recorder.record(PROMPT, text=_asked(state))

    async def abefore_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - the library's signature
        """A run begins."""
        await self.recorder.tell(PROMPT, text=_asked(state))

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Saves what is there before a tool runs, and what it leaves, also when it fails."""
        with self.recorder.tool(*_called(request)):
            return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Saves what is there before a tool runs, and what it leaves, also when it fails."""
        async with self.recorder.tool_async(*_called(request)):
            return await handler(request)

    def after_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - the library's signature
        """The run is over."""
        self.recorder.record(STOP)

    async def aafter_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - the library's signature
        """The run is over."""
        await self.recorder.tell(STOP)


def _called(request: Any) -> tuple[str, str, Any]:
    """Returns the name of a tool, the id of its call, and its arguments."""
    call = request.tool_call
    return str(call["name"]), str(call.get("id") or ""), call.get("args", "")


def _asked(state: Any) -> str:
    """Returns the last thing that a person said."""
    said = [message.content for message in state.get("messages", ()) if getattr(message, "type", "") == "human"]
    return in_words(said[-1]) if said else ""
