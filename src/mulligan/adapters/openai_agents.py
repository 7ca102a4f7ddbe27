"""
The OpenAI Agents SDK: hooks of a run.

    await Runner.run(agent, "fix the tests", hooks=MulliganHooks(mulligan.open(".")))
"""

from __future__ import annotations

from typing import Any

from agents import RunHooks

from mulligan.adapters.recorder import Recorder, in_words
from mulligan.engine.workspace import Workspace
from mulligan.model.event import AFTER, BEFORE, PROMPT, STOP


class MulliganHooks(RunHooks):
    """
    A checkpoint before and after each tool of a run; one `undo` takes back what the run did.

    `inner` are hooks of your own, called first. One object may serve run after run, not two at the same time.
    """

    def __init__(self, workspace: Workspace, *, session: str | None = None, inner: RunHooks | None = None) -> None:
        self.recorder = Recorder(workspace, "openai-agents", session)
        self._inner: Any = inner or RunHooks()
        self._handed_over = False

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """A run begins, unless it is another agent's turn in the same one."""
        await self._inner.on_agent_start(context, agent)
        if not self._handed_over:
            await self.recorder.tell(PROMPT, text=_asked(getattr(context, "turn_input", None)))
        self._handed_over = False

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """The run goes on with another agent."""
        await self._inner.on_handoff(context, from_agent, to_agent)
        self._handed_over = True

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Saves what is there before the tool runs."""
        await self._inner.on_tool_start(context, agent, tool)
        await self._tell(BEFORE, context, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        """Saves what the tool left."""
        await self._tell(AFTER, context, tool)
        await self._inner.on_tool_end(context, agent, tool, result)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """The run is over."""
        await self.recorder.tell(STOP)
        await self._inner.on_agent_end(context, agent, output)

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: str | None, input_items: Any) -> None:
        """Passed on."""
        await self._inner.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Passed on."""
        await self._inner.on_llm_end(context, agent, response)

    async def _tell(self, kind: str, context: Any, tool: Any) -> None:
        call, given = getattr(context, "tool_call_id", ""), getattr(context, "tool_arguments", "")
        await self.recorder.tell(kind, tool=tool.name, call=str(call), text=in_words(given))


def _asked(items: Any) -> str:
    """Returns the last thing that a person said."""
    if isinstance(items, str):
        return items
    said = [item.get("content") for item in items or () if isinstance(item, dict) and item.get("role") == "user"]
    return in_words(said[-1]) if said else ""
