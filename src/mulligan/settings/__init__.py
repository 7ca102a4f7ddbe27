"""
The user's choices, resolved: the one module that reads the environment, the home directory and configuration files.

Everything else receives the result as a value. Options win over the environment, that over the user's own `config.toml`.
A workspace's own file (`mulligan.toml`, else `[tool.mulligan]` in `pyproject.toml`) is written by the project's authors,
possibly by an agent: it may narrow what is captured and switch the agent loop, and nothing else; what
it asks beyond that, or says wrongly, is ignored with a warning and is never an error.
A mistake in the user's own file is a warning that names file, key and what is allowed; that key keeps its default.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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
from mulligan.safefs.directory import Directory, NotRegular
from mulligan.safefs.userfile import read_user_file
from mulligan.settings.locations import Environ, Places, repository_top, spot
from mulligan.settings.locations import find_workspace as nearest_workspace
from mulligan.settings.locations import places as where_things_are
from mulligan.settings.scoping import Scoping, read_scoping, scoping_file

DEFAULT_WAIT = 2.0
CONFIG_LIMIT = 64 * 1024
PYPROJECT_LIMIT = 1 << 20
DOTS_LIMIT = 100
EXCLUDES_LIMIT = 1 << 20
PATTERNS_LIMIT = 1000
INCLUDE_DEPTH = 5

Values = dict[str, Any]
Complain = Callable[[str, str], None]


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


class Tools(NamedTuple):
    """What a program that is started needs to know of the environment."""

    path: str
    home: str
    config: str


def tools(environ: Environ | None = None) -> Tools:
    """Returns where programs are looked for, and the home that their own configuration is in."""
    env = os.environ if environ is None else environ
    return Tools(env.get("PATH") or "/usr/bin:/bin", places(env).home, env.get("XDG_CONFIG_HOME", ""))


def environment() -> dict[str, str]:
    """Returns the environment as it is, for programs that are the user's own: git, and what it starts to reach a server."""
    return dict(os.environ)


def expand_user(path: str, environ: Environ | None = None) -> str:
    """Returns a path with a leading `~` or `~name` replaced by that home directory."""
    if path == "~" or path.startswith("~/"):
        return places(environ).home + path[1:]
    return os.path.expanduser(path)


class PraisonaiChoices(NamedTuple):
    """What PraisonAI's own variables say: its checkpoints' directory and author, and whether sessions make checkpoints."""

    storage: str
    user_name: str
    user_email: str
    checkpoints: bool | None


def praisonai_choices(environ: Environ | None = None) -> PraisonaiChoices:
    """Returns the variables that a program written for PraisonAI expects to be obeyed."""
    env = os.environ if environ is None else environ
    home, said = places(env).home, env.get("PRAISONAI_CHECKPOINTS")
    data = env.get("PRAISONAI_HOME") or os.path.join(home, ".praisonai")
    return PraisonaiChoices(
        os.path.join(expand_user(data, env), "checkpoints"),
        env.get("PRAISONAI_GIT_USER_NAME", "PraisonAI Checkpoints"),
        env.get("PRAISONAI_GIT_USER_EMAIL", "checkpoints@praison.ai"),
        None if said is None else said.strip().lower() in {"1", "true", "yes", "on"},
    )


def container_engines(environ: Environ | None = None) -> tuple[str, ...]:
    """Returns where a container engine may answer: what `DOCKER_HOST` says, else Docker's and podman's own sockets."""
    env = os.environ if environ is None else environ
    if env.get("DOCKER_HOST"):
        return (env["DOCKER_HOST"],)
    own = env.get("XDG_RUNTIME_DIR", "")
    mine = (f"unix://{own}/docker.sock", f"unix://{own}/podman/podman.sock") if os.path.isabs(own) else ()
    return ("unix:///var/run/docker.sock", *mine, "unix:///run/podman/podman.sock")


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


def values_of(settings: Settings) -> Values:
    """Returns every setting by its key, as it counts for a workspace."""
    parts = {"capture": settings.capture, "retention": settings.retention, "checkpoints": settings.loop}
    parts |= {"hooks": settings.hooks, "workspace": settings.root, "watch": settings.watch, "remotes": settings.remotes}
    return {key: getattr(parts[key.partition(".")[0]], key.partition(".")[2]) for key in KEYS}


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


# -- what a configuration file may say ----------------------------------------------------------


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


# -- the user's own file ------------------------------------------------------------------------


def _user_values(path: str, warnings: list[str]) -> Values:
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


def _workspace_values(root: str, warnings: list[str]) -> Values:
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
