"""
What configuration files may say: the user's own, and that of a workspace.

A mistake in the user's own file is a warning that names file, key and what is allowed; that key keeps its default.
A workspace's file may narrow what is captured and switch the agent loop, and nothing else.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mulligan.model.policy import Settings
from mulligan.safefs.directory import Directory, NotRegular
from mulligan.safefs.userfile import read_user_file

CONFIG_LIMIT = 64 * 1024
PYPROJECT_LIMIT = 1 << 20
DOTS_LIMIT = 100
PATTERNS_LIMIT = 1000

Values = dict[str, Any]
Complain = Callable[[str, str], None]


class Key(NamedTuple):
    """One setting: how its value is read, what is allowed (in words), and whether a workspace's file may set it."""

    read: Callable[[object], object]
    allowed: str
    in_workspace: bool = False


def _patterns(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > PATTERNS_LIMIT:
        raise ValueError
    for pattern in value:
        if not isinstance(pattern, str) or not pattern.strip() or any(c in pattern for c in "\0\n\r"):
            raise ValueError
    return tuple(value)


def _plain_patterns(value: object) -> tuple[str, ...]:
    found = _patterns(value)
    if any(pattern.startswith("!") for pattern in found):
        raise ValueError
    return found


def _size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError  # noqa: TRY004 - one kind of mistake for the caller
    from mulligan.model.sizes import parse_size

    size = parse_size(value)
    if size <= 0:
        raise ValueError
    return size


def _size_or_none(value: object) -> int:
    return 0 if value in (0, "0") and value is not False else _size(value)


def _whole(low: int, high: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError
        return value

    return read


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError  # noqa: TRY004 - one kind of mistake for the caller
    return value


def _one_of(*allowed: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in allowed:
            raise ValueError(value)
        return str(value)

    return read


_COUNT = Key(_whole(0, 100_000), "a whole number from 0 to 100000")
_SIZE = 'a size like "50 MiB" or a number of bytes, more than 0'

KEYS: dict[str, Key] = {
    "capture.include": Key(_plain_patterns, 'a list of patterns like [".env.example"], none beginning with "!"'),
    "capture.exclude": Key(_patterns, 'a list of patterns like ["*.log", "data/"]', True),
    "capture.max_file_size": Key(_size, _SIZE, True),
    "capture.take_from_git": Key(_switch, "true or false"),
    "capture.secrets": Key(_one_of("seal", "skip", "plain"), '"seal", "skip" or "plain"'),
    "retention.automatic": _COUNT,
    "retention.session": _COUNT,
    "retention.step": _COUNT,
    "retention.safety": Key(_whole(1, 100_000), "a whole number from 1 to 100000"),
    "retention.step_days": Key(_whole(1, 36_500), "a whole number of days from 1 to 36500"),
    "retention.budget": Key(_size, _SIZE),
    "retention.total_budget": Key(_size_or_none, f"0, or {_SIZE}"),
    "checkpoints.enabled": Key(_switch, "true or false", True),
    "checkpoints.every_n_steps": Key(_whole(1, 50), "a whole number from 1 to 50", True),
    "hooks.destructive": Key(_one_of("off", "save", "ask"), '"off", "save" or "ask"'),
    "workspace.root": Key(_one_of("top", "here"), '"top" or "here"'),
    "watch.auto": Key(_one_of("never", "hooks", "always"), '"never", "hooks" or "always"'),
    "watch.most": Key(_whole(1, 1000), "a whole number from 1 to 1000"),
    "remotes.push_when_idle": Key(_whole(0, 86_400), "a whole number of seconds from 0 to 86400"),
}
SECTIONS = tuple(dict.fromkeys(key.partition(".")[0] for key in KEYS))


def _parse(data: bytes) -> Values:
    import tomllib

    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _flat(table: Values, complain: Complain) -> Iterator[tuple[str, object]]:
    for section, content in table.items():
        if section not in SECTIONS:
            complain(section, f"is not a section (allowed: {', '.join(SECTIONS)})")
        elif not isinstance(content, dict):
            complain(section, f"must be a section: write [{section}]")
        else:
            for name, value in content.items():
                yield f"{section}.{name}", value


def _values(table: Values, complain: Complain) -> Values:
    found: Values = {}
    for name, value in _flat(table, complain):
        key = KEYS.get(name)
        if key is None:
            section = name.partition(".")[0]
            known = [k.partition(".")[2] for k in KEYS if k.startswith(section + ".")]
            complain(name, f"is not a setting (allowed in [{section}]: {', '.join(known)})")
            continue
        try:
            found[name] = key.read(value)
        except ValueError:
            complain(name, f"must be {key.allowed}")
    return found


def values_of(settings: Settings) -> Values:
    """Returns every setting by its key, as it counts for a workspace."""
    parts = {"capture": settings.capture, "retention": settings.retention, "checkpoints": settings.loop}
    parts |= {"hooks": settings.hooks, "workspace": settings.root, "watch": settings.watch, "remotes": settings.remotes}
    return {key: getattr(parts[key.partition(".")[0]], key.partition(".")[2]) for key in KEYS}


# -- the user's own file ------------------------------------------------------------------------


def user_values(path: str, warnings: list[str]) -> Values:
    """Returns the user's own settings; what cannot be used is a warning and keeps its default, so that undo always works."""

    def complain(key: str, problem: str) -> None:
        warnings.append(f"{path}: {key} {problem}. Its default is used.")

    def refuse(problem: str) -> Values:
        warnings.append(f"{path} cannot be used: {problem}. All settings have their defaults.")
        return {}

    try:
        data = read_user_file(path, limit=CONFIG_LIMIT + 1)
    except OSError as error:
        return refuse(f"it cannot be read ({error.strerror or 'not a regular file'})")
    if data is None:
        return {}
    if len(data) > CONFIG_LIMIT:
        return refuse(f"it is larger than {CONFIG_LIMIT} bytes")
    try:
        table = _parse(data)
    except ValueError as error:
        return refuse(str(error))
    return _values(table, complain)


# -- the workspace's file -----------------------------------------------------------------------


def workspace_values(root: str, warnings: list[str]) -> Values:
    """Returns what a workspace's own file may and does set."""
    try:
        directory = Directory.open(root)
    except OSError:
        return {}  # no directory, or none that may be read: the engine says so better
    with directory:
        for name in ("mulligan.toml", "pyproject.toml"):
            table = _workspace_table(directory, name, warnings)
            if table is not None:
                return _narrowing(table, name, warnings)
    return {}


def _workspace_table(directory: Directory, name: str, warnings: list[str]) -> Values | None:
    """Returns what a workspace's file says to mulligan, None if it says nothing at all."""
    own = name == "mulligan.toml"
    try:
        data = directory.read(os.fsencode(name), limit=CONFIG_LIMIT + 1 if own else PYPROJECT_LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        # A pyproject.toml that cannot be read is other tools' trouble; a mulligan.toml is ours.
        odd = isinstance(error, NotRegular) or error.errno == errno.ELOOP
        reason = "it is not a regular file" if odd else f"it cannot be read ({error.strerror})"
        return _ignored(name, reason, warnings) if own else None
    if not own:
        data = _own_tables(data)
        if not data:
            return None
    try:
        table = _parse_foreign(data)
    except ValueError as error:
        return _ignored(name, str(error), warnings)
    return table if own else table["tool"]["mulligan"]


def _own_tables(pyproject: bytes) -> bytes:
    """
    Returns the lines of `[tool.mulligan]` and its subtables, and none of the others.

    LIMIT: a table written in another way (`tool.mulligan.capture.exclude = …` under `[tool]`) is not seen.
    """
    if b"[tool.mulligan" not in pyproject:
        return b""
    kept, ours = [], False
    for line in pyproject.splitlines(keepends=True):
        if line.startswith(b"["):
            ours = line.startswith((b"[tool.mulligan]", b"[tool.mulligan."))
        if ours:
            kept.append(line)
    return b"".join(kept)


def _parse_foreign(data: bytes) -> Values:
    """Parses a file that the workspace brought along, refusing what would cost more memory than a checkpoint."""
    if len(data) > CONFIG_LIMIT:
        raise ValueError(f"it is larger than {CONFIG_LIMIT} bytes")
    # tomllib needs memory with the square of a key's dots: one line of 240 KB was killed for want of 57 GB.
    if any(line.count(b".") > DOTS_LIMIT for line in data.splitlines()):
        raise ValueError(f"a line has more than {DOTS_LIMIT} dots")
    return _parse(data)


def _ignored(name: str, reason: str, warnings: list[str]) -> Values:
    what = name if name == "mulligan.toml" else f"[tool.mulligan] in {name}"
    warnings.append(f"{what} is ignored: {reason}.")
    return {}


def _narrowing(table: Values, name: str, warnings: list[str]) -> Values:
    def complain(key: str, problem: str) -> None:
        warnings.append(f"{name}: {key} is ignored: it {problem}.")

    found = _values(table, complain)
    for key in [key for key in found if not KEYS[key].in_workspace]:
        complain(key, "can only be set in your own configuration")
        del found[key]
    excluded = found.get("capture.exclude", ())
    if any(pattern.startswith("!") for pattern in excluded):
        # A negated pattern takes back an earlier one, perhaps the user's: that would be widening.
        complain("capture.exclude", 'may not hold patterns that begin with "!" (those only are left out)')
        found["capture.exclude"] = tuple(pattern for pattern in excluded if not pattern.startswith("!"))
    return found
