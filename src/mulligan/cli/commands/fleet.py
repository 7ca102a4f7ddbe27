"""`mulligan fleet`: the machines of a remote."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.model.sizes import format_size
from mulligan.present.text import columns, count
from mulligan.present.visible import visible
from mulligan.remotes.survey import as_html

USAGE = "fleet [NAME] [--html]"
DESCRIPTION = """\
Show the machines that push to a remote: when each was last seen, its checkpoints, its agents, its last checkpoint.

Nothing is taken in. With --html, a page is printed.
"""
EXAMPLES = (
    ("mulligan fleet team", "one line per machine"),
    ("mulligan fleet team --html > fleet.html", "a page"),
)
EXIT_CODES = (0, 1, 10, 11)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the remote (default: the only one)")
    parser.add_argument("--html", action="store_true", help="print a page")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Asks the remote."""
    remotes = context.workspace.remotes
    name, rows = remotes.find(args.name).name, remotes.fleet(args.name)
    return Result((name, rows, args.html), lambda: {"machines": rows})


def render(context: Context, result: Result) -> None:
    """Prints one line per machine, or a page."""
    name, rows, page = result.value
    if page:
        context.out.stream.write(as_html(name, rows))
        return
    if not rows:
        context.out.line(f"no machine has pushed to {name} yet")
    table = []
    for row in rows:
        last = row.get("last") or {}
        table.append(
            (
                visible(row["name"]) + (" (this one)" if row.get("this") else ""),
                row.get("last_seen", row.get("problem", "")),
                count(row.get("checkpoints", 0), "checkpoint"),
                format_size(row.get("bytes", 0)),
                visible(", ".join(row.get("agents", ())) or "no agent"),
                visible(str(last.get("name") or last.get("id", "-"))),
            )
        )
    context.out.lines(columns(table))
