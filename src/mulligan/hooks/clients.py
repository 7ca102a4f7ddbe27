"""
The events of each client, in its words, and in ours: one row of `CLIENTS` for each.

Most clients send one JSON object per event in the form of Claude Code; `client_named` has a row for any of them. opencode,
Kilo, pi, aider and git are told apart by small files of our own, which send the same shape. What a payload lacks is left empty:
a hook must live with every version of a client. What was seen of the real ones, and holds here: a failing tool has an event of
its own (Claude Code); notifications of background tasks come as prompts that no person typed; Gemini CLI and Copilot have no
ids, so calls are paired by what they look like; Codex names the files of a patch only in its text; Qwen Code sends an empty
prompt after each tool; Cline has no event for the first prompt of a task but its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mulligan.hooks.calls import EDITING, paths_in, summary, words_of
from mulligan.hooks.events import NOTHING, HookCall
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
_CLINE = {
    **dict.fromkeys(("agent_start", "agent_resume", "prompt_submit", "UserPromptSubmit"), PROMPT),
    **dict.fromkeys(("agent_end", "agent_abort", "agent_error", "TaskComplete", "TaskCancel"), STOP),
    "TaskStart": SESSION,
    "TaskResume": SESSION,
    "session_shutdown": END,
    "tool_call": BEFORE,
    "PreToolUse": BEFORE,
    "tool_result": AFTER,
    "PostToolUse": AFTER,
}
_VIBE = {"pre_tool": BEFORE, "post_tool": AFTER, "post_agent": STOP}
_OURS = {kind: kind for kind in (SESSION, PROMPT, BEFORE, AFTER, FAILED, STOP, END)}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Tools that change no file: their events are ignored.
_CLAUDE_READS = _words(
    "Read Glob Grep LS NotebookRead WebFetch WebSearch TodoWrite TaskOutput BashOutput AskUserQuestion ToolSearch "
    "TaskCreate TaskUpdate TaskList TaskGet ExitPlanMode EnterPlanMode ListMcpResourcesTool ReadMcpResourceTool Skill "
    "KillShell TaskStop"
)
_CODEX_READS = _words(
    "read_file list_dir grep_files view_image web_search update_plan collaborationspawn_agent collaborationwait_agent "
    "collaborationlist_agents collaborationsend_message collaborationfollowup_task collaborationinterrupt_agent"
)
_GEMINI_READS = _words(
    "read_file read_many_files list_directory glob search_file_content grep_search google_web_search web_fetch "
    "save_memory write_todos ask_user todo_write"
)
_OPENCODE_READS = _words("read list glob grep webfetch websearch codesearch todoread todowrite question skill")
_CURSOR_READS = _words("Read Grep Glob LS WebSearch WebFetch TodoWrite read_file list_dir codebase_search")
_CLINE_READS = _words("read_files search_codebase fetch_web_content read_file list_files search_files web_search")
_PI_READS = _words("read grep find ls")
_NOT_A_PERSON = ("<task-notification>", "<local-command", "<system-reminder>")

#: The forms of an answer.
CLAUDE, GEMINI, CURSOR, CLINE, PLAIN = "claude", "gemini", "cursor", "cline", "plain"


class AgentClient(NamedTuple):
    """
    A client: its words for events, its reading tools, and how it is answered.

    `project` is the variable with the directory of the session, wherever its shell has moved since. `asks` says whether it can
    be made to ask before a tool runs, `hears` whether it hands a line on to the model with a prompt,
    `wordless` whether a prompt of its may have no text.
    """

    name: str
    events: Mapping[str, str] = _CLAUDE
    reads: frozenset[str] = _CLAUDE_READS
    project: str = ""
    answer: str = CLAUDE
    asks: bool = False
    hears: bool = False
    event_key: str = "hook_event_name"
    wordless: bool = False


CLIENTS: dict[str, AgentClient] = {
    client.name: client
    for client in (
        AgentClient("claude-code", project="CLAUDE_PROJECT_DIR", asks=True, hears=True, wordless=True),
        AgentClient("codex", reads=_CODEX_READS, hears=True, wordless=True),
        AgentClient("gemini", _GEMINI, _GEMINI_READS, "GEMINI_PROJECT_DIR", GEMINI, True, True, wordless=True),
        AgentClient("cursor", _CURSOR, _CURSOR_READS, "CURSOR_PROJECT_DIR", CURSOR, True, wordless=True),
        AgentClient("opencode", _OURS, _OPENCODE_READS, asks=True, event_key="event", wordless=True),
        AgentClient("kilo", _OURS, _OPENCODE_READS, asks=True, event_key="event", wordless=True),
        AgentClient("pi", _OURS, _PI_READS, event_key="event", wordless=True),
        AgentClient("cline", _CLINE, _CLINE_READS, answer=CLINE, hears=True, event_key="hookName", wordless=True),
        AgentClient("copilot", project="COPILOT_PROJECT_DIR"),
        AgentClient("qwen", reads=_GEMINI_READS, project="QWEN_PROJECT_DIR", hears=True),
        AgentClient("droid", project="FACTORY_PROJECT_DIR"),
        AgentClient("openhands", reads=_words("finish think task_tracker"), project="OPENHANDS_PROJECT_DIR"),
        AgentClient(
            "vibe", _VIBE, _words("read_file grep list_dir todo vibe.todo file_system.read_file file_system.grep")
        ),
        AgentClient("aider", _OURS, frozenset(), answer=PLAIN, event_key="event"),
        AgentClient("git", _OURS, frozenset(), answer=PLAIN, event_key="event"),
    )
}


def client_named(name: str) -> AgentClient:
    """Returns the row of a client; one that sends events in the form of Claude Code for a name without a row."""
    return CLIENTS.get(name) or AgentClient(name)


def understand(client: AgentClient, payload: Payload, *, directory: str) -> HookCall:
    """Returns what a payload says, in our words; nothing at all for an event that does not concern files."""
    name = _text(payload, client.event_key, "event_type")
    kind = client.events.get(name)
    if kind is None:
        return NOTHING
    if client.name == "cline":
        payload = _of_cline(payload)
        kind = FAILED if kind == AFTER and payload["failed"] else kind
    if kind == SESSION and payload.get("source") == "compact":
        kind = COMPACT
    tool, arguments = _tool(client, name, payload) if kind in {BEFORE, AFTER, FAILED} else ("", None)
    if tool in client.reads or (kind == PROMPT and not client.wordless and not _prompt(payload).strip()):
        return NOTHING
    where = directory or _text(payload, "cwd", "working_dir") or _first(payload.get("workspace_roots"))
    prompt, paths = _prompt(payload), tuple(paths_in(arguments, where))
    # A patch is described by its files: its text begins with the same words every time.
    told = ", ".join(paths) if tool == "apply_patch" and paths else arguments
    event = AgentEvent(
        client.name,
        _text(payload, "session_id", "conversation_id", "sessionID"),
        kind,
        tool=tool,
        call=_text(payload, "tool_use_id", "tool_call_id", "callID") if tool else _call(kind, payload),
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


def _prompt(payload: Payload) -> str:
    return _text(payload, "prompt", "message")  # OpenHands says `message`, `event_type` and `working_dir`


def _call(kind: str, payload: Payload) -> str:
    """Returns a prompt's id if the client has one: two installed hooks report each prompt twice."""
    return _text(payload, "prompt_id", "turn_id", "generation_id", "timestamp", "messageID") if kind == PROMPT else ""


def _tool(client: AgentClient, name: str, payload: Payload) -> tuple[str, Any]:
    """Returns the name of the tool and what it was given."""
    tool, given = _text(payload, "tool_name", "tool"), payload.get("tool_input", payload.get("args"))
    if client.name == "cursor" and not tool:
        tool = {"afterFileEdit": "Edit"}.get(name, "Shell" if "Shell" in name else "MCP")
        given = {key: payload[key] for key in ("command", "file_path", "tool_name") if key in payload}
    if tool == "file_editor" and isinstance(given, Mapping):  # OpenHands: its `command` is a verb
        given = {key: value for key, value in given.items() if key != "command"}
    return tool or "tool", given


def _of_cline(payload: Payload) -> dict[str, Any]:
    """Returns a payload of Cline with the keys that the others have; its editor and its command line have two forms."""
    known = {key: value for key, value in payload.items() if isinstance(value, dict)}
    call = known.get("tool_call") or known.get("tool_result") or {}
    old = known.get("preToolUse") or known.get("postToolUse") or {}
    given = call.get("input", old.get("parameters"))
    if isinstance(given, dict) and isinstance(given.get("commands"), list):
        given = {"command": "\n".join(str(each) for each in given["commands"])}
    return {
        "session_id": payload.get("taskId"),
        "cwd": _first(payload.get("workspaceRoots")),
        "tool_name": call.get("name", old.get("toolName")),
        "tool_input": given,
        "tool_use_id": call.get("id"),
        "failed": old.get("success") is False,
        "prompt": known.get("userPromptSubmit", {}).get("prompt"),
        "agent_id": payload.get("agent_id") if payload.get("parent_agent_id") else "",
    }


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
