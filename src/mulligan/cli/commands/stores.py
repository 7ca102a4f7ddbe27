"""`mulligan stores`: every store on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.model.sizes import format_size
from mulligan.present.text import columns, count
from mulligan.present.visible import visible

if TYPE_CHECKING:
    import argparse

USAGE = "stores [-v] [--purge [--older-than DAYS] [-y]]"
DESCRIPTION = """\
List every store on this machine and its size.

With --purge, remove the stores whose workspace no longer exists and that were not used for a while. A workspace on a
drive that is only unplugged looks the same as one that is gone: hence the age. Without a terminal, --purge needs -y.
"""
EXAMPLES = (
    ("mulligan stores", "where the disk space went"),
    ("mulligan stores --purge", "remove what belongs to vanished workspaces, unused for 30 days"),
    ("mulligan stores --purge --older-than 365 -y", "only after a year, without a question"),
)
EXIT_CODES = (0, 1, 11)
PATHS = ""
DAYS = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("--purge", action="store_true", help="remove stores whose workspace is gone")
    parser.add_argument(
        "--older-than", type=_days, default=DAYS, metavar="DAYS", help=f"unused for so many days (default: {DAYS})"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="also print where each store is")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _days(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


_days.__name__ = "number of days"


def run(context: Context, args: argparse.Namespace) -> Result:
    """Lists the stores, after removing some if that was asked for."""
    from mulligan.timeline import stores

    purged = []
    if args.purge:
        question = (
            f"Remove every store whose workspace is gone and that was not used for {count(args.older_than, 'day')}?"
        )
        context.confirm(question, yes=args.yes, again="mulligan stores --purge -y")
        purged = stores.purge(context.settings, args.older_than)
    found = {"stores": stores.stores(context.settings)}
    document = {**found, "purged": purged} if args.purge else found
    return Result({**document, "verbose": args.verbose}, lambda: document)


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
    out.line(f"{count(len(stores), 'store')}, {format_size(sum(store['bytes'] for store in stores))}")
