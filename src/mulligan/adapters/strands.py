"""
Strands Agents: hooks of an agent.

    agent = Agent(hooks=[MulliganHooks(mulligan.open("."))])
"""

from __future__ import annotations

from typing import Any

from strands.hooks import (
    AfterInvocationEvent,
    AfterToolCallEvent,
    BeforeInvocationEvent,
    BeforeToolCallEvent,
    HookProvider,
)

from mulligan.adapters.recorder import Recorder, in_words
from mulligan.engine.workspace import Workspace
from mulligan.model.event import AFTER, BEFORE, FAILED, PROMPT, STOP


class MulliganHooks(HookProvider):
    """A checkpoint at each invocation and around each tool; one `undo` takes back what an invocation did."""

    def __init__(self, workspace: Workspace, *, session: str | None = None) -> None:
        self.recorder = Recorder(workspace, "strands", session)

    def register_hooks(self, registry: Any, **_: Any) -> None:
        """Asks to be called at the events that concern files."""
        registry.add_callback(BeforeInvocationEvent, self._begun)
        registry.add_callback(BeforeToolCallEvent, lambda event: self._tell(BEFORE, event.tool_use))
        registry.add_callback(AfterToolCallEvent, self._called)
        registry.add_callback(AfterInvocationEvent, lambda _: self.recorder.record(STOP))

    def _begun(self, event: Any) -> None:
        said = [block["text"] for message in event.messages or () for block in message["content"] if "text" in block]
        self.recorder.record(PROMPT, text=said[-1] if said else "")

    def _called(self, event: Any) -> None:
        failed = event.exception is not None or event.result.get("status") == "error"
        self._tell(FAILED if failed else AFTER, event.tool_use)

    def _tell(self, kind: str, use: Any) -> None:
        self.recorder.record(kind, tool=use["name"], call=str(use["toolUseId"]), text=in_words(use["input"]))
