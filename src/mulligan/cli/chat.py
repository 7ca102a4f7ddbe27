"""The agent of a chat on the command line: its output as it comes, then what it changed."""

from __future__ import annotations

import shutil

from mulligan.cli.arguments import UsageError
from mulligan.cli.context import Context
from mulligan.cli.interruption import interrupted_by_signals
from mulligan.engine.workspace import Workspace
from mulligan.errors import UserError
from mulligan.loop.agents import split_command
from mulligan.loop.prompting import PromptedAgent
from mulligan.present.text import some
from mulligan.present.visible import visible

_NAMED = 6


class ChatAgent:
    """Hands prompts to an agent and shows what it writes, made harmless."""

    def __init__(self, context: Context, workspace: Workspace, line: str) -> None:
        self._context = context
        self._rest = b""
        try:
            self._agent = PromptedAgent(workspace, line, on_output=self._show)
            program = split_command(line)[0]
        except ValueError as error:
            raise UsageError(
                f"The command of --agent cannot be used: {error}.", hint="mulligan repl --agent 'claude -p {prompt}'"
            ) from None
        if shutil.which(program) is None:
            raise UserError(f"The program {program!r} was not found. Nothing was run.", hint="Install it first.")

    def answer(self, prompt: str) -> str:
        """Sends a prompt; returns what the agent changed and how it failed, if it did."""
        try:
            with interrupted_by_signals():
                done = self._agent.ask(prompt)
        finally:
            self._flush()
        lines = [f"The agent failed: {visible(done.result.error)}"] if done.result.error else []
        if done.changed:
            lines.append(f"Changed: {some([visible(path) for path in done.changed], _NAMED)}. Undo it: /undo")
        return "\n".join(lines)

    def _show(self, data: bytes) -> None:
        """Prints whole lines as they come."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._print(lines)

    def _flush(self) -> None:
        rest, self._rest = self._rest, b""
        self._print([rest] if rest else [])

    def _print(self, lines: list[bytes]) -> None:
        self._context.out.lines([visible(line.decode("utf-8", "replace")) for line in lines])
        self._context.out.stream.flush()
