"""What mulligan says about itself: the help of one command, of all of them, and the version."""

from __future__ import annotations

import sys
import textwrap

from mulligan.cli.arguments import UsageError, build_parser, wants
from mulligan.cli.command import Command
from mulligan.cli.commands import COMMANDS, FIRST_FIVE, grouped
from mulligan.cli.screen import as_json

#: The lines of a terminal that was not made larger.
SCREEN = 24
#: The last line of each command's help.
SHARED = "Options of every command: mulligan -h"


def say_help(name: str, command: Command, *, json: bool) -> int:
    """Prints the help of one command; returns the exit code."""
    import shutil

    width = min(shutil.get_terminal_size().columns - 2, 100)
    return _say(help_text(name, command, width=width), "help", json=json)


def without_command(words: list[str], *, json: bool) -> int:
    """Prints the version or the help of mulligan itself; returns the exit code."""
    if wants(words, "--version"):
        return _say(f"mulligan {version()}\n", "version", json=json)
    if wants(words, "-h", "--help"):
        return _say(full_help(), "help", json=json)
    if json:
        raise UsageError("There is no command.", hint="See all commands: mulligan -h")
    return _say(short_help(), "help", json=False)


def _say(text: str, what: str, *, json: bool) -> int:
    if json:
        sys.stdout.write(as_json({what: text.strip()}))
    else:
        sys.stdout.write(text)
    sys.stdout.flush()
    return 0


def help_text(name: str, command: Command, *, width: int = 80) -> str:
    """Returns the help of one command, no longer than a screen: what does not fit stands in the reference alone."""
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


_SHORT = """\
mulligan: checkpoints and rollback for coding agents

{five}

Every checkpoint holds the whole workspace; every restore can be undone.
See it work in a throw-away project:  mulligan demo
All commands: mulligan -h             One command: mulligan save -h
"""

_FULL = """\
usage: mulligan [OPTIONS] COMMAND …      one command: mulligan COMMAND -h

{groups}
options: -C DIR --store DIR --json --color WHEN --no-pager --wait S --version
a checkpoint: @ (the last one), latest, latest~2, NAME, ID, @prompt-2, @tool-17
"""


def short_help() -> str:
    """Returns the five commands people need."""
    return _SHORT.format(five="\n".join(f"  mulligan {name:<9} {COMMANDS[name].summary}" for name in FIRST_FIVE))


def full_help() -> str:
    """Returns every command and every global option, on one screen."""
    groups = grouped()
    daily = "".join(f"  {name:<9} {COMMANDS[name].summary}\n" for name in groups.pop("Every day"))
    rest = [f"{title}: {', '.join(names)}\n" for title, names in groups.items()]
    return _FULL.format(groups=daily + "\n" + "".join(rest))


def version() -> str:
    """Returns the installed version."""
    from importlib import metadata

    try:
        return metadata.version("mulligan")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"
