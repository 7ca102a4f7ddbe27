"""
Plays a day in a project: a person who types commands, and agents whose hooks call `mulligan hook`.

Everything goes through the command line, as it does for a user. Nothing here imports the package.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tools

_CALLS = itertools.count(1)


class Agent:
    """One session of Claude Code: it sends the events that the real client sends, with the same keys."""

    def __init__(
        self, project: Path, session: str = "1bd24cd5-aaaa-4bbb-8ccc-000000000001", *, cwd: Path | None = None
    ) -> None:
        self.project = project
        self.session = session
        self.cwd = cwd or project

    def event(self, name: str, **payload: Any) -> dict[str, Any]:
        """Sends one event; returns the answer (empty where the hook said nothing)."""
        said = {"session_id": self.session, "cwd": str(self.cwd), "hook_event_name": name, **payload}
        done = self.call(json.dumps(said))
        assert done.returncode == 0, f"exit {done.returncode}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout) if done.stdout.strip() else {}

    def call(self, text: str) -> subprocess.CompletedProcess[str]:
        """Runs the hook with an event on its standard input."""
        env = tools.plain_environment(CLAUDE_PROJECT_DIR=str(self.project))
        return tools.run_mulligan(["hook", "claude-code"], cwd=self.cwd, env=env, given=text)

    def begin(self, prompt: str) -> dict[str, Any]:
        """The person sends a prompt."""
        return self.event("UserPromptSubmit", prompt=prompt, prompt_id=f"p{next(_CALLS)}")

    def before_bash(self, command: str) -> dict[str, Any]:
        """Announces a shell command; `after_bash` ends what this returns."""
        call = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": f"call{next(_CALLS)}"}
        self.event("PreToolUse", **call)
        return call

    def after_bash(self, call: dict[str, Any]) -> None:
        """Says that a shell command ended."""
        self.event("PostToolUse", **call, tool_response={"stdout": ""})

    def bash(self, command: str, work: Callable[[], object] | None = None) -> None:
        """Runs a shell command (or `work` in its place) between the two events of the tool."""
        call = self.before_bash(command)
        if work is not None:
            work()
        else:
            subprocess.run(["/bin/sh", "-c", command], cwd=self.cwd, capture_output=True, timeout=60, check=False)
        self.after_bash(call)

    def write(self, path: str, text: str) -> None:
        """Writes a file with the edit tool, which names its path."""
        where = self.project / path
        call = {
            "tool_name": "Write",
            "tool_input": {"file_path": str(where), "content": text},
            "tool_use_id": f"call{next(_CALLS)}",
        }
        self.event("PreToolUse", **call)
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(text)
        self.event("PostToolUse", **call, tool_response={"filePath": str(where)})

    def stop(self) -> dict[str, Any]:
        """The turn ends."""
        return self.event("Stop", stop_hook_active=False)

    def turn(self, prompt: str, *commands: str) -> None:
        """One whole turn: a prompt, shell commands, the end."""
        self.begin(prompt)
        for command in commands:
            self.bash(command)
        self.stop()


def typed(project: Path, *args: str, expect: int = 0, cwd: Path | None = None) -> str:
    """What a person sees who types `mulligan …` there; insists on the exit code."""
    done = tools.cli(*args, cwd=cwd or project)
    assert done.returncode == expect, f"mulligan {' '.join(args)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def tree(project: Path) -> dict[str, str]:
    """Every file of a project with its text, `.git` aside."""
    return {
        str(path.relative_to(project)): path.read_text(errors="replace")
        for path in sorted(project.rglob("*"))
        if path.is_file() and not path.is_symlink() and ".git" not in path.relative_to(project).parts
    }
