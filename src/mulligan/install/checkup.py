"""
Whether the hooks of agents are installed and send events.

Hooks that stand in a file need not fire: an agent may not have been started since, or may not trust them. Codex passes over hooks
that its user has not approved; its approvals stand in its own configuration. They are read here and never
written: to approve is the user's alone.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from typing import Any, NamedTuple

from mulligan.install.agents import AGENTS
from mulligan.install.editing import Wiring
from mulligan.install.hook_files import HOOKS, is_ours, programs_in
from mulligan.install.targets import SCOPES, Home
from mulligan.safefs.userfile import read_user_file

_LARGEST = 4 << 20
_NO_EVENTS = "hooks installed, no events yet (restart {})"


class Wired(NamedTuple):
    """One agent: the files that hold our hooks, and what keeps them from working, as far as it can be seen."""

    agent: str
    files: tuple[str, ...]
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {"agent": self.agent, "files": list(self.files), "problem": self.problem}


def check(*, project: str, home: Home, heard: dict[str, float]) -> list[Wired]:
    """Returns the agents with hooks here; `heard` has the time of each one's last event."""
    found = []
    for agent in AGENTS.values():
        files = [
            path
            for scope in SCOPES
            if agent.edits(scope) and (agent.name != "git" or os.path.isdir(os.path.join(project, ".git", "hooks")))
            for path in Wiring(agent, scope, project=project, home=home).installed()
        ]
        if agent.name == "claude-code" and not files:
            files = _plugins(home)
        if files:
            said = _problem(agent.name, files, home, heard.get(agent.name)) or _distrust(
                agent.name, project, home, heard
            )
            found.append(Wired(agent.name, tuple(files), said))
    return found


def _problem(agent: str, files: list[str], home: Home, heard: float | None) -> str:
    gone = [path for file in files for path in _missing_programs(file)]
    if gone:
        return f"{gone[0]} is gone, so the hooks do nothing. Again: mulligan install {agent}"
    idle = [file for file in files if agent == "git" and not os.access(file, os.X_OK)]
    if idle:
        return f"{idle[0]} may not be executed, so git does not run it. Again: chmod +x {idle[0]}"
    untrusted = [event for file in files for event in codex_untrusted(file, home)] if agent == "codex" else []
    if untrusted:
        return (
            f"Codex does not trust {len(untrusted)} of its hooks ({', '.join(untrusted)}) and passes over them in silence. "
            "Start codex, type /hooks, and approve them if they are what you installed."
        )
    # A file that is newer than the last event proves nothing: clients write their own settings there too.
    return "" if heard is not None or agent == "gemini" else _NO_EVENTS.format(agent)


def _plugins(home: Home) -> list[str]:
    """Returns the file that lists Claude Code's plugins, if ours is among them: it brings its own hooks."""
    path = home.at(".claude/plugins/installed_plugins.json")
    return [path] if '"mulligan' in _read(path) else []


def _distrust(agent: str, project: str, home: Home, heard: dict[str, float]) -> str:
    """Returns why Gemini CLI ignores a project's hooks; empty if it does not, or an event came."""
    if agent != "gemini" or agent in heard:
        return ""
    try:
        trusted = json.loads(_read(home.at(".gemini/trustedFolders.json")) or "{}")
    except ValueError:
        return _NO_EVENTS.format(agent)  # Gemini itself will say what is wrong with it
    folders = (
        [path for path, level in trusted.items() if str(level).startswith("TRUST_")]
        if isinstance(trusted, dict)
        else []
    )
    if any(os.path.commonpath([project, folder]) == folder for folder in folders if os.path.isabs(folder)):
        return _NO_EVENTS.format(agent)
    return (
        "hooks installed, no events yet. Gemini CLI runs the hooks of a project only in folders that it trusts, and this one "
        "is not among them: start gemini here and trust the folder."
    )


def _read(path: str) -> str:
    try:
        return (read_user_file(path, limit=_LARGEST) or b"").decode("utf-8", "replace")
    except OSError:
        return ""


def _missing_programs(path: str) -> list[str]:
    """Returns the programs that a file of hooks names and that are not there any more."""
    return [each for each in programs_in(_read(path)) if os.path.isabs(each) and not os.path.exists(each)]


def codex_untrusted(path: str, home: Home) -> list[str]:
    """Returns the events of a Codex hooks file for which its user has approved no hook of ours."""
    try:
        hooks = json.loads(_read(path) or "{}").get(HOOKS, {})
        state = tomllib.loads(_read(home.at(".codex/config.toml"))).get(HOOKS, {}).get("state", {})
    except (ValueError, AttributeError):
        return []  # Codex itself will say what is wrong with them
    untrusted = []
    for event, groups in hooks.items():
        for at, group in enumerate(groups):
            for number, handler in enumerate(group.get("hooks", ())):
                key = f"{path}:{_snake(event)}:{at}:{number}"
                if is_ours(handler, "codex") and not state.get(key, {}).get("trusted_hash"):
                    untrusted.append(event)
    return untrusted


def _snake(event: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", event).lower()
