"""
PydanticAI: a capability of an agent.

    agent = Agent("openai:gpt-5", capabilities=[MulliganCapability(mulligan.open("."))])
"""

from __future__ import annotations

from typing import Any

from pydantic_ai.capabilities import AbstractCapability

from mulligan.adapters.recorder import Recorder
from mulligan.engine.workspace import Workspace


class MulliganCapability(AbstractCapability[Any]):
    """A checkpoint at each run and around each tool; one `undo` takes back what a run did."""

    def __init__(self, workspace: Workspace, *, session: str | None = None) -> None:
        self.recorder = Recorder(workspace, "pydantic-ai", session)

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        """A run is one turn."""
        async with self.recorder.run_async(getattr(ctx, "prompt", "") or ""):
            return await handler()

    async def wrap_tool_execute(
        self,
        ctx: Any,  # noqa: ARG002 - the library's signature
        *,
        call: Any,
        tool_def: Any,
        args: Any,
        handler: Any,
    ) -> Any:
        """Saves what is there before a tool runs, and what it leaves, also when it fails."""
        async with self.recorder.tool_async(str(tool_def.name), str(call.tool_call_id or ""), args):
            return await handler(args)
