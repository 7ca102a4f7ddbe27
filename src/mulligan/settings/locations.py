"""
Where this user's things are: the home, the configuration, and which store belongs to a workspace.

Told by an environment that is handed in; reads no file, so that a command knows where to look before it has loaded much.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import NamedTuple

from mulligan.model.refused import why_refused

_MOVED = {".claude": "CLAUDE_CONFIG_DIR", ".codex": "CODEX_HOME", ".config": "XDG_CONFIG_HOME"}

_DELETED = " (deleted)"

Environ = Mapping[str, str]


class Places(NamedTuple):
    """Where this user's things are; `moved` are the directories of agents that are not in the home."""

    home: str
    config: str
    state: str
    moved: Mapping[str, str]
    data: str = ""

    @property
    def keys(self) -> str:
        """The directory of the keys that secrets are sealed with."""
        return os.path.join(self.data, "mulligan", "keys")

    @property
    def stores(self) -> str:
        """The directory that holds one store per workspace."""
        return os.path.join(self.state, "mulligan", "stores")

    @property
    def reports(self) -> str:
        """The directory for reports of unexpected errors."""
        return os.path.join(self.state, "mulligan", "reports")

    @property
    def environments(self) -> str:
        """The directory that holds one record per container environment."""
        return os.path.join(self.state, "mulligan", "environments")

    @property
    def user_config(self) -> str:
        """The user's own configuration file."""
        return os.path.join(self.config, "mulligan", "config.toml")


def places(env: Environ) -> Places:
    """Returns the user's directories; a variable that is empty or not absolute counts as unset, as XDG demands."""
    home = env.get("HOME", "")
    if not os.path.isabs(home):
        home = _home_from_passwd()
    config, state = env.get("XDG_CONFIG_HOME", ""), env.get("XDG_STATE_HOME", "")
    data = env.get("XDG_DATA_HOME", "")
    named = {name: env.get(variable, "") for name, variable in _MOVED.items()}
    return Places(
        home,
        config if os.path.isabs(config) else os.path.join(home, ".config"),
        state if os.path.isabs(state) else os.path.join(home, ".local", "state"),
        {name: value for name, value in named.items() if os.path.isabs(value)},
        data if os.path.isabs(data) else os.path.join(home, ".local", "share"),
    )


def _home_from_passwd() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def standing(env: Environ) -> str:
    """Returns the directory this process stands in, by its old path where it was deleted; FileNotFoundError if unknown."""
    try:
        return os.path.realpath(".")
    except FileNotFoundError:
        pass
    from mulligan.safefs.platform import HERE

    # A deleted directory has no path any more: Linux still tells the old one, and so does the shell.
    try:
        told = os.readlink(f"{HERE.proc}/self/cwd") if HERE.proc else ""
    except OSError:
        told = ""
    if told.startswith("/") and told.endswith(_DELETED):
        return told.removesuffix(_DELETED)
    shell = env.get("PWD", "")
    if os.path.isabs(shell):
        return os.path.realpath(shell)
    raise FileNotFoundError("the current directory was deleted, and nothing tells where it was")


class Spot(NamedTuple):
    """Where a workspace and its store are."""

    workspace: str
    store: str


def spot(workspace: str, store: str | None, env: Environ, where: Places) -> Spot:
    """Returns where to look for the workspace at a path, and for its store: the one that is named, else its own."""
    root = os.path.realpath(workspace)
    chosen = store if store is not None else env.get("MULLIGAN_STORE", "")
    return Spot(root, _named_store(chosen) if chosen else store_for(root, where))


def _named_store(chosen: str) -> str:
    """Returns the real path of a store that was named; the last name is kept, so that a link in its place is seen as one."""
    above, name = os.path.split(chosen.rstrip("/"))
    return os.path.realpath(chosen) if name in ("", ".", "..") else os.path.join(os.path.realpath(above), name)


def store_for(workspace: str, where: Places) -> str:
    """Returns the default store of a workspace (given by its real path)."""
    digest = sha256(os.fsencode(workspace)).hexdigest()[:16]
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in os.path.basename(workspace))
    return os.path.join(where.stores, f"{name.lstrip('.-')[:40] or 'root'}-{digest}")


def find_workspace(start: str, env: Environ, here_only: Callable[[], bool] = lambda: False) -> str:
    """
    Returns the workspace of a command that is typed in a directory, or of a hook that starts there.

    It is the nearest directory upward that has a store, up to the top of the git repository; else that top. Outside git it is
    the nearest store upward, else `start` itself. A refused directory (home, `/`) and what is above it never count.
    `here_only` says whether the user wants no repository to be protected as a whole; it is asked where that matters.
    """
    where, here = places(env), os.path.realpath(start)
    way = _way_up(here, where, env)
    top = _repository_top(way)
    within = way[: way.index(top) + 1] if top else way
    found = next((each for each in within if os.path.isdir(store_for(each, where))), "")
    return found or (top if top and top != here and not here_only() else here)


def repository_top(directory: str, env: Environ) -> str:
    """Returns the top of the git repository that a directory is in, as far as it may be protected; empty outside git."""
    return _repository_top(_way_up(os.path.realpath(directory), places(env), env))


def _way_up(here: str, where: Places, env: Environ) -> list[str]:
    """Returns a directory and those above it that may be a workspace, on the same file system, the nearest first."""
    home, temporary = os.path.realpath(where.home), os.path.realpath(env.get("TMPDIR") or "/tmp")  # noqa: S108 - refused
    way: list[str] = []
    device = _device(here)
    while not why_refused(here, home, temporary):
        if device and (there := _device(here)) and there != device:
            break  # what is mounted below is never part of a workspace above
        way.append(here)
        here = os.path.dirname(here)
    return way


def _device(path: str) -> int:
    try:
        return os.stat(path).st_dev
    except OSError:
        return 0  # gone: the directories above it tell


def _owner(path: str) -> list[int]:
    try:
        return [os.stat(path).st_uid]
    except OSError:
        return []


def _repository_top(way: list[str]) -> str:
    """Returns the nearest directory that has a `.git` of its own owner's or of this user's: not one that another user planted."""
    owners = {os.geteuid(), *_owner(way[0])} if way else set()
    for each in way:
        try:
            found = os.stat(os.path.join(each, ".git"))
        except OSError:
            continue  # none here
        if found.st_uid in owners and (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
            return each
    return ""
