"""
The events of each client, in its words, and in ours.

Claude Code, Codex, Gemini CLI and Cursor send one JSON object per event; opencode, aider and git are told apart by small files of
our own, which send the same shape. What a payload lacks is left empty: a hook must live with every version of a client. What
was seen of the real ones, and holds here: a failing tool has an event of its own (Claude Code); notifications of background
tasks come as prompts that no person typed; Gemini has no ids, so calls are paired by what they look like, and announces a
compression before every request to its model; Codex names the files of a patch only in its text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mulligan.hooks.events import NOTHING, HookCall
from mulligan.hooks.naming import EDITING, words_of
from mulligan.hooks.summary import summary
from mulligan.model.event import AFTER, BEFORE, COMPACT, END, FAILED, PROMPT, SESSION, STOP, SUBAGENT, AgentEvent

Payload = Mapping[str, Any]

_CLAUDE = {
    "SessionStart": SESSION,
    "UserPromptSubmit": PROMPT,
    "PreToolUse": BEFORE,
    "PostToolUse": AFTER,
    "PostToolUseFailure": FAILED,
    "SubagentStop": SUBAGENT,
    "PreCompact": COMPACT,
    "Stop": STOP,
    "SessionEnd": END,
}
_GEMINI = {
    "SessionStart": SESSION,
    "BeforeAgent": PROMPT,
    "BeforeTool": BEFORE,
    "AfterTool": AFTER,
    "AfterAgent": STOP,
    "SessionEnd": END,
}
_CURSOR = {
    "sessionStart": SESSION,
    "beforeSubmitPrompt": PROMPT,
    "subagentStop": SUBAGENT,
    "preCompact": COMPACT,
    "beforeShellExecution": BEFORE,
    "beforeMCPExecution": BEFORE,
    "preToolUse": BEFORE,
    "afterShellExecution": AFTER,
    "afterMCPExecution": AFTER,
    "afterFileEdit": AFTER,
    "postToolUse": AFTER,
    "postToolUseFailure": FAILED,
    "stop": STOP,
    "sessionEnd": END,
}
_OURS = {kind: kind for kind in (SESSION, PROMPT, BEFORE, AFTER, FAILED, STOP, END)}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Tools of these clients that change no file: their events are ignored.
_READING = {
    "claude-code": _words(
        "Read Glob Grep LS NotebookRead WebFetch WebSearch TodoWrite TaskOutput BashOutput AskUserQuestion ToolSearch "
        "TaskCreate TaskUpdate TaskList TaskGet ExitPlanMode EnterPlanMode ListMcpResourcesTool ReadMcpResourceTool Skill "
        "KillShell TaskStop"
    ),
    "codex": _words(
        "read_file list_dir grep_files view_image web_search update_plan collaborationspawn_agent collaborationwait_agent "
        "collaborationlist_agents collaborationsend_message collaborationfollowup_task collaborationinterrupt_agent"
    ),
    "gemini": _words(
        "read_file read_many_files list_directory glob search_file_content grep_search google_web_search web_fetch "
        "save_memory write_todos ask_user"
    ),
    "opencode": _words("read list glob grep webfetch websearch codesearch todoread todowrite question skill"),
    "cursor": _words("Read Grep Glob LS WebSearch WebFetch TodoWrite read_file list_dir codebase_search"),
}
_NOT_A_PERSON = ("<task-notification>", "<local-command", "<system-reminder>")
_PATCHED = r"(?m)^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$"
_PATH_KEYS = ("file_path", "filePath", "path", "notebook_path", "absolute_path")
_MOST_PATHS = 200


class Client(NamedTuple):
    """A client: its words for events, and how it is answered."""

    name: str
    events: Mapping[str, str]
    event_key: str = "hook_event_name"


CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (
        Client("claude-code", _CLAUDE),
        Client("codex", _CLAUDE),
        Client("gemini", _GEMINI),
        Client("cursor", _CURSOR),
        Client("opencode", _OURS, "event"),
        Client("aider", _OURS, "event"),
        Client("git", _OURS, "event"),
    )
}


def understand(client: Client, payload: Payload, *, directory: str) -> HookCall:
    """Returns what a payload says, in our words; nothing at all for an event that does not concern files."""
    name = _text(payload, client.event_key)
    kind = client.events.get(name)
    if kind is None:
        return NOTHING
    if kind == SESSION and payload.get("source") == "compact":
        kind = COMPACT
    tool, arguments = _tool(client, name, payload) if kind in {BEFORE, AFTER, FAILED} else ("", None)
    if tool in _READING.get(client.name, ()):
        return NOTHING
    where = directory or _text(payload, "cwd") or _first(payload.get("workspace_roots"))
    prompt, paths = _text(payload, "prompt"), tuple(_named_paths(arguments, where))
    # A patch is described by its files: its text begins with the same words every time.
    told = ", ".join(paths) if tool == "apply_patch" and paths else arguments
    event = AgentEvent(
        client.name,
        _text(payload, "session_id", "conversation_id", "sessionID"),
        kind,
        tool=tool,
        call=_text(payload, "tool_use_id", "callID") if tool else _call(kind, payload),
        text=summary(told, where) if tool else summary(prompt),
        paths=paths,
        subagent=_text(payload, "agent_id"),
        transcript=_text(payload, "transcript_path"),
        pending=_pending(payload),
        person=not prompt.lstrip().startswith(_NOT_A_PERSON),
        named=words_of(arguments, where),
        exact=tool in EDITING and bool(paths),
    )
    return HookCall(event, where, arguments, name, _text(payload, "cwd") or where)


def _call(kind: str, payload: Payload) -> str:
    """Returns a prompt's id if the client has one: two installed hooks report each prompt twice."""
    return _text(payload, "prompt_id", "turn_id", "generation_id", "timestamp", "messageID") if kind == PROMPT else ""


def _tool(client: Client, name: str, payload: Payload) -> tuple[str, Any]:
    """Returns the name of the tool and what it was given."""
    tool, given = _text(payload, "tool_name", "tool"), payload.get("tool_input", payload.get("args"))
    if client.name == "cursor" and not tool:
        tool = {"afterFileEdit": "Edit"}.get(name, "Shell" if "Shell" in name else "MCP")
        given = {key: payload[key] for key in ("command", "file_path", "tool_name") if key in payload}
    return tool or "tool", given


def _pending(payload: Payload) -> int:
    tasks = payload.get("background_tasks")
    return len(tasks) if isinstance(tasks, list) else 0


def _text(payload: Payload, *keys: str) -> str:
    for key in keys:
        if isinstance(value := payload.get(key), str) and value:
            return value
    return ""


def _first(value: Any) -> str:
    return value[0] if isinstance(value, list) and value and isinstance(value[0], str) else ""


def _named_paths(arguments: Any, directory: str) -> Iterator[str]:
    """Yields the files that a tool's input names, relative to the directory; one beside it begins with `..`."""
    if not isinstance(arguments, Mapping) or not directory:
        return
    named = [value for key in _PATH_KEYS if isinstance(value := arguments.get(key), str)]
    patch = arguments.get("command", arguments.get("input"))
    if isinstance(patch, str) and "*** Begin Patch" in patch:
        named += re.findall(_PATCHED, patch)
    for path in named[:_MOST_PATHS]:
        found = os.path.relpath(os.path.join(directory, path), directory) if "\0" not in path else "."
        if found != ".":
            yield found
