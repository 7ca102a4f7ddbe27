"""The parser of one command: every rule of the words on a command line, its help, and what to say of a mistake."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Command
from mulligan.cli.registry import EXIT_CODES
from mulligan.cli.usage import UsageError, add_global_options
from mulligan.model.typed import NoReturn


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
    """Returns the parser of one command, with everything its help teaches."""
    parser = Parser(
        prog=f"mulligan {name}",
        usage=f"mulligan {command.USAGE}",
        description=command.DESCRIPTION,
        epilog=_epilog(command),
        # argparse makes a formatter for each argument; one that is told its width asks no terminal for it.
        formatter_class=lambda prog: _Formatter(prog, max_help_position=28, width=width),
        add_help=False,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    add_global_options(parser)
    return parser


def _epilog(command: Command) -> str:
    examples = [f"  {words}\n      {meaning}" for words, meaning in command.EXAMPLES]
    codes = [f"  {code:<4} {EXIT_CODES[code]}" for code in command.EXIT_CODES]
    return "\n".join(["examples:", *examples, "", "exit codes:", *codes])
