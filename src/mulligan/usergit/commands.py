"""
The one place that runs git, for those who promise commits on the user's own branch.

Promise: nothing but git itself is started. Hooks, monitors, filters, signing, external diffs, editors, pagers, prompts,
credential helpers, aliases and transports are off, whatever the repository's configuration says; neither `GIT_*` variables
nor the user's and the system's configuration reach the command, except what cannot start a program (identity, excludes,
line endings, safe directories). The repository is the one that mulligan itself sees, never one that git would find
elsewhere. Arguments are a list and never pass a shell. Everything else in mulligan reads repositories as data.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from mulligan.errors import GitFailed, GitMissing
from mulligan.scan.git.repository import Repository
from mulligan.settings import Tools, tools
from mulligan.usergit.harmless import SWITCHED_OFF, Setting, filters, overrides, parse_settings
from mulligan.usergit.position import points_back

TIMEOUT = 300.0
_GRACE = 5.0
# Commands that would consult external diff programs or converters to text.
_SHOWS_DIFFERENCES = frozenset({"diff", "log", "show", "format-patch", "diff-tree", "diff-index", "diff-files"})
# Commands that would look into submodules, whose configuration is not overruled here.
_LOOKS_INTO_SUBMODULES = frozenset({"status", "diff", "diff-index", "diff-files"})
# Commands that make a repository: they must not be pointed at the one above.
_MAKES_A_REPOSITORY = frozenset({"init", "clone"})


class Ran(NamedTuple):
    """What a command of git left: its exit code and what it said."""

    code: int
    out: bytes
    err: bytes

    @property
    def complaint(self) -> str:
        """The first line of what it said on standard error."""
        said = self.err.decode("utf-8", "replace").strip()
        return said.splitlines()[0] if said else f"exit code {self.code}"


def run(
    root: str,
    args: Sequence[str],
    *,
    input: bytes = b"",  # noqa: A002 - the name subprocess has for it
    check: bool = False,
    timeout: float = TIMEOUT,
) -> Ran:
    """Runs one command of git for a workspace; with `check`, a failure raises GitFailed."""
    return Git(root).run(args, input=input, check=check, timeout=timeout)


class Git:
    """Git for one workspace, with its configuration read once. Use it for one operation, then let it go."""

    def __init__(self, root: str, *, where: Tools | None = None) -> None:
        self.root = os.path.realpath(root)
        self._tools = where or tools()
        found = Repository.find(self.root, home=self._tools.home)
        self.prefix: bytes | None = None
        self.top = self.root
        #: Where git keeps what belongs to this work tree alone, and what all work trees share; "" without a repository.
        self.directory = self.shared = ""
        #: Whether the repository itself says that this is its work tree; without that, nothing is committed to it.
        self.is_own = False
        if found is not None:
            with found:
                self.is_own = points_back(found)
                self.prefix = found.prefix
                self.directory, self.shared = os.fsdecode(found.git_path), os.fsdecode(found.common_path)
            self.top = self.root[: -len(os.fsdecode(found.prefix)) - 1] if found.prefix else self.root
        self._settings: list[Setting] | None = None

    @cached_property
    def _program(self) -> str:
        return _find(self._tools.path, self.root)

    @property
    def is_repository(self) -> bool:
        """Whether the workspace lies in a repository."""
        return self.prefix is not None

    @property
    def settings(self) -> list[Setting]:
        """The configuration of the user and of the repository."""
        if self._settings is None:
            self._settings = self._read_settings()
        return self._settings

    @property
    def filters(self) -> frozenset[str]:
        """The names of all filters in the configuration; they are never run."""
        return filters(self.settings)

    def run(self, args: Sequence[str], *, input: bytes = b"", check: bool = False, timeout: float = TIMEOUT) -> Ran:  # noqa: A002
        """Runs one command; with `check`, a failure raises GitFailed."""
        words = [str(word) for word in args]
        if not words or words[0].startswith("-") or any("\0" in word for word in words):
            raise ValueError("the first argument is a command of git, and none holds a NUL")
        environment = self._environment(makes=words[0] in _MAKES_A_REPOSITORY)
        environment |= _as_variables(overrides(self.settings))
        if words[0] == "clone":
            # From a directory of this machine alone; of what configures the source, nothing is started for that.
            environment["GIT_ALLOW_PROTOCOL"] = "file"
        if words[0] in _SHOWS_DIFFERENCES:
            words[1:1] = ["--no-ext-diff", "--no-textconv"]
        if words[0] in _LOOKS_INTO_SUBMODULES:
            words[1:1] = ["--ignore-submodules=dirty"]
        ran = self._start(words, environment, input, timeout)
        if check and ran.code:
            raise GitFailed(
                f"git {words[0]} failed: {ran.complaint}. What git could not do was not done.", hint="git status"
            )
        return ran

    def _read_settings(self) -> list[Setting]:
        environment = self._environment(makes=False)
        for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"):
            environment.pop(name, None)
        environment |= _as_variables([("mulligan.heard", "true")])
        ran = self._start(["config", "--list", "-z", "--show-scope", "--includes"], environment, b"", TIMEOUT)
        settings = parse_settings(ran.out)
        if ran.code:
            raise GitFailed(f"git cannot read its configuration: {ran.complaint}. Nothing was changed.")
        if not any(setting.key == "mulligan.heard" for setting in settings):
            # Without these variables what a repository configures could not be overruled.
            raise GitFailed(
                f"{self._program} is older than git 2.31. Nothing was changed.", hint="Install a newer git."
            )
        return [setting for setting in settings if setting.scope != "command"]

    def _environment(self, *, makes: bool) -> dict[str, str]:
        environment = {
            "PATH": self._tools.path,
            "HOME": self._tools.home,
            "LC_ALL": "C",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": os.path.dirname(self.root),
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "false",
            "SSH_ASKPASS": "false",
            "GIT_SSH_COMMAND": "false",
            "GIT_EDITOR": "false",
            "GIT_SEQUENCE_EDITOR": "false",
            "GIT_PAGER": "cat",
            "GIT_OPTIONAL_LOCKS": "0",
        }
        if self._tools.config:
            environment["XDG_CONFIG_HOME"] = self._tools.config
        if self.is_repository and not makes:
            environment |= {"GIT_DIR": os.path.join(self.top, ".git"), "GIT_WORK_TREE": self.top}
        return environment

    def _start(self, words: Sequence[str], environment: Mapping[str, str], given: bytes, timeout: float) -> Ran:
        switched_off = [word for key, value in SWITCHED_OFF for word in ("-c", f"{key}={value}")]
        line = [self._program, "--no-pager", "--literal-pathspecs", *switched_off, *words]
        try:
            process = subprocess.Popen(  # noqa: S603 - a list of words, the first one git itself
                line,
                cwd=self.root,
                env=dict(environment),
                stdin=subprocess.PIPE if given else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise GitFailed(f"git cannot be started: {error.strerror}. Nothing was changed.") from error
        with process:
            try:
                out, err = process.communicate(given or None, timeout=timeout)
            except BaseException as error:
                _end(process)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise GitFailed(
                        f"git {words[0]} took longer than {timeout:g} seconds and was stopped.", hint="git status"
                    ) from None
                raise
        return Ran(process.returncode, out, err)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a command gently, so that git takes its lock files away; then for certain."""
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _as_variables(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns configuration as variables: a name that holds `=` or a newline cannot become another setting."""
    rows = list(settings)
    named = {f"GIT_CONFIG_KEY_{at}": key for at, (key, _) in enumerate(rows)}
    valued = {f"GIT_CONFIG_VALUE_{at}": value for at, (_, value) in enumerate(rows)}
    return {"GIT_CONFIG_COUNT": str(len(rows)), **named, **valued}


def _find(path: str, root: str) -> str:
    """Returns git's program; skips relative directories and those in the workspace."""
    for directory in path.split(":"):
        candidate = os.path.join(directory, "git")
        inside = os.path.realpath(candidate).startswith(root.rstrip("/") + "/")
        if os.path.isabs(directory) and not inside and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise GitMissing(
        "git is not installed, or not in a directory of PATH. Nothing was changed; mulligan's own checkpoints need no git.",
        hint="Install git, or use: mulligan save",
    )
