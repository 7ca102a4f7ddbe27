"""
How each client wants to be answered.

All of them take one JSON object on stdout with exit code 0. Another exit code would stop the tool in some of them, so none is
ever used. Silence is an answer too, except for Cursor, which wants an object every time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mulligan.hooks.clients import CLAUDE, CLINE, CURSOR, GEMINI, PLAIN, client_named
from mulligan.hooks.events import HookCall, Reply

if TYPE_CHECKING:
    from mulligan.timeline.notices import RestoreNotice


def rendered(agent: str, call: HookCall, reply: Reply) -> str:
    """Returns what to print for a client, empty for nothing."""
    make = {CLAUDE: _claude, GEMINI: _gemini, CURSOR: _cursor, CLINE: _cline, PLAIN: _plain}
    document = make[client_named(agent).answer](call, reply)
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


def _cline(_call: HookCall, reply: Reply) -> dict[str, Any]:
    said = "\n".join(filter(None, (reply.context, reply.message)))
    return {"cancel": False, "contextModification": said} if said else {}


def _plain(_call: HookCall, reply: Reply) -> str:
    return reply.message


_DONE = {"undo": "undid", "redo": "redid", "revert": "reverted", "restore": "restored an earlier state of the files"}
_LONGEST = 60


def news(notices: Sequence[RestoreNotice]) -> str:
    """Returns the sentences, one for each restore, and what follows from them."""
    said = " ".join(_sentence(notice) for notice in notices)
    return f"{said} The files are no longer as you left them: read them again before you change them."


def _sentence(notice: RestoreNotice) -> str:
    from mulligan.present.text import shorten, some
    from mulligan.present.visible import visible
    from mulligan.timeline.notices import NAMED

    about = _DONE[notice.verb]
    if notice.verb != "restore":
        text = f' ("{visible(shorten(notice.text, _LONGEST))}")' if notice.text else ""
        about += f" the changes of prompt {notice.prompt}{text}" if notice.prompt else " the last changes"
    parts = [
        f"{verb} {some([visible(path) for path in paths], NAMED, of=number)}"
        for verb, paths, number in (
            ("restored", notice.restored, notice.restored_count),
            ("removed", notice.removed, notice.removed_count),
        )
        if number
    ]
    return f"Since your last turn the user {about} with mulligan: {'; '.join(parts)}."
