"""`mulligan config`: show and change your own settings."""

from __future__ import annotations

import argparse
import json
from typing import Any

from mulligan import settings
from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.errors import UserError
from mulligan.model.sizes import format_size, parse_size
from mulligan.present.visible import visible
from mulligan.safefs.userfile import read_user_file
from mulligan.settings import files
from mulligan.settings.editing import parse_value, with_setting
from mulligan.settings.files import CONFIG_LIMIT, KEYS
from mulligan.settings.scoping import write_config

USAGE = "config get [KEY] | config set KEY VALUE | config unset KEY | config path"
DESCRIPTION = """\
Show or change settings in your own configuration file. Comments in it stay.

`get` prints what counts here: your file, narrowed by that of the project, else the default. A list is typed as TOML.
"""
EXAMPLES = (
    ("mulligan config get", "all settings and their values"),
    ('mulligan config set retention.budget "5 GiB"', "let each project's history grow to this size"),
    ('mulligan config set capture.exclude \'["*.log", "data/"]\'', "leave these out, in all projects"),
)
EXIT_CODES = (0, 1, 2)
_WORDS = {"get": (1, 2), "set": (3, 3), "unset": (2, 2), "path": (1, 1)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("words", nargs="*", metavar="get|set|unset|path", help="what to do, a key, a value")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Shows or changes a setting."""
    what, *rest = args.words or ["get"]
    least, most = _WORDS.get(what, (9, 0))
    if not least <= 1 + len(rest) <= most:
        raise UsageError("This is not a use of config.", hint=f"mulligan {USAGE}")
    path = settings.places(context.environ).user_config
    if what == "path":
        return Result([path], lambda: {"path": path})
    if rest and rest[0] not in files.KEYS:
        raise UserError(f"{rest[0]!r} is not a setting. Nothing was changed.", hint="See all: mulligan config get")
    if what in ("set", "unset"):
        _change(path, rest[0], rest[1] if what == "set" else None)
    found = files.values_of(context.settings)
    shown = {key: found[key] for key in rest[:1] or found}
    lines = [f"{key} = {_shown(key, value)}" for key, value in shown.items()]
    return Result(
        [_shown(rest[0], shown[rest[0]])] if what == "get" and rest else lines,
        lambda: {"settings": shown, "path": path},
    )


def _change(path: str, key: str, typed: str | None) -> None:
    value = None if typed is None else parse_value(typed)
    try:
        if value is not None:
            KEYS[key].read(value)
    except ValueError:
        raise UserError(f"{key} must be {KEYS[key].allowed}. Nothing was changed.") from None
    text = (read_user_file(path, limit=CONFIG_LIMIT) or b"").decode("utf-8-sig")
    changed = with_setting(text, key, value)
    if changed != text:
        write_config(path, changed.encode(), what="your configuration")


def _shown(key: str, value: Any) -> str:
    """Returns a value as it would be typed: a size with its unit where that says all of it."""
    if "a size" in KEYS[key].allowed and parse_size(format_size(value)) == value > 0:
        value = format_size(value).replace(".0 ", " ")
    return visible(json.dumps(value, ensure_ascii=False))
