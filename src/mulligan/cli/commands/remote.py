"""`mulligan remote`: storage elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.present.visible import visible

if TYPE_CHECKING:
    import argparse

USAGE = "remote [add NAME URL [--encrypt|--plain] [--as MACHINE] | rm NAME | list]"
DESCRIPTION = """\
Add, list or remove remotes: storage elsewhere that this history is pushed to and pulled from.

URL is anything git takes (https://, ssh://, user@host:path, a directory). `add` tries what the server allows and says what it
cannot do. Nothing is sent until `mulligan push`.
"""
EXAMPLES = (
    ("mulligan remote add team git@example.org:team/timelines.git", "a git server"),
    ("mulligan remote list", "what there is, and which machines push there"),
)
EXIT_CODES = (0, 1, 11)
PATHS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("words", nargs="*", metavar="WORD", help="add NAME URL, rm NAME, or list")
    parser.add_argument("--encrypt", action="store_true", help="encrypt everything that is sent, with age")
    parser.add_argument("--plain", action="store_true", help="send checkpoints as they are")
    parser.add_argument("--as", dest="machine", metavar="MACHINE", default="", help="what this machine is called there")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Adds, lists or removes."""
    action, *rest = args.words or ["list"]
    remotes = context.workspace.remotes
    if args.encrypt and args.plain:
        raise UsageError("Either --encrypt or --plain.", hint="mulligan remote -h")
    if action == "list" and not rest:
        found = remotes.overview()
        return Result(("list", found), lambda: {"remotes": found})
    if action == "add" and len(rest) == 2:
        encrypt = True if args.encrypt else False if args.plain else None
        added = remotes.add(rest[0], rest[1], encrypt=encrypt, machine=args.machine)
        return Result(("add", added), lambda: {"remote": added.to_dict()})
    if action == "rm" and len(rest) == 1:
        gone = remotes.remove(rest[0])
        return Result(("rm", gone), lambda: {"removed": gone.name})
    raise UsageError("mulligan remote takes: add NAME URL, rm NAME, or list.", hint="mulligan remote -h")


def render(context: Context, result: Result) -> None:
    """Prints what was done, or one line per remote."""
    action, value = result.value
    out = context.out
    if action == "add":
        out.line(f"added {value.name}: {visible(value.url)}{', encrypted' if value.encrypted else ''}")
        for remark in value.remarks():
            context.note(remark)
        context.note(f"Send this history there: mulligan push {value.name}")
    elif action == "rm":
        out.line(f"removed {value.name}; what was pushed there, and what was pulled from there, stays")
    elif not value:
        out.line("no remotes; add one: mulligan remote add NAME URL")
    for row in value if action == "list" else ():
        machines = ", ".join(row["machines"]) or "no other machine yet"
        out.line(f"{row['name']}  {visible(row['url'])}  {machines}")
