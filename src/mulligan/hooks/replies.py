"""
How each client wants to be answered.

All of them take one JSON object on stdout with exit code 0. Another exit code would stop the tool in some of them, so none is
ever used. Silence is an answer too, except for Cursor, which wants an object every time.
"""

from __future__ import annotations

import json
from typing import Any

from mulligan.hooks.events import HookCall, Reply

#: Codex refuses `ask`, and aider and git cannot ask: there the person gets a message instead.
CANNOT_ASK = frozenset({"codex", "aider", "git"})
#: These hand a line of context on to the model with a prompt.
HEARING = frozenset({"claude-code", "codex", "gemini"})


def rendered(agent: str, call: HookCall, reply: Reply) -> str:
    """Returns what to print for a client, empty for nothing."""
    make = {"gemini": _gemini, "cursor": _cursor, "aider": _plain, "git": _plain}.get(agent, _claude)
    document = make(call, reply)
    return document if isinstance(document, str) else json.dumps(document) if document else ""


def _claude(call: HookCall, reply: Reply) -> dict[str, Any]:
    """Claude Code, whose form Codex and our opencode plugin share."""
    found: dict[str, Any] = {"systemMessage": reply.message} if reply.message else {}
    if reply.ask:
        found["hookSpecificOutput"] = {
            "hookEventName": call.name,
            "permissionDecision": "ask",
            "permissionDecisionReason": reply.ask,
        }
    return {**found, **_context(call, reply)}


def _context(call: HookCall, reply: Reply) -> dict[str, Any]:
    """What the model reads with the prompt: the same in Claude Code, Codex and Gemini CLI."""
    if not reply.context:
        return {}
    return {"hookSpecificOutput": {"hookEventName": call.name, "additionalContext": reply.context}}


def _gemini(call: HookCall, reply: Reply) -> dict[str, Any]:
    found = {"systemMessage": reply.message} if reply.message else {}
    asked = {"decision": "ask", "reason": reply.ask} if reply.ask else {}
    return {**found, **asked, **_context(call, reply)}


def _cursor(call: HookCall, reply: Reply) -> dict[str, Any] | str:
    if not call.name.startswith(("before", "preToolUse")):
        return "{}"
    if call.name == "beforeSubmitPrompt":
        return {"continue": True}
    # Without a permission, Cursor decides as it would without us: an `allow` would approve the tool.
    said = reply.ask or reply.message
    found = {**({"permission": "ask"} if reply.ask else {}), **({"user_message": said} if said else {})}
    return found or "{}"


def _plain(_call: HookCall, reply: Reply) -> str:
    return reply.message
