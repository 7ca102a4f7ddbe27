"""
Google's Agent Development Kit: a plugin of an app.

    app = App(name="app", root_agent=agent, plugins=[MulliganPlugin(mulligan.open("."))])
"""

from __future__ import annotations

from typing import Any

from google.adk.plugins.base_plugin import BasePlugin

from mulligan.adapters.recorder import Recorder, in_words
from mulligan.engine.workspace import Workspace
from mulligan.model.event import AFTER, BEFORE, FAILED, PROMPT, STOP


class MulliganPlugin(BasePlugin):
    """A checkpoint at each message and around each tool; one `undo` takes back what a run did."""

    def __init__(self, workspace: Workspace, *, session: str | None = None) -> None:
        super().__init__(name="mulligan")
        self.recorder = Recorder(workspace, "google-adk", session)

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> None:  # noqa: ARG002 - the library's signature
        """A run begins."""
        said = [part.text for part in getattr(user_message, "parts", None) or () if getattr(part, "text", None)]
        await self.recorder.tell(PROMPT, text=" ".join(said))

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:
        """Saves what is there before a tool runs."""
        await self._tell(BEFORE, tool, tool_args, tool_context)

    async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:  # noqa: ARG002 - the library's signature
        """Saves what a tool left."""
        await self._tell(AFTER, tool, tool_args, tool_context)

    async def on_tool_error_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, error: Any) -> None:  # noqa: ARG002 - the library's signature
        """Saves what a failing tool left."""
        await self._tell(FAILED, tool, tool_args, tool_context)

    async def after_run_callback(self, *, invocation_context: Any) -> None:  # noqa: ARG002 - the library's signature
        """The run is over."""
        await self.recorder.tell(STOP)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Any) -> None:  # noqa: ARG002 - the library's signature
        """The run ended with an error."""
        await self.recorder.tell(STOP)

    async def _tell(self, kind: str, tool: Any, arguments: Any, context: Any) -> None:
        call = str(getattr(context, "function_call_id", "") or "")
        await self.recorder.tell(kind, tool=str(tool.name), call=call, text=in_words(arguments))
