"""The parser of one command: every rule of the words on a command line, its help, and what to say of a mistake."""

from __future__ import annotations

import argparse
from typing import NoReturn

from mulligan.cli.command import Command
from mulligan.cli.usage import SHARED, UsageError, add_global_options

#: The lines of a terminal that nobody made larger.
SCREEN = 24


class Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError."""
        raise UsageError(message[:1].upper() + message[1:].rstrip(".") + ".", hint=f"See: {self.prog} -h")


# argparse has its few words translated, and nobody ships translations of them: the first one costs a search of the disk and
# the import of `locale`.
argparse._ = str  # type: ignore[attr-defined]


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Wraps paragraphs to the terminal and leaves indented lists alone."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        import textwrap

        paragraphs = text.strip("\n").split("\n\n")
        return "\n\n".join(p if "\n  " in p else textwrap.fill(p, width, initial_indent=indent) for p in paragraphs)


def build_parser(name: str, command: Command, *, width: int = 80) -> Parser:
    """Returns the parser of one command."""
    parser = Parser(
        prog=f"mulligan {name}",
        usage=f"mulligan {command.USAGE}",
        # argparse makes a formatter for each argument; one that is told its width asks no terminal for it.
        formatter_class=lambda prog: _Formatter(prog, max_help_position=28, width=width),
        add_help=False,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    add_global_options(parser, listed=False)
    return parser


def help_text(name: str, command: Command, *, width: int = 80) -> str:
    """Returns the help of one command, no longer than a screen: what does not fit stands in the reference alone."""
    import textwrap

    parser = build_parser(name, command, width=width)
    parser.usage = textwrap.fill(f"mulligan {command.USAGE}", max(width - 7, 40), subsequent_indent="           ")
    paragraphs = command.DESCRIPTION.strip("\n").split("\n\n")
    text = ""
    for shown, examples in ((p, e) for p in range(len(paragraphs), 0, -1) for e in (3, 2, 1)):
        parser.description = "\n\n".join(paragraphs[:shown])
        parser.epilog = _epilog(command, examples, width)
        text = parser.format_help()
        if text.count("\n") <= SCREEN:
            break
    return text


def _epilog(command: Command, most: int, width: int) -> str:
    examples = command.EXAMPLES[:most]
    widest = max((len(words) for words, _ in examples), default=0)
    lines = [f"  {words:<{widest}}  {meaning}" for words, meaning in examples]
    fitting = [line if len(line) <= width else f"  {words}" for line, (words, _) in zip(lines, examples, strict=True)]
    return "\n".join(["examples:", *fitting, SHARED])
