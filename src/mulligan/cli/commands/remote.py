"""`mulligan remote`: storage elsewhere."""

from __future__ import annotations

import argparse
import os

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.present.visible import visible
from mulligan.remotes.urls import absolute, shown

USAGE = (
    "remote [add NAME URL [--encrypt|--plain] [--as MACHINE] | rm NAME | list | member add|rm|list NAME [RECIPIENT]]"
)
DESCRIPTION = """\
Add, list or remove remotes: storage elsewhere that this history is pushed to and pulled from.

URL is anything git takes (https://, ssh://, user@host:path, a directory) or s3://BUCKET/PREFIX (keys and endpoint from the AWS
variables). Object stores are encrypted unless --plain, git servers only with --encrypt. `add` tries what the server allows and says
what it cannot do. Nothing is sent until `mulligan push`. `member` says who can open an encrypted remote: age or ssh public keys.
"""
EXAMPLES = (
    ("mulligan remote add team git@example.org:team/timelines.git", "a git server"),
    ("mulligan remote add backup s3://my-bucket/shop", "an object store, encrypted"),
    ("mulligan remote member add backup age1…", "let a colleague in"),
    ("mulligan remote list", "what there is, and which machines push there"),
)
EXIT_CODES = (0, 1, 11)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("words", nargs="*", metavar="WORD", help="add NAME URL, rm NAME, list, or member …")
    parser.add_argument("--encrypt", action="store_true", help="encrypt everything that is sent, with age")
    parser.add_argument("--plain", action="store_true", help="send checkpoints as they are")
    parser.add_argument("--identity", metavar="FILE", default="", help="the age or ssh key that opens the remote")
    parser.add_argument("-y", "--yes", action="store_true", help="rm: also where it alone has contents of checkpoints")
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
        identity = os.path.join(context.base, args.identity) if args.identity else ""
        url = absolute(rest[1], context.base)
        added = remotes.add(rest[0], url, encrypt=encrypt, machine=args.machine, identity=identity)
        return Result(("add", added), lambda: {"remote": added.to_dict()})
    if action == "rm" and len(rest) == 1:
        gone = remotes.remove(rest[0], forced=args.yes)
        return Result(("rm", gone), lambda: {"removed": gone.name})
    if action == "member" and rest:
        return _member(context, *rest)
    raise UsageError("mulligan remote takes: add NAME URL, rm NAME, or list.", hint="mulligan remote -h")


def _member(context: Context, action: str, name: str | None = None, *recipient: str) -> Result:
    """Lists, adds or removes who can open an encrypted remote."""
    remotes, who = context.workspace.remotes, " ".join(recipient)
    if action == "list" and not who:
        found = remotes.members(name)
        return Result(("members", found), lambda: found)
    if action in ("add", "rm") and name and who:
        done = remotes.add_member(name, who) if action == "add" else remotes.remove_member(name, who)
        return Result((f"member {action}", done), lambda: {"member": done})
    raise UsageError("mulligan remote member takes: add NAME RECIPIENT, rm NAME RECIPIENT, or list NAME.")


def render(context: Context, result: Result) -> None:
    """Prints what was done, or one line per remote."""
    action, value = result.value
    out = context.out
    if action == "add":
        out.line(f"added {value.name}: {visible(shown(value.url))}{', encrypted' if value.encrypted else ''}")
        for remark in value.remarks():
            context.note(remark)
        context.note(f"Send this history there: mulligan push {value.name}")
    elif action == "rm":
        out.line(f"removed {value.name}; what was pushed there, and what was pulled from there, stays")
    elif action == "members":
        out.lines(
            [
                f"{key}  {visible(who)}{'  (you)' if who == value['you'] else ''}"
                for key, who in value["members"].items()
            ]
        )
        context.note(f"Your own public key: {value['you']}")
    elif action == "member add":
        out.line(f"added member {value}: it can open everything that was and will be pushed")
    elif action == "member rm":
        out.line(f"removed member {value}: it cannot open what is pushed from now on")
        context.note("A copy of the key that was made before still opens what was pushed before.")
    elif not value:
        out.line("no remotes; add one: mulligan remote add NAME URL")
    for row in value if action == "list" else ():
        machines = ", ".join(row["machines"]) or "no other machine yet"
        out.line(f"{row['name']}  {visible(row['url'])}  {machines}")
