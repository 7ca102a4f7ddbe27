"""One setting in the user's own file, changed in place: comments and everything else stay as they are."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from mulligan.errors import ConfigError

_BY_HAND = "Edit the file by hand."


def with_setting(text: str, key: str, value: Any) -> str:
    """Returns the text of a file with a setting (None: without it); raises ConfigError where that is not safe."""
    section, _, name = key.partition(".")
    try:
        before = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"Your configuration cannot be read: {error}. Nothing was changed.", hint=_BY_HAND) from None
    wanted = {each: dict(table) if isinstance(table, dict) else table for each, table in before.items()}
    if value is None:
        if name not in wanted.get(section, {}):
            return text
        del wanted[section][name]
    else:
        wanted.setdefault(section, {})[name] = value
    changed = _edited(
        text.splitlines(keepends=True), section, name, None if value is None else f"{name} = {_toml(value)}\n"
    )
    try:
        safe = tomllib.loads(changed) == wanted
    except tomllib.TOMLDecodeError:
        safe = False
    if not safe:
        raise ConfigError(
            f"{key} is written in a way that cannot be changed safely. Nothing was changed.", hint=_BY_HAND
        )
    return changed


def _edited(lines: list[str], section: str, name: str, line: str | None) -> str:
    """Returns the lines with one of them replaced, removed, or added to its section."""
    head = next((at for at, each in enumerate(lines) if re.match(rf"\s*\[\s*{section}\s*\]", each)), None)
    if head is None:
        gap = "\n" if lines and lines[-1].strip() else ""
        return (
            "".join(lines) + ("" if not lines or lines[-1].endswith("\n") else "\n") + f"{gap}[{section}]\n{line or ''}"
        )
    end = next((at for at in range(head + 1, len(lines)) if lines[at].lstrip().startswith("[")), len(lines))
    at = next((at for at in range(head + 1, end) if re.match(rf"\s*{name}\s*=", lines[at])), None)
    if not lines[head].endswith("\n"):
        lines[head] += "\n"
    if at is None:
        lines.insert(head + 1, line or "")
    else:
        lines[at] = line or ""
    return "".join(lines)


def _toml(value: Any) -> str:
    """Returns a text, number, switch or list of texts in TOML: the form of JSON, but DEL is escaped too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def parse_value(typed: str) -> Any:
    """Returns what a person typed as a value: TOML where it is that, else the text itself."""
    try:
        return tomllib.loads(f"x = {typed}")["x"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return typed
