"""
What a user says about one workspace: files to save or to leave out, and whether hooks pause. A small file in the configuration.

A workspace's own file cannot do this: an agent may have written it.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from mulligan.errors import ConfigError
from mulligan.safefs.directory import Directory
from mulligan.safefs.durable import make_private, write_durably
from mulligan.safefs.userfile import read_user_file
from mulligan.settings.locations import Places, store_for

_LIMIT = 64 * 1024
_WHAT = "the list of included and excluded paths"


class Scoping(NamedTuple):
    """Patterns in gitignore syntax, of what is saved although ignored and of what is not saved; and whether hooks pause."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    paused: bool = False


def scoping_file(workspace: str, where: Places) -> str:
    """Returns the file for a workspace, given by its real path."""
    name = os.path.basename(store_for(workspace, where))
    return os.path.join(where.config, "mulligan", "workspaces", name + ".json")


def read_scoping(path: str) -> Scoping:
    """Returns what a file says, nothing where there is none; raises ConfigError."""
    try:
        data = read_user_file(path, limit=_LIMIT)
        plain = json.loads(data) if data is not None else {}
        include, exclude = (plain.get(name, []) for name in ("include", "exclude"))
        if not all(isinstance(pattern, str) for pattern in (*include, *exclude)):
            raise ValueError("a pattern is text")
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"Your list {path} cannot be used: {error}. Nothing was changed.", hint=f"Correct or remove {path}"
        ) from None
    return Scoping(tuple(include), tuple(exclude), plain.get("paused") is True)


def write_scoping(path: str, workspace: str, scoping: Scoping) -> None:
    """Writes what a file shall say, durably; raises ConfigError."""
    text = json.dumps({"workspace": workspace, **scoping._asdict()}, indent=1)
    write_config(path, text.encode("ascii") + b"\n", what=_WHAT)


def write_config(path: str, data: bytes, *, what: str) -> None:
    """Writes a file of the user's configuration, durably; raises ConfigError."""
    folder, name = os.path.split(path)
    try:
        make_private(folder)
        with Directory.open(folder) as directory:
            temporary = os.fsencode(f".{name}.new")
            directory.unlink(temporary, missing_ok=True)
            write_durably(directory, os.fsencode(name), [data], temporary=temporary, what=what)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}). Nothing was changed.") from error
