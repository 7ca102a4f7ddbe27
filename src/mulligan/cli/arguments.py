"""
From words on the command line to one parsed request.

The command's name is found first; then everything else is read with that command's own arguments, so the global options work
before and after the name. A mistake is a UsageError (exit 2), never a SystemExit from the depths.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

from mulligan.cli.command import Command, no_arguments, print_lines
from mulligan.cli.commands import COMMANDS, OTHER_WORDS, WITHIN, module_of
from mulligan.errors import UserError

Number = TypeVar("Number", int, float)
WITH_VALUE = ("-C", "--store", "--wait", "--color")
FLAGS = ("--json", "--no-pager", "-h", "--help", "--version")
COLOURS = ("auto", "always", "never")


class UsageError(UserError):
    """The words on the command line make no request."""

    exit_code = 2


class CommandWords(NamedTuple):
    """The command's name (None if there is none) and all other words in order."""

    command: str | None
    words: list[str]


def split_command(argv: Sequence[str]) -> CommandWords:
    """Returns the first word that is neither a global option nor the value of one, and the rest."""
    at = 0
    while at < len(argv):
        word = argv[at]
        if not word.startswith("-") or word == "-":
            return _within(CommandWords(word, [*argv[:at], *argv[at + 1 :]]), at)
        if word in WITH_VALUE:
            at += 2
        elif word in FLAGS or word.startswith(("-C", "--store=", "--wait=", "--color=")):
            at += 1
        else:
            raise UsageError(
                f"{word} is not an option of mulligan itself.", hint="Options of a command follow its name: mulligan -h"
            )
    return CommandWords(None, list(argv))


def _within(request: CommandWords, at: int) -> CommandWords:
    """Returns the command of another system that follows its name, as in `architect history`."""
    inner = WITHIN.get(request.command or "", {})
    following = request.words[at] if at < len(request.words) else ""
    if following not in inner:
        return request
    return CommandWords(inner[following], [*request.words[:at], *request.words[at + 1 :]])


def wants(words: Sequence[str], *flags: str) -> bool:
    """Returns whether one of the flags is among the words, before any `--`."""
    end = words.index("--") if "--" in words else len(words)
    return any(word in flags for word in words[:end])


def load(command: str) -> Command:
    """Imports the one module that is needed; raises UsageError, with a guess, for an unknown command."""
    module = module_of(command)
    if module is None:
        import difflib

        close = [OTHER_WORDS[command]] if command in OTHER_WORDS else difflib.get_close_matches(command, COMMANDS, n=1)
        hint = f"Did you mean: mulligan {close[0]}" if close else "See all commands: mulligan -h"
        raise UsageError(f"{command!r} is not a command of mulligan.", hint=hint)
    __import__(module)  # `importlib` is half a millisecond
    found = sys.modules[module]
    vars(found).setdefault("add_arguments", no_arguments)
    vars(found).setdefault("render", print_lines)
    return cast("Command", found)


def add_global_options(parser: argparse.ArgumentParser, *, listed: bool = True) -> None:
    """Adds the options that every command understands; not `listed` ones are left out of the help."""
    group: Any = parser.add_argument_group("options of every command") if listed else _Unlisted(parser)
    group.add_argument(
        "-C",
        dest="directory",
        metavar="DIR",
        help="the workspace (default: the nearest directory upward that has a store, else the top of the git repository)",
    )
    group.add_argument(
        "--store", metavar="DIR", help="the store (default: one per workspace under the XDG state directory)"
    )
    group.add_argument("--json", action="store_true", help="print exactly one JSON document on stdout")
    group.add_argument(
        "--wait",
        type=bounded("number of seconds", 0, 86_400, float),
        metavar="S",
        help="seconds to wait while another process writes (default: 2)",
    )
    group.add_argument("--color", choices=COLOURS, metavar="WHEN", help="auto (default), always or never")
    group.add_argument("--no-pager", action="store_true", help="do not show long output in a pager")
    group.add_argument("-h", "--help", action="store_true", help="show this help")


class _Unlisted:
    """Adds arguments that the help of a command does not show."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser

    def add_argument(self, *names: str, **about: Any) -> None:
        """Adds an argument."""
        self._parser.add_argument(*names, **{**about, "help": argparse.SUPPRESS})


def bounded(words: str, least: float, most: float, kind: type[Number]) -> Callable[[str], Number]:
    """Returns what reads a number within bounds, for argparse; `words` say in its complaint what it is."""

    def read(text: str) -> Number:
        number = kind(text)
        if not least <= number <= most:
            raise ValueError(text)
        return number

    read.__name__ = words
    return read


def parse(name: str, command: Command, words: Sequence[str]) -> argparse.Namespace:
    """Returns the parsed arguments; for a command that takes paths, `paths` is what follows `--`."""
    own, paths = list(words), []
    takes_paths = name in COMMANDS and COMMANDS[name].paths
    if takes_paths and "--" in own:
        at = own.index("--")
        own, paths = own[:at], own[at + 1 :]
    parser = build_parser(name, command)
    # Intermixed parsing loses what `--` says about the words after it.
    args = parser.parse_args(own) if "--" in own else parser.parse_intermixed_args(own)
    args.paths, args.dashes = paths, takes_paths and "--" in words
    return args


# -- the parser of one command --------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError."""
        raise UsageError(message[:1].upper() + message[1:].rstrip(".") + ".", hint=f"See: {self.prog} -h")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Wraps paragraphs to the terminal and leaves indented lists alone."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip("\n").split("\n\n")
        return "\n\n".join(p if "\n  " in p else textwrap.fill(p, width, initial_indent=indent) for p in paragraphs)


def build_parser(name: str, command: Command, *, width: int = 80) -> Parser:
    """Returns the parser of one command."""
    parser = Parser(
        prog=f"mulligan {name}",
        usage=f"mulligan {command.USAGE}",
        # argparse makes a formatter for each argument; with a width it does not query the terminal.
        formatter_class=lambda prog: _Formatter(prog, max_help_position=28, width=width),
        add_help=False,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    add_global_options(parser, listed=False)
    return parser
