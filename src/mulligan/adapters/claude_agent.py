"""
The Claude Agent SDK: hooks in Python, for `ClaudeAgentOptions`.

    options = ClaudeAgentOptions(cwd=".", hooks=claude_hooks(mulligan.open(".")))
"""

from __future__ import annotations

import asyncio
from typing import Any

from claude_agent_sdk import HookMatcher

from mulligan.adapters.recorder import Recorder
from mulligan.engine.workspace import Workspace
from mulligan.hooks.clients import CLIENTS, understand

AGENT = "claude-code"
#: Those of the SDK's events that concern files; it has none for the start of a session, and the prompt comes first anyway.
EVENTS = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "SubagentStop", "PreCompact", "Stop")
_SECONDS = 120.0


def claude_hooks(workspace: Workspace, *, recorder: Recorder | None = None) -> dict[Any, list[Any]]:
    """
    Returns the hooks: a checkpoint at each prompt and around each tool, with its cause; one `undo` takes back a turn.

    To add hooks of your own, extend the lists. `recorder.troubles`, if you give one, says what could not be saved.
    """
    told = recorder or Recorder(workspace, AGENT)

    async def hook(payload: Any, _tool_use_id: str | None, _context: Any) -> Any:
        trouble = await asyncio.to_thread(
            told.take, lambda: understand(CLIENTS[AGENT], payload, directory=workspace.root)
        )
        return {"systemMessage": trouble} if trouble else {}

    return {event: [HookMatcher(hooks=[hook], timeout=_SECONDS)] for event in EVENTS}
