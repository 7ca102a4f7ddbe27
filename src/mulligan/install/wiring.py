"""
Agents that get hooks: which files, which events, which command.

Each agent is one entry of `AGENTS`. Its files are edited, not replaced: what a person wrote there stays. The command names its
program by the full path, because an agent's environment may know another one: the native client, where the installation has
it, else the interpreter that runs now. That one does not look for modules in the project (`-P`), or the project's authors
would decide what runs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mulligan.errors import UserError
from mulligan.install.hook_files import hook_command, our_events, with_hooks, without_hooks

TOOL_SECONDS = 30
#: The first look at a project may take long; and Codex complains, at each start, about a last hook that may take longer than this.
_SECONDS = {"SessionStart": 120}
_CODEX_SECONDS = {**_SECONDS, "SessionEnd": 3}
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Tools that change nothing never start a process at all.
_CLAUDE_TOOLS = "^(?!(Read|Glob|Grep|LS|NotebookRead|WebFetch|WebSearch|TodoWrite|BashOutput|TaskOutput|ToolSearch)$).*"
_GEMINI_TOOLS = "^(?!(read_file|read_many_files|list_directory|glob|search_file_content|grep_search|google_web_search|web_fetch)$).*"


class Here(NamedTuple):
    """Where a file is written: the directory that it is in, and the program that is to run, with its first words."""

    program: tuple[str, ...]
    folder: str = ""
    project: bool = True


class Edit(NamedTuple):
    """One file of an agent: how our part is put into its text (None: there is no file), and taken out again."""

    path: str
    put: Callable[[str | None, Here], str]
    take: Callable[[str], str | None]
    holds: Callable[[str | None], bool]
    executable: bool = False


class Agent(NamedTuple):
    """An agent that hooks can be installed for."""

    name: str
    summary: str
    project: tuple[Edit, ...]
    user: tuple[Edit, ...]
    then: str = ""

    def edits(self, scope: str) -> tuple[Edit, ...]:
        """Returns the files of a scope; none where the agent has no such scope."""
        return self.project if scope == "project" else self.user


def command_for(agent: str, program: tuple[str, ...], file: str) -> str:
    """Returns the command that an agent runs; where mulligan was uninstalled it says so, and the agent goes on."""
    key = "user_message" if agent == "cursor" else "systemMessage"
    said = f"mulligan was uninstalled, so this session has no undo. Reinstall it, or remove the hooks from {file}."
    gone = json.dumps({key: said})
    return f"{hook_command(program, agent)} || echo {shlex.quote(gone)}"


def _shown(path: str, here: Here) -> str:
    """Returns a file as a person finds it: from the project, or whole where it is not in one."""
    return path if here.project else os.path.join(here.folder, os.path.basename(path))


# -- hooks as JSON --------------------------------------------------------------------------------


def _json(agent: str, path: str, groups: Callable[[str], Mapping[str, list[Any]]], **base: Any) -> Edit:
    return Edit(
        path,
        lambda text, here: with_hooks(
            text, groups(command_for(agent, here.program, _shown(path, here))), agent, base, path
        ),
        lambda text: without_hooks(text, agent, base, path),
        lambda text: bool(our_events(text, agent)),
    )


def _grouped(
    command: str,
    events: Mapping[str, str | None],
    *,
    limits: Mapping[str, int] = _SECONDS,
    second: int = 1,
    name: str = "",
) -> dict[str, list[Any]]:
    """Returns one group per event, as Claude Code, Codex and Gemini CLI want them; `second` is the client's second."""
    found: dict[str, list[Any]] = {}
    for event, matcher in events.items():
        seconds = limits.get(event, TOOL_SECONDS)
        handler = {"type": "command", **({"name": name} if name else {}), "command": command}
        group = {**({"matcher": matcher} if matcher else {}), "hooks": [{**handler, "timeout": seconds * second}]}
        found[event] = [group]
    return found


_CLAUDE_EVENTS = {
    "SessionStart": None,
    "UserPromptSubmit": None,
    "PreToolUse": _CLAUDE_TOOLS,
    "PostToolUse": _CLAUDE_TOOLS,
    "PostToolUseFailure": _CLAUDE_TOOLS,
    "SubagentStop": None,
    "PreCompact": None,
    "Stop": None,
    "SessionEnd": None,
}
_CODEX_EVENTS = dict.fromkeys(
    ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"), None
)
_GEMINI_EVENTS = {
    "SessionStart": None,
    "BeforeAgent": None,
    "BeforeTool": _GEMINI_TOOLS,
    "AfterTool": _GEMINI_TOOLS,
    "AfterAgent": None,
    "SessionEnd": None,
}
_CURSOR_EVENTS = (
    *("sessionStart", "beforeSubmitPrompt", "preToolUse", "postToolUse", "postToolUseFailure", "afterFileEdit"),
    *("subagentStop", "stop", "sessionEnd"),
)


def _claude(path: str) -> Edit:
    return _json("claude-code", path, lambda command: _grouped(command, _CLAUDE_EVENTS))


def _codex(path: str) -> Edit:
    return _json("codex", path, lambda command: _grouped(command, _CODEX_EVENTS, limits=_CODEX_SECONDS))


def _gemini(path: str) -> Edit:
    return _json("gemini", path, lambda command: _grouped(command, _GEMINI_EVENTS, second=1000, name="mulligan"))


def _cursor(path: str) -> Edit:
    return _json(
        "cursor",
        path,
        lambda command: {event: [{"command": command, "timeout": TOOL_SECONDS}] for event in _CURSOR_EVENTS},
        version=1,
    )


# -- a marked block in a text ---------------------------------------------------------------------

_BEGIN, _END = "# >>> mulligan >>>", "# <<< mulligan <<<"
_SHELL = re.compile(r"[/ ](?:ba|da|k|z|a|mk)?sh\b")
_BLOCK = re.compile(rf"\n?{re.escape(_BEGIN)}\n.*?{re.escape(_END)}\n", re.DOTALL)


def _block(path: str, lines: Callable[[Here], str], *, head: str = "", executable: bool = False) -> Edit:
    def put(text: str | None, here: Here) -> str:
        block = f"{_BEGIN}\n{lines(here)}{_END}\n"
        if text is None:
            return head + block
        if _BLOCK.search(text):
            return _BLOCK.sub(lambda found: ("\n" if found[0].startswith("\n") else "") + block, text, count=1)
        if executable:
            return _before_the_rest(text, block, path)
        return (text if text.endswith("\n") or not text else text + "\n") + "\n" + block

    def take(text: str) -> str | None:
        rest = _BLOCK.sub("", text, count=1)
        return None if rest.strip() in {"", head.strip()} else rest

    return Edit(path, put, take, lambda text: bool(text and _BLOCK.search(text)), executable)


def _before_the_rest(script: str, block: str, path: str) -> str:
    """Returns a script with a block after its first line, because many scripts end with `exit` or `exec`."""
    first, rest = script.split("\n", 1) if script.startswith("#!") and "\n" in script else ("", script)
    if first and not _SHELL.search(first):
        raise UserError(
            f"{path} is not a script of a shell ({first[:80]}). It was left alone, and nothing was written.",
            hint=f"Let it run this: {block.splitlines()[1]}",
        )
    return (f"{first}\n\n" if first else "") + block + rest


def _git_hook(name: str) -> Edit:
    def lines(here: Here) -> str:
        # A hook of git must not fail, nor wait: whatever happens, the commit goes on.
        return f"{hook_command(here.program, f'git after {name}')} </dev/null >&2 || true\n"

    return _block(f".git/hooks/{name}", lines, head="#!/bin/sh\n", executable=True)


def _aider(*, everywhere: bool) -> tuple[Edit, Edit]:
    """Returns the two files of aider: its settings, and the commands that they make it run when it starts."""
    start = ".aider.mulligan"

    def hook(here: Here, event: str) -> str:
        # Outside of a repository aider starts commands where the files of the chat are, which may be below the project.
        there = "" if everywhere else f"cd {shlex.quote(here.folder)} && "
        return f"{there}{hook_command(here.program, f'aider {event}')} </dev/null"

    def settings(here: Here) -> str:
        load, command = os.path.join(here.folder, start), hook(here, "stop")
        return f"load: {json.dumps(load)}\nnotifications: true\nnotifications-command: {json.dumps(command)}\n"

    def commands(here: Here) -> str:
        # Not `/run`, which asks each time whether the model shall see what was printed; `/test` shows it failures alone.
        return f"/test {hook(here, 'session')} || true\n"

    return _block(".aider.conf.yml", settings), _block(start, commands)


# -- a file of our own ----------------------------------------------------------------------------


def _plugin(path: str) -> Edit:
    def put(text: str | None, here: Here) -> str:
        from mulligan.safefs.userfile import read_user_file

        if text and not ours(text):
            raise UserError(
                f"{path} was not made by mulligan. It was left alone, and nothing was written.", hint="Move it away."
            )
        source = read_user_file(os.path.join(_PACKAGE, "install", "opencode.js"), limit=1 << 20) or b""
        return source.decode().replace("__PROGRAM__", json.dumps(here.program))

    def ours(text: str | None) -> bool:
        return bool(text and text.startswith("// Written by mulligan install opencode"))

    return Edit(path, put, lambda text: None if ours(text) else text, ours)


AGENTS: dict[str, Agent] = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code",
            "Claude Code: every prompt and tool call is a checkpoint",
            (_claude(".claude/settings.local.json"),),
            (_claude(".claude/settings.json"),),
            "Restart running Claude Code sessions. Check with /hooks.",
        ),
        Agent(
            "codex",
            "Codex: the same",
            (_codex(".codex/hooks.json"),),
            (_codex(".codex/hooks.json"),),
            "Codex silently ignores new hooks until you trust them: start codex and say yes, or type /hooks there. Then: mulligan doctor",
        ),
        Agent(
            "gemini",
            "Gemini CLI: the same",
            (_gemini(".gemini/settings.json"),),
            (_gemini(".gemini/settings.json"),),
            "Project hooks run only in folders that Gemini trusts.",
        ),
        Agent(
            "cursor",
            "Cursor (experimental: not tested with the real app)",
            (_cursor(".cursor/hooks.json"),),
            (_cursor(".cursor/hooks.json"),),
        ),
        Agent(
            "opencode",
            "opencode: the same, by a small plugin",
            (_plugin(".opencode/plugin/mulligan.js"),),
            (_plugin(".config/opencode/plugin/mulligan.js"),),
        ),
        Agent(
            "aider",
            "aider: a checkpoint when it starts and whenever it waits for you",
            _aider(everywhere=False),
            _aider(everywhere=True),
        ),
        Agent(
            "git",
            "git: a checkpoint after each commit, checkout, merge and rewrite",
            tuple(_git_hook(name) for name in ("post-commit", "post-checkout", "post-merge", "post-rewrite")),
            (),
        ),
    )
}
