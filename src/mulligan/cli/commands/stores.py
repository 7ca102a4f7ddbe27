"""`mulligan stores`: every store on this machine."""

from __future__ import annotations

import argparse
import os
from math import inf
from typing import Any

from mulligan.cli.arguments import UsageError, bounded
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.errors import UserError
from mulligan.model.sizes import format_size
from mulligan.present.text import columns, count
from mulligan.present.visible import visible
from mulligan.timeline import stores

USAGE = "stores [-v] [--purge [--older-than DAYS] [-y]] | stores rm DIR… [-y]"
DESCRIPTION = """\
List every store on this machine and its size.

With --purge, remove the stores whose workspace no longer exists and that were not used for a while. A workspace on a
drive that is only unplugged looks the same as one that is gone: hence the age.

`stores rm DIR` removes the whole history of one project, given by its directory or by that of its store. Your files stay.
Without a terminal, both need -y.
"""
EXAMPLES = (
    ("mulligan stores", "where the disk space went"),
    ("mulligan stores --purge", "remove what belongs to vanished workspaces, unused for 30 days"),
    ("mulligan stores rm ~/old-project", "remove all checkpoints of one project"),
)
EXIT_CODES = (0, 1, 11)
DAYS = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("words", nargs="*", metavar="rm DIR", help="remove the history of these projects")
    parser.add_argument("--purge", action="store_true", help="remove stores whose workspace is gone")
    parser.add_argument(
        "--older-than",
        type=bounded("number of days", 0, inf, int),
        default=DAYS,
        metavar="DAYS",
        help=f"unused for so many days (default: {DAYS})",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="also print where each store is")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Lists the stores, after removing some if that was asked for."""
    if args.words:
        return _remove(context, args)
    purged = []
    if args.purge:
        question = (
            f"Remove every store whose workspace is gone and that was not used for {count(args.older_than, 'day')}?"
        )
        context.confirm(question, yes=args.yes, again="mulligan stores --purge -y")
        purged = stores.purge(context.settings, args.older_than)
    found = {"stores": stores.stores(context.settings), "total_budget": context.settings.retention.total_budget}
    document = {**found, "purged": purged} if args.purge else found
    said = stores.total_warning(context.settings)
    return Result({**document, "verbose": args.verbose, "warning": said}, lambda: document)


def _remove(context: Context, args: argparse.Namespace) -> Result:
    """Removes the stores that are named, whole."""
    if args.words[0] != "rm" or len(args.words) < 2:
        raise UsageError("Only `rm DIR` can follow here.", hint="mulligan stores rm ~/old-project")
    known = stores.stores(context.settings)
    chosen = [_named(os.path.join(context.base, os.path.expanduser(word)), known) for word in args.words[1:]]
    for row in chosen:
        question = (
            f"Remove all {count(row['checkpoints'], 'checkpoint')} of {row['workspace']} ({format_size(row['bytes'])})?"
        )
        context.confirm(question, yes=args.yes, again=f"mulligan stores rm {args.words[1]} -y")
    for row in chosen:
        stores.discard(context.settings._replace(workspace=row["workspace"], store=row["path"]))
    document = {"stores": stores.stores(context.settings), "removed": chosen}
    return Result({**document, "purged": chosen, "verbose": False}, lambda: document)


def _named(path: str, known: list[dict[str, Any]]) -> dict[str, Any]:
    real = os.path.realpath(path)
    for row in known:
        if real in (row["workspace"], os.path.realpath(row["path"])):
            return row
    raise UserError(f"No store is of {real}. Nothing was removed.", hint="See them: mulligan stores -v")


def _presence(store: dict[str, Any]) -> str:
    if store["exists"]:
        return ""
    return "  (gone)" if store["gone"] else "  (not found now)"


def render(context: Context, result: Result) -> None:
    """Prints one line per store, and the sum."""
    out = context.out
    for gone in result.value.get("purged", ()):
        out.line(f"removed {visible(gone['path'])}  {format_size(gone['bytes'])}")
    stores = sorted(result.value["stores"], key=lambda store: (not store["exists"], -store["bytes"]))
    rows = [
        (
            format_size(store["bytes"]),
            count(store["checkpoints"], "checkpoint"),
            visible(store["workspace"] or "(unknown workspace)") + _presence(store),
        )
        for store in stores
    ]
    where = [visible(store["path"]) for store in stores] if result.value["verbose"] else []
    for at, line in enumerate(columns(rows, right=frozenset({0, 1}))):
        out.lines([line, *(f"    {path}" for path in where[at : at + 1])])
    total = result.value.get("total_budget")
    limit = f" of {format_size(total)} (retention.total_budget)" if total else ""
    out.line(f"{count(len(stores), 'store')}, {format_size(sum(store['bytes'] for store in stores))}{limit}")
    if result.value.get("warning"):
        context.note(f"warning: {result.value['warning']}")
