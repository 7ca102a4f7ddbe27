"""
The agents of a pipeline: command lines, and Python factories.

A command line is split into words once, when it is read; the prompt and the model then replace `{prompt}` and `{model}`
inside single words. So a prompt is always part of one argument, whatever it holds, and no shell ever sees it.
"""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mulligan.errors import UserError
from mulligan.loop.commands import CommandError, CommandRun, run

PYTHON = "python:"
_PLACEHOLDER = re.compile(r"\{(prompt|model)\}")
_ERROR_TEXT = 500

AgentFactory = Callable[..., Any]


class UnknownAgent(UserError):
    """A step names an agent that has no provider or cannot be loaded."""


@dataclass
class AgentResult:
    """The result of an agent's run."""

    status: str
    final_output: str = ""
    error: str | None = None


def split_command(text: str) -> list[str]:
    """Returns the words of an agent's command line; raises ValueError for an open quote or no words."""
    words = shlex.split(text)
    if not words:
        raise ValueError("it is empty")
    if _PLACEHOLDER.search(words[0]):
        raise ValueError("the program itself cannot be a placeholder")
    return words


class CommandAgent:
    """An agent that is a command line: exit code 0 is success, its standard output is its answer."""

    def __init__(
        self,
        words: list[str],
        *,
        cwd: str,
        model: str | None = None,
        on_output: Callable[[bytes], object] | None = None,
    ) -> None:
        self.words = words
        self.cwd = cwd
        self.model = model
        self._on_output = on_output

    def run(self, prompt: str, timeout: float | None = None) -> AgentResult:
        """Runs the command; beyond the timeout it is ended, with everything it started."""
        done = run(self.arguments(prompt), cwd=self.cwd, timeout=timeout, on_output=self._on_output)
        answer = done.text.rstrip("\n")
        if done.timed_out:
            return AgentResult("failed", answer, f"timeout: it did not end within {timeout:g} s, and was ended")
        if done.code != 0:
            return AgentResult("failed", answer, _failure(done))
        return AgentResult("success", answer)

    def arguments(self, prompt: str) -> list[str]:
        """Returns the words with the placeholders filled in."""
        values = {"prompt": prompt, "model": self.model}
        if self.model is None and any("{model}" in word for word in self.words):
            raise CommandError(
                f"The command of {self.words[0]!r} asks for {{model}}, and the step has none. Nothing was run."
            )
        return [_PLACEHOLDER.sub(lambda found: values[found[1]] or "", word) for word in self.words]


def _failure(done: CommandRun) -> str:
    how = f"exit code {done.code}" if done.code > 0 else f"ended by signal {-done.code}"
    said = done.err.decode("utf-8", "replace").strip()[-_ERROR_TEXT:]
    return f"{how}: {said}" if said else how


def load_factory(spec: str) -> AgentFactory:
    """Returns the factory that `package.module:function` names; raises UnknownAgent where it cannot be had."""
    module, colon, name = spec.removeprefix(PYTHON).partition(":")
    if not (module and colon and name):
        raise UnknownAgent(f"{spec!r} is not of the form package.module:function. Nothing was run.")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise UnknownAgent(
            f"The agent factory {spec!r} cannot be loaded ({type(error).__name__}: {error}). Nothing was run.",
            hint="Modules are looked for where Python looks; PYTHONPATH adds a directory.",
        ) from error
    if not callable(found):
        raise UnknownAgent(f"{spec!r} is not a function. Nothing was run.")
    factory: AgentFactory = found
    return factory


class Agents:
    """
    The factory of a pipeline that defines its own agents; all other agents come from `fallback`.

    Factories are given by name, and imported when they are first needed: to look at a pipeline runs none of its code.
    """

    def __init__(
        self,
        lines: Mapping[str, str],
        *,
        cwd: str,
        fallback: AgentFactory | str | None = None,
        on_output: Callable[[bytes], object] | None = None,
    ) -> None:
        self._cwd = cwd
        self._fallback = fallback
        self._on_output = on_output
        self.commands = {name: split_command(line) for name, line in lines.items() if not line.startswith(PYTHON)}
        self._factories = {name: line for name, line in lines.items() if line.startswith(PYTHON)}

    def load(self) -> None:
        """Imports the factories, which runs their modules; raises UnknownAgent where one cannot be had."""
        for spec in (*self._factories.values(), self._fallback):
            if isinstance(spec, str):
                load_factory(spec)

    def knows(self, agent: str) -> bool:
        """Returns whether this agent has a provider."""
        return agent in self.commands or agent in self._factories or self._fallback is not None

    def __call__(self, agent: str, model: str | None = None) -> Any:
        """Returns the agent of a step."""
        if agent in self.commands:
            return CommandAgent(self.commands[agent], cwd=self._cwd, model=model, on_output=self._on_output)
        factory = self._factories.get(agent, self._fallback)
        if factory is None:
            raise UnknownAgent(f"No command is set for the agent {agent!r}. Nothing was run.")
        made = load_factory(factory) if isinstance(factory, str) else factory
        return made(agent=agent, model=model)
