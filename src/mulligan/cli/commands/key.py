"""`mulligan key`: the keys that secrets are sealed with."""

from __future__ import annotations

import argparse
import os
from typing import Any

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.present.visible import visible
from mulligan.timeline.secrets import Keyring

USAGE = "key [export|import FILE] [--key NAME]"
DESCRIPTION = """\
Show, copy or bring in the keys that secrets are sealed with.

Secrets that git does not track are saved encrypted, with a key of this machine. Without its key, a sealed file cannot be
restored: keep a copy wherever you keep copies of your stores, and bring it along to another machine.
Anyone with the key can open your secrets: the file is readable by you alone, and no existing file is replaced.
"""
EXAMPLES = (
    ("mulligan key", "which keys are here"),
    ("mulligan key export ~/usb/mulligan.key", "a copy of the key that seals"),
    ("mulligan key import ~/usb/mulligan.key", "on another machine, or after a loss"),
)
EXIT_CODES = (0, 1, 91)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument(
        "action", nargs="?", choices=("export", "import"), help="what to do; without it, keys are listed"
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="the file to write or to read")
    parser.add_argument("--key", metavar="NAME", default="", help="which key to export (default: the one that seals)")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Lists, writes or takes in a key."""
    if args.action and not args.file:
        raise UsageError(f"mulligan key {args.action} needs a file.", hint=f"mulligan key {args.action} FILE")
    keys, said = Keyring(context.settings.keys, context.settings.workspace), ""
    if args.action == "export":
        key = keys.export(os.path.join(context.base, args.file), args.key)
        said = (
            f"Wrote key {key.id} to {visible(args.file)}. Anyone with this file can open your secrets: keep it private."
        )
    elif args.action == "import":
        key, is_new = keys.bring(os.path.join(context.base, args.file))
        said = f"Took in key {key.id}." if is_new else f"Key {key.id} was here already."
    document = {
        "directory": keys.path,
        "keys": [{"key": name, "seals": name == keys.default} for name in keys.names()],
        "missing": keys.default if keys.default and keys.get(keys.default) is None else "",
    }
    return Result([said] if said else _lines(document), lambda: document)


def _lines(document: dict[str, Any]) -> list[str]:
    """Returns one line per key, and where they are."""
    lines = [f"{row['key']}  {'seals and opens' if row['seals'] else 'opens'}" for row in document["keys"]]
    if document["missing"]:
        lines.append(f"{document['missing']}  missing: bring it back with mulligan key import FILE")
    none = [] if lines else ["There is no key yet; the first secret that is saved makes one."]
    return [*lines, *none, f"in {visible(document['directory'])}"]
