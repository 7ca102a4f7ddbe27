"""
An agent's command line as a partner in a conversation: each prompt is a turn in the workspace's story.

The state before a prompt is saved, and the state after it, whatever the agent does and however it ends. So `undo` takes back
what one prompt did. An agent that has mulligan's hooks tells its own story in between, which then has the details.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from mulligan.engine.workspace import Workspace
from mulligan.loop.agents import AgentResult, CommandAgent, split_command
from mulligan.model.event import PROMPT, STOP, AgentEvent
from mulligan.safefs.directory import random_name


class Answer(NamedTuple):
    """The result of a prompt: how the agent ended, and which files changed."""

    result: AgentResult
    changed: list[str]


class PromptedAgent:
    """One session with a command line such as `claude -p {prompt}`."""

    def __init__(self, workspace: Workspace, line: str, on_output: Callable[[bytes], object] | None = None) -> None:
        words = split_command(line)
        if not any("{prompt}" in word for word in words):
            raise ValueError("it has no {prompt}")
        self._workspace = workspace
        self._agent = CommandAgent(words, cwd=workspace.root, on_output=on_output)
        self._name = os.path.basename(words[0])
        self._session = f"repl-{random_name(8)}"
        self._turns = 0

    def ask(self, prompt: str) -> Answer:
        """Runs the agent with a prompt, between two checkpoints; also when it is interrupted."""
        self._turns += 1
        self._record(PROMPT, prompt)
        before = self._workspace.position()
        try:
            result = self._agent.run(prompt)
        finally:
            self._record(STOP, prompt)
        diff = self._workspace.diff(before)
        moved = [name for pair in diff.renamed for name in pair]
        return Answer(result, sorted({*diff.added, *diff.modified, *diff.deleted, *moved}))

    def _record(self, kind: str, text: str) -> None:
        self._workspace.record(
            AgentEvent(self._name, self._session, kind, call=f"{self._session}-{self._turns}", text=text)
        )
