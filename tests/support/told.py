"""Events as Claude Code tells them, for tests that are about what happens and not about the client."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import mulligan
from mulligan.hooks.clients import CLIENTS, understand
from mulligan.hooks.handling import handle
from tools import plain_environment, run_mulligan


def hook(
    agent: str, payload: Any, cwd: Path, *, text: str | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs the hook as a client does: the payload on stdin."""
    given = json.dumps(payload) if text is None else text
    return run_mulligan(["hook", agent], cwd=cwd, env=plain_environment(**env), given=given)


class Session:
    """One session of Claude Code in a project: each event opens the workspace anew, as each process does."""

    def __init__(self, project: Path, name: str) -> None:
        self.project = project
        self.name = name
        self._calls = 0
        self._prompts = 0

    def tell(self, event: str, **more: Any) -> str:
        payload = {"session_id": self.name, "cwd": str(self.project), "hook_event_name": event, **more}
        told = understand(CLIENTS["claude-code"], payload, directory="")
        opened: list[mulligan.Workspace] = []

        def open_workspace(directory: str) -> mulligan.Workspace:
            opened.append(mulligan.open(directory))
            return opened[0]

        try:
            reply = handle("claude-code", told, open_workspace)
        finally:
            for each in opened:
                each.close()
        assert reply.message == "", reply
        return reply.message

    def prompt(self, text: str) -> str:
        self._prompts += 1
        return self.tell("UserPromptSubmit", prompt=text, prompt_id=f"{self.name}-p{self._prompts}")

    def before(self, tool: str, **given: Any) -> dict[str, Any]:
        self._calls += 1
        call = {"tool_name": tool, "tool_input": given, "tool_use_id": f"{self.name}-t{self._calls}"}
        self.tell("PreToolUse", **call)
        return call

    def after(self, call: dict[str, Any], *, failed: bool = False) -> str:
        return self.tell("PostToolUseFailure" if failed else "PostToolUse", **call)

    def does(self, command: str, changes: dict[str, str | None], *, failed: bool = False) -> None:
        """One call of Bash that writes these files (None: removes them)."""
        call = self.before("Bash", command=command)
        write(self.project, changes)
        self.after(call, failed=failed)

    def stop(self, **more: Any) -> str:
        return self.tell("Stop", **more)


def write(project: Path, changes: dict[str, str | None]) -> None:
    """Writes files, removes those that shall be none."""
    for name, text in changes.items():
        if text is None:
            (project / name).unlink()
        else:
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text)


def files(project: Path) -> dict[str, str]:
    """Every file of a project and what is in it."""
    return {str(path.relative_to(project)): path.read_text() for path in sorted(project.rglob("*")) if path.is_file()}
