"""
Writes docs/reference/cli.md and the man page docs/reference/mulligan.1 from the parsers of the commands.

    python scripts/generate_cli_reference.py          write both
    python scripts/generate_cli_reference.py --check  exit 1 if one of them is not current

The text is made from the parsers' parts, not from argparse's own help, whose wording differs between Python versions.
"""

# ruff: noqa: INP001 - a script, not a package
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from mulligan.cli.arguments import Parser, add_global_options, build_parser, load
from mulligan.cli.command import Command
from mulligan.cli.commands import COMMANDS, WITHIN, grouped

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"
MAN_PAGE = PAGE.with_name("mulligan.1")

HEAD = """\
# Command line

<!-- Written by scripts/generate_cli_reference.py from the commands themselves; edit those. -->

`mulligan [-C DIR] [--store DIR] [--json] [--wait S] COMMAND`; `python -m mulligan` is the same.

The result goes to standard output, everything else to standard error.
Without a terminal there is no colour, no progress line and no question.
`NO_COLOR` switches colour off on a terminal, too.
Every command can also end with 2 (usage), 70 (a mistake in mulligan itself) or 130 (interrupted): see [exit codes](exit-codes.md).
With `--json` exactly one JSON document is printed, for an error as well: an object `error` with `type`, `message`, `hint` and `exit_code`.

## Which workspace

`-C DIR` names it.
Without `-C` a command climbs from the current directory to the nearest `.git`, the top of the repository.
The workspace is the nearest directory on that way that has a store already; if none has, it is the top.
Outside git it is the nearest directory upward that has a store, else the current directory.
A command never climbs into your home directory, `/` or another directory that mulligan refuses, and not beyond the file system.
Hooks start at the project directory that the agent names (else where it runs) and climb the same way; `mulligan.open(path)` never climbs.
With `workspace.root = "here"` in your own configuration a repository without a store is not protected as a whole: the workspace is the current directory.
With `--store` or `MULLIGAN_STORE` it is the workspace whose history that store holds, if you stand inside it.
So commands work anywhere inside a project, and `mulligan -C . save` gives a subdirectory a history of its own.
`undo`, `redo`, `restore` and `status` name the workspace when it is not the current directory.

Paths that you type are relative to where you stand (to `DIR` with `-C`).
A path outside the workspace is refused with exit code 83.

## How a checkpoint is named

| | |
|---|---|
| `@` | the position: the checkpoint last saved or restored to |
| `latest`, `latest~2` | the newest, and two before it; safety checkpoints are not counted |
| `"20 minutes ago"`, `yesterday`, `@14:05`, `2026-11-18T14:05` | the newest at or before that time, safety checkpoints included; local without a zone; a minute or a day counts to its end, and a clock time that is still to come today is yesterday's. A checkpoint of that name comes first |
| a name | the newest checkpoint of that name |
| an id, or the beginning of one | exactly that one |
"""


def page() -> str:
    """Returns the whole page."""
    shared = Parser(add_help=False)
    add_global_options(shared)
    parts = [
        HEAD,
        "## Options of every command\n\nThey may stand before or after the command's name.\n",
        _table(_options(shared)),
    ]
    for group, names in grouped().items():
        parts.append(f"## {group}\n")
        for name in names:
            parts.append(_section(name))
            inner = {word: target for word, target in WITHIN.get(name, {}).items() if target not in COMMANDS}
            parts += [_section(target, f"{name} {word}") for word, target in inner.items()]
    return "\n".join(parts)


def _section(name: str, title: str = "") -> str:
    command = load(name)
    parser = build_parser(name, command)
    shared = {"-C", "--store", "--json", "--wait", "--color", "--no-pager", "-h"}
    own = [row for row in _options(parser) if not shared & set(row[0].replace("`", "").replace(",", "").split())]
    return "\n".join(
        [
            f"### {title or name}\n",
            f"    mulligan {command.USAGE}\n",
            command.DESCRIPTION,
            *([_table(own)] if own else []),
            _examples(command),
            "[Exit codes](exit-codes.md): " + ", ".join(map(str, command.EXIT_CODES)) + ".\n",
        ]
    )


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list
        value = action.metavar or ("|".join(action.choices) if action.choices else None)
        takes = f" {value}" if value and action.nargs != 0 else ""
        words = [f"`{word}{takes}`" for word in action.option_strings] or [f"`{value or action.dest}`"]
        yield ", ".join(words).replace("|", "\\|"), (action.help or "").replace("|", "\\|")


def _table(rows: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {words} | {meaning} |" for words, meaning in rows), ""])


def _examples(command: Command) -> str:
    lines = [f"# {meaning}\n{words}" for words, meaning in command.EXAMPLES]
    return "```sh\n" + "\n".join(lines) + "\n```\n"


def man_page() -> str:
    """Returns the manual page, in roff."""
    shared = Parser(add_help=False)
    add_global_options(shared)
    lines = [
        '.\\" Written by scripts/generate_cli_reference.py from the commands themselves; edit those.',
        ".TH MULLIGAN 1",
        ".SH NAME",
        r"mulligan \- checkpoints and rollback for coding agents",
        ".SH SYNOPSIS",
        ".B mulligan",
        r"[\-C DIR] [\-\-store DIR] [\-\-json] [\-\-wait S] COMMAND",
        ".SH DESCRIPTION",
        "mulligan saves the whole project at every prompt and every tool call of a coding agent, shows what each did,",
        "and undoes any of it.",
        ".SH OPTIONS OF EVERY COMMAND",
        *_man_options(shared),
    ]
    for group, names in grouped().items():
        lines.append(f".SH {_roff(group.upper())}")
        for name in names:
            command = load(name)
            lines += [f".SS {_roff(name)}", ".nf", f"mulligan {_roff(command.USAGE)}", ".fi", ".PP"]
            lines += [_roff(line) if line.strip() else ".PP" for line in command.DESCRIPTION.splitlines()]
            parser = build_parser(name, command)
            lines += _man_options(parser, without={word for row in shared._actions for word in row.option_strings})  # noqa: SLF001 - argparse has no public list
    lines += [".SH EXIT STATUS", *_exit_codes(), ".SH SEE ALSO", ".BR git (1)"]
    return "\n".join(lines) + "\n"


def _man_options(parser: argparse.ArgumentParser, without: set[str] | None = None) -> Iterator[str]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list
        if without and without & set(action.option_strings):
            continue
        value = action.metavar or ("|".join(action.choices) if action.choices else None)
        takes = f" {value}" if value and action.nargs != 0 else ""
        words = ", ".join(f"{word}{takes}" for word in action.option_strings) or str(value or action.dest)
        yield from (".TP", f".B {_roff(words)}", _roff(action.help or ""))


def _exit_codes() -> Iterator[str]:
    """Yields the table of docs/reference/exit-codes.md."""
    for line in PAGE.with_name("exit-codes.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0].strip("`").isdigit():
            yield from (".TP", f".B {cells[0].strip('`')}", _roff(cells[1].replace("`", "")))


def _roff(text: str) -> str:
    escaped = text.strip().replace("…", "...").replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in {".", "'"} else escaped


def main() -> int:
    """Writes the pages, or compares them."""
    pages = {PAGE: page(), MAN_PAGE: man_page()}
    if "--check" not in sys.argv[1:]:
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")
        return 0
    return 0 if all(path.read_text(encoding="utf-8") == text for path, text in pages.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
