"""What a command is: the shape of every module under `commands/`, and the value it returns."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from mulligan.cli.context import Context


class Result(NamedTuple):
    """The result of a command: a value for `render`, its JSON form, and the exit code."""

    value: Any
    json: Callable[[], Any]
    exit_code: int = 0


class Command(Protocol):
    """A module under `commands/`; `no_arguments` and `print_lines` stand in for what it does not have."""

    USAGE: str
    DESCRIPTION: str
    EXAMPLES: tuple[tuple[str, str], ...]
    EXIT_CODES: tuple[int, ...]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's own arguments."""

    def run(self, context: Context, args: argparse.Namespace) -> Result:
        """Does the work."""

    def render(self, context: Context, result: Result) -> None:
        """Prints the result for a person."""


def no_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: for a command whose file has no `add_arguments`."""
    del parser


def print_lines(context: Context, result: Result) -> None:
    """Prints a list of lines, and nothing for None: for a command whose file has no `render`."""
    context.out.lines(result.value or ())
