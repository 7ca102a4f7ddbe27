"""`mulligan repl`: the slash commands of an agent's chat, interactively or from a pipe."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.failure import interrupted_by_signals
from mulligan.dialects.chimera import CheckpointManager
from mulligan.dialects.slash import SlashCommands
from mulligan.engine.workspace import Workspace
from mulligan.environments.ghost import GhostCommitManager
from mulligan.environments.local import LocalEnvironment
from mulligan.errors import UserError
from mulligan.loop.agents import split_command
from mulligan.loop.prompting import PromptedAgent
from mulligan.present.text import some
from mulligan.present.visible import visible

USAGE = "repl [--agent COMMAND]"
DESCRIPTION = """\
Work in a chat: slash commands for checkpoints, and any other text as a prompt for your agent.

/checkpoint [save|create [NAME] | list | restore NAME | undo], /undo [N], /redo, /help, /quit.
They work on the whole timeline: what hooks, commands and other tools saved is listed and undone too.

With --agent, each other line is a prompt. {prompt} in COMMAND stands for it, and no shell sees it. Each prompt is a turn in
the story: /undo undoes what it did.

On a terminal there is line editing and a history; from a pipe, each line is read, answered and forgotten.
A command that fails says so and the next one is read; the end of input ends the session.
"""
EXAMPLES = (
    ("mulligan repl", "then type /help"),
    ("mulligan repl --agent 'claude -p {prompt}'", "a chat in which every prompt can be undone"),
    ("echo '/checkpoint save before-lunch' | mulligan repl", "one command from a script"),
)
EXIT_CODES = (0, 1, 130)
PROMPT = "> "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument(
        "--agent", metavar="COMMAND", help="the agent's command line; {prompt} stands for what you type"
    )


def run(context: Context, args: argparse.Namespace) -> Result:
    """Reads lines until the end and answers each."""
    settings = context.settings
    if context.json:
        raise UserError("A conversation has no JSON form.", hint="mulligan repl")
    env = LocalEnvironment(settings.workspace, store=settings.store)
    _refused_here(env)
    ghost = GhostCommitManager(settings.workspace, store=settings.store)
    workspace = context.workspace
    agent = ChatAgent(context, workspace, args.agent).answer if args.agent else None
    try:
        answered = _converse(context, SlashCommands(CheckpointManager(env), ghost, workspace, agent))
    finally:
        env.cleanup()
        ghost.workspace.close()
    return Result(None, lambda: {"answered": answered})


def _refused_here(env: LocalEnvironment) -> None:
    """A directory that must not be captured is refused at once, not at the first command."""
    try:
        _ = env.workspace
    except PermissionError as error:
        raise UserError(str(error), hint="mulligan -C DIR repl") from error


def _converse(context: Context, commands: SlashCommands) -> int:
    answered = 0
    for line in _typed(context) if context.interactive else _piped():
        answer = _answer(context, commands, line)
        if answer is None:
            break
        answered += 1
        if answer:
            context.out.lines([visible(each) for each in answer.split("\n")])
            context.out.stream.flush()
    return answered


def _answer(context: Context, commands: SlashCommands, line: str) -> str | None:
    try:
        return commands.run(line)
    except KeyboardInterrupt:
        if not context.interactive:
            raise
        # The command's work is either complete or not done, so the prompt can go on.
        return "Interrupted; nothing is half done."


def _piped() -> Iterator[str]:
    yield from sys.stdin


def _typed(context: Context) -> Iterator[str]:
    """Yields what a person types; Control-C drops the line, Control-D leaves."""
    with suppress(ImportError):
        import readline

        readline.parse_and_bind("tab: complete")
        readline.set_completer(_complete)
        readline.set_completer_delims(" ")
    context.err.line("Type /help for the commands, /quit to leave.")
    while True:
        try:
            yield input(PROMPT)
        except EOFError:
            context.err.line()
            return
        except KeyboardInterrupt:
            context.err.line()


def _complete(text: str, state: int) -> str | None:
    words = ("/checkpoint", "/undo", "/redo", "/help", "/quit", "save", "create", "list", "restore", "undo")
    matching = [word for word in words if word.startswith(text)]
    return matching[state] + " " if state < len(matching) else None


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
