"""
Agents that get hooks: one row of `AGENTS` for each, with its files, its events and its unit of time.

Files are edited, not replaced: what a person wrote there stays. The command names its program by the full path, because an
agent's environment may know another one: the native client, where the installation has it, else the interpreter that runs now.
That one does not look for modules in the project (`-P`), or the project's authors would decide what runs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from mulligan.errors import UserError
from mulligan.install.hook_files import hook_command, our_events, with_hooks, without_hooks

TOOL_SECONDS = 30
#: The first scan of a project may take long; and Codex complains, at each start, about a last hook that may take longer than this.
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
    """An agent that hooks can be installed for; `read` says that its row was never tried with the real agent."""

    name: str
    title: str
    project: tuple[Edit, ...]
    user: tuple[Edit, ...]
    then: str = ""
    read: bool = False
    does: str = "every prompt and tool call is a checkpoint"

    @property
    def summary(self) -> str:
        """One line for the list of agents."""
        return f"{self.title}: {self.does}" + (
            " (never run here: the file and its units are unverified)" if self.read else ""
        )

    def edits(self, scope: str) -> tuple[Edit, ...]:
        """Returns the files of a scope; none where the agent has no such scope."""
        return self.project if scope == "project" else self.user


# -- hooks as JSON --------------------------------------------------------------------------------


class Shape(NamedTuple):
    """How a client wants a hook written: the keys of a handler, its second, and whether handlers stand in groups."""

    command: str = "command"
    timeout: str = "timeout"
    second: int = 1
    fixed: Mapping[str, Any] = {"type": "command"}
    grouped: bool = True
    base: Mapping[str, Any] = {}

    def groups(self, command: str, events: Mapping[str, str], limits: Mapping[str, int]) -> dict[str, list[Any]]:
        """Returns the hooks of all events; an event's value is the pattern of tools that it is for, if it has one."""
        found: dict[str, list[Any]] = {}
        for event, matcher in events.items():
            seconds = limits.get(event, TOOL_SECONDS) * self.second
            handler = {**self.fixed, self.command: command, self.timeout: seconds}
            group = {**({"matcher": matcher} if matcher else {}), "hooks": [handler]} if self.grouped else handler
            found[event] = [group]
        return found


_CLAUDE, _MILLISECONDS = Shape(), Shape(second=1000)
_GEMINI = Shape(second=1000, fixed={"type": "command", "name": "mulligan"})
_CURSOR = Shape(fixed={}, grouped=False, base={"version": 1})
_COPILOT = Shape("bash", "timeoutSec", grouped=False, base={"version": 1})


def _events(names: str, tools: str = "") -> dict[str, str]:
    """Returns events by name, those of tools with a pattern."""
    return {name: tools if "Tool" in name else "" for name in names.split()}


_SIX = "SessionStart UserPromptSubmit PreToolUse PostToolUse Stop SessionEnd"
_ALL = "SessionStart UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure SubagentStop PreCompact Stop SessionEnd"
_CURSORS = "sessionStart beforeSubmitPrompt preToolUse postToolUse postToolUseFailure afterFileEdit subagentStop stop sessionEnd"


def command_for(words: str, program: tuple[str, ...], file: str, key: str = "systemMessage") -> str:
    """Returns the command that an agent runs; where mulligan was uninstalled it says so, and the agent goes on."""
    said = f"mulligan was uninstalled, so this session has no undo. Reinstall it, or remove the hooks from {file}."
    return f"{hook_command(program, words)} || echo {shlex.quote(json.dumps({key: said}))}"


def _shown(path: str, here: Here) -> str:
    """Returns a file as a person finds it: from the project, or whole where it is not in one."""
    return path if here.project else os.path.join(here.folder, os.path.basename(path))


def _json(
    agent: str, path: str, events: Mapping[str, str], shape: Shape = _CLAUDE, limits: Mapping[str, int] = _SECONDS
) -> Edit:
    words = agent if agent in _OWN_FORM else f"--as {agent}"
    key = "user_message" if agent == "cursor" else "systemMessage"

    def put(text: str | None, here: Here) -> str:
        command = command_for(words, here.program, _shown(path, here), key)
        return with_hooks(text, shape.groups(command, events, limits), agent, shape.base, path)

    return Edit(
        path,
        put,
        lambda text: without_hooks(text, agent, shape.base, path),
        lambda text: bool(our_events(text, agent)),
    )


#: Their hooks name the agent plainly. All others send events in the form of Claude Code: `mulligan hook --as NAME`.
_OWN_FORM = frozenset({"claude-code", "codex", "gemini", "cursor"})


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


def _vibe(path: str) -> Edit:
    def lines(here: Here) -> str:
        command = json.dumps(f"{hook_command(here.program, 'vibe')} || true")
        kinds = ("pre_tool", "post_tool", "post_agent")
        return "".join(
            f'[[hooks]]\nname = "mulligan-{kind}"\ntype = "{kind}"\ncommand = {command}\ntimeout = {TOOL_SECONDS}\n'
            for kind in kinds
        )

    return _block(path, lines)


# -- a file of our own ----------------------------------------------------------------------------


def _own(path: str, agent: str, text: Callable[[Here], str], *, executable: bool = False) -> Edit:
    mark = f"Written by mulligan install {agent}"

    def put(present: str | None, here: Here) -> str:
        if present and not ours(present):
            raise UserError(
                f"{path} was not made by mulligan. It was left alone, and nothing was written.",
                hint="Move it away, or let it run: mulligan hook " + agent,
            )
        return text(here)

    def ours(present: str | None) -> bool:
        return bool(present and mark in present[:200])

    return Edit(path, put, lambda present: None if ours(present) else present, ours, executable)


def _plugin(path: str, agent: str, source: str) -> Edit:
    """Returns a file of JavaScript or TypeScript that ships with the package."""

    def text(here: Here) -> str:
        from mulligan.safefs.userfile import read_user_file

        data = read_user_file(os.path.join(_PACKAGE, "install", source), limit=1 << 20) or b""
        return data.decode().replace("__PROGRAM__", json.dumps(here.program)).replace("__AGENT__", agent)

    return _own(path, agent, text)


def _scripts(folder: str, agent: str, names: Iterable[str]) -> tuple[Edit, ...]:
    """Returns executables, one for each event, that hand it on."""

    def text(here: Here) -> str:
        return f"#!/bin/sh\n# Written by mulligan install {agent}.\n{hook_command(here.program, agent)} || true\n"

    return tuple(_own(f"{folder}/{name}", agent, text, executable=True) for name in names)


_CLINE = ("TaskStart", "TaskResume", "UserPromptSubmit", "PreToolUse", "PostToolUse", "TaskComplete", "TaskCancel")
_GOOSE = ".agents/plugins/mulligan"


def _goose() -> tuple[Edit, Edit]:
    manifest = json.dumps({"name": "mulligan", "description": "Written by mulligan install goose"}, indent=2) + "\n"
    return (
        _own(f"{_GOOSE}/plugin.json", "goose", lambda _: manifest),
        _json("goose", f"{_GOOSE}/hooks/hooks.json", _events(_SIX)),
    )


def _both(name: str, project: str, user: str, events: Mapping[str, str], *more: Any) -> tuple[tuple[Edit], tuple[Edit]]:
    """Returns the same hooks for a project and for a user."""
    return (_json(name, project, events, *more),), (_json(name, user, events, *more),)


# -- the table ------------------------------------------------------------------------------------

AGENTS: dict[str, Agent] = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code",
            "Claude Code",
            *_both("claude-code", ".claude/settings.local.json", ".claude/settings.json", _events(_ALL, _CLAUDE_TOOLS)),
            "Restart running Claude Code sessions. Check with /hooks.",
        ),
        Agent(
            "codex",
            "Codex",
            *_both("codex", ".codex/hooks.json", ".codex/hooks.json", _events(_SIX), _CLAUDE, _CODEX_SECONDS),
            "Codex silently ignores new hooks until you trust them: start codex and say yes, or type /hooks there. Then: mulligan doctor",
        ),
        Agent(
            "copilot",
            "GitHub Copilot CLI",
            *_both("copilot", ".github/hooks/mulligan.json", ".copilot/hooks/mulligan.json", _events(_ALL), _COPILOT),
            "Copilot runs the hooks of a project only in folders that you trust.",
        ),
        Agent(
            "gemini",
            "Gemini CLI",
            *_both(
                "gemini",
                ".gemini/settings.json",
                ".gemini/settings.json",
                _events("SessionStart BeforeAgent BeforeTool AfterTool AfterAgent SessionEnd", _GEMINI_TOOLS),
                _GEMINI,
            ),
            "Project hooks run only in folders that Gemini trusts.",
        ),
        Agent(
            "qwen",
            "Qwen Code",
            *_both("qwen", ".qwen/settings.json", ".qwen/settings.json", _events(_ALL, _GEMINI_TOOLS), _MILLISECONDS),
        ),
        Agent(
            "cline",
            "Cline",
            _scripts(".clinerules/hooks", "cline", _CLINE),
            _scripts(".cline/hooks", "cline", _CLINE),
        ),
        Agent(
            "opencode",
            "opencode",
            (_plugin(".opencode/plugin/mulligan.js", "opencode", "plugin.js"),),
            (_plugin(".config/opencode/plugin/mulligan.js", "opencode", "plugin.js"),),
        ),
        Agent(
            "kilo",
            "Kilo",
            (_plugin(".kilo/plugin/mulligan.js", "kilo", "plugin.js"),),
            (_plugin(".config/kilo/plugin/mulligan.js", "kilo", "plugin.js"),),
        ),
        Agent(
            "pi",
            "pi",
            (_plugin(".pi/extensions/mulligan.ts", "pi", "pi.ts"),),
            (_plugin(".pi/agent/extensions/mulligan.ts", "pi", "pi.ts"),),
        ),
        Agent(
            "openhands",
            "OpenHands",
            *_both("openhands", ".openhands/hooks.json", ".openhands/hooks.json", _events(_SIX)),
        ),
        Agent(
            "aider",
            "aider",
            _aider(everywhere=False),
            _aider(everywhere=True),
            does="a checkpoint when it starts and whenever it waits for you",
        ),
        Agent(
            "cursor",
            "Cursor",
            *_both("cursor", ".cursor/hooks.json", ".cursor/hooks.json", _events(_CURSORS), _CURSOR),
            read=True,
        ),
        Agent(
            "droid",
            "Factory Droid",
            *_both("droid", ".factory/settings.local.json", ".factory/settings.json", _events(_ALL)),
            read=True,
        ),
        Agent("goose", "goose", _goose(), _goose(), read=True),
        Agent(
            "letta",
            "Letta Code",
            *_both(
                "letta",
                ".letta/settings.local.json",
                ".letta/settings.json",
                _events(_ALL, _CLAUDE_TOOLS),
                _MILLISECONDS,
            ),
            read=True,
        ),
        Agent(
            "auggie",
            "Auggie",
            *_both(
                "auggie",
                ".augment/settings.local.json",
                ".augment/settings.json",
                _events("SessionStart PreToolUse PostToolUse Stop SessionEnd", ".*"),
                _MILLISECONDS,
            ),
            read=True,
            does="every tool call is a checkpoint",
        ),
        Agent(
            "vibe",
            "Mistral Vibe",
            (_vibe(".vibe/hooks.toml"),),
            (_vibe(".vibe/hooks.toml"),),
            does="every tool call is a checkpoint",
        ),
        Agent(
            "git",
            "git",
            tuple(_git_hook(name) for name in ("post-commit", "post-checkout", "post-merge", "post-rewrite")),
            (),
            does="a checkpoint after each commit, checkout, merge and rewrite",
        ),
    )
}
