"""
The user's choices, resolved: the one module that reads the environment, the home directory and configuration files.

Everything else receives the result as a value. Options win over the environment, that over the user's own `config.toml`.
A workspace's own file (`mulligan.toml`, else `[tool.mulligan]` in `pyproject.toml`) is written by the project's authors,
possibly by an agent: it may narrow what is captured and switch the agent loop, and nothing else; what
it asks beyond that, or says wrongly, is ignored with a warning and is never an error.
A mistake in the user's own file is a warning that names file, key and what is allowed; that key keeps its default.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from mulligan.model.policy import (
    CapturePolicy,
    HookPolicy,
    LoopPolicy,
    RemotesPolicy,
    Retention,
    RootPolicy,
    Settings,
    WatchPolicy,
)
from mulligan.safefs.directory import is_missing
from mulligan.safefs.userfile import read_user_file
from mulligan.settings.locations import Environ, Places, repository_top, spot
from mulligan.settings.locations import find_workspace as nearest_workspace
from mulligan.settings.locations import places as where_things_are
from mulligan.settings.scoping import Scoping, read_scoping, scoping_file

DEFAULT_WAIT = 2.0
CONFIG_LIMIT = 64 * 1024
EXCLUDES_LIMIT = 1 << 20
INCLUDE_DEPTH = 5

Values = dict[str, Any]


# -- where things are ---------------------------------------------------------------------------


def places(environ: Environ | None = None) -> Places:
    """Returns the user's directories; a variable that is empty or not absolute counts as unset, as XDG demands."""
    return where_things_are(os.environ if environ is None else environ)


def find_workspace(start: str, environ: Environ | None = None) -> str:
    """Returns the workspace of a command that is typed in a directory, or of a hook that starts there."""
    env = os.environ if environ is None else environ
    return nearest_workspace(start, env, lambda: _wants_here(where_things_are(env)))


def unprotected_top(workspace: str, environ: Environ | None = None) -> str:
    """Returns the top of the git repository that a workspace is only a part of; empty if the user wants it so."""
    env = os.environ if environ is None else environ
    top = repository_top(workspace, env)
    return top if top not in ("", workspace) and not _wants_here(where_things_are(env)) else ""


def _wants_here(where: Places) -> bool:
    # `resolve` gives the warnings.
    return bool(RootPolicy(**_section(_user_values(where.user_config, []), "workspace")).root == "here")


def resolve(
    workspace: str | os.PathLike[str] = ".",
    *,
    store: str | os.PathLike[str] | None = None,
    wait: float | None = None,
    environ: Environ | None = None,
) -> Settings:
    """Returns everything `open` needs to know; a mistake in a configuration file is among the `warnings`."""
    env = os.environ if environ is None else environ
    where = places(env)
    named = os.fsdecode(os.fspath(store)) if store is not None else None
    found = spot(os.fsdecode(os.fspath(workspace)), named, env, where)
    warnings: list[str] = []
    user = _user_values(where.user_config, warnings)
    project = _workspace_values(found.workspace, warnings)
    scoping = read_scoping(scoping_file(found.workspace, where))
    return Settings(
        workspace=found.workspace,
        store=found.store,
        stores=where.stores,
        home=where.home,
        capture=_capture(user, project, _global_excludes(where), scoping),
        retention=Retention(**_section(user, "retention")),
        loop=LoopPolicy(**{**_section(user, "checkpoints"), **_section(project, "checkpoints")}),
        hooks=HookPolicy(**_section(user, "hooks")),
        temporary=env.get("TMPDIR") or "/tmp",  # noqa: S108 - not used, only recognised
        wait=DEFAULT_WAIT if wait is None else wait,
        warnings=tuple(warnings),
        watch=WatchPolicy(**_section(user, "watch")),
        remotes=RemotesPolicy(**_section(user, "remotes")),
        root=RootPolicy(**_section(user, "workspace")),
        git_home=os.path.join(where.config, "git"),
        keys=where.keys,
        paused=scoping.paused,
    )


def _section(values: Values, name: str) -> Values:
    return {key.partition(".")[2]: value for key, value in values.items() if key.startswith(name + ".")}


def _capture(user: Values, project: Values, global_excludes: bytes, scoping: Scoping) -> CapturePolicy:
    largest = user.get("capture.max_file_size", CapturePolicy().max_file_size)
    return CapturePolicy(
        include=user.get("capture.include", ()) + scoping.include,
        exclude=user.get("capture.exclude", ()) + project.get("capture.exclude", ()) + scoping.exclude,
        max_file_size=min(largest, project.get("capture.max_file_size", largest)),
        global_excludes=global_excludes,
        take_from_git=user.get("capture.take_from_git", CapturePolicy().take_from_git),
        secrets=user.get("capture.secrets", CapturePolicy().secrets),
    )


# -- configuration files ------------------------------------------------------------------------


def _user_values(path: str, warnings: list[str]) -> Values:
    """Returns the user's own settings; what understands them is only loaded where there are any."""
    if is_missing(path):
        return {}
    from mulligan.settings.files import user_values

    return user_values(path, warnings)


def _workspace_values(root: str, warnings: list[str]) -> Values:
    """Returns what the workspace's own file says, in the same way."""
    if all(is_missing(os.path.join(root, name)) for name in ("mulligan.toml", "pyproject.toml")):
        return {}
    from mulligan.settings.files import workspace_values

    return workspace_values(root, warnings)


# -- git's global excludes ----------------------------------------------------------------------


def _global_excludes(where: Places) -> bytes:
    """
    Returns the content of the user's global git excludes.

    LIMIT: the system's own configuration, `includeIf` and the `GIT_*` variables are not looked at.
    """
    path: str | None = os.path.join(where.config, "git", "ignore")
    for config in (os.path.join(where.config, "git", "config"), os.path.join(where.home, ".gitconfig")):
        for value in _excludes_files(config, where.home, INCLUDE_DEPTH):
            path = _expand(value, where.home)
    return (_read_quietly(path, EXCLUDES_LIMIT) or b"") if path else b""


def _excludes_files(config: str, home: str, depth: int) -> Iterator[str]:
    data = _read_quietly(config, CONFIG_LIMIT)
    # Most configurations mention neither word: the search is cheaper than the parser.
    if not data or not (b"excludesfile" in (low := data.lower()) or b"include" in low):
        return
    from mulligan.model.gitconfig import parse_git_config

    for key, value in parse_git_config(data.decode("utf-8", "surrogateescape")):
        if key == "core.excludesfile":
            yield value or ""
        elif key == "include.path" and value and depth:
            included = _expand(value, home) or os.path.join(os.path.dirname(config), value)
            yield from _excludes_files(included, home, depth - 1)


def _expand(value: str, home: str) -> str | None:
    """Returns a path of git's configuration as an absolute one, None where it names none."""
    if value.startswith("~/"):
        return os.path.join(home, value[2:])
    if value.startswith("~"):
        value = os.path.expanduser(value)
    return value if os.path.isabs(value) else None


def _read_quietly(path: str, limit: int) -> bytes | None:
    try:
        return read_user_file(path, limit=limit)
    except (OSError, ValueError):
        return None  # unreadable, a directory, a NUL in the name: git itself would only warn
