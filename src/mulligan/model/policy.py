"""
What is captured and what is kept: the user's choices as values.

Resolved once by `mulligan.settings` from configuration, environment and options; the engine only ever sees these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from mulligan.model.checkpoint import LASTING_KINDS

MIB = 1 << 20
GIB = 1 << 30

# Rebuilt by one command and often larger than the project: not captured unless the user's own config says so.
DEFAULT_EXCLUDED_DIRECTORIES = (
    *("node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
    *(".hypothesis", ".gradle", ".terraform", ".direnv", ".hg", ".svn", ".bzr", ".jj"),
)
_SPECIAL = r"([\\*?\[\]!# ])"


class CapturePolicy(NamedTuple):
    """
    Which paths are in scope. Patterns are in gitignore syntax, relative to the workspace.

    `include` wins over ignore rules and exclusions, the built-in ones too, and comes from the user's own config only.
    `secrets` says what becomes of a secret that git does not track: "seal", "skip", or "plain" (saved like any other file).
    `keep_new_in` names directories, at any depth, in which a restore brings back what was captured and removes nothing.
    `by_name` are paths that a program asks for itself: captured like `include`, and every checkpoint that was saved so remembers
    them, so that every later restore of it includes them.
    `take_from_git` says whether a first checkpoint may take over what git has hashed and packed already.
    `certain` names paths of which the caller knows that they were not there, whatever hid them, if a checkpoint lacks them.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_file_size: int = 50 * MIB
    global_excludes: bytes = b""
    keep_new_in: tuple[str, ...] = ()
    certain: tuple[str, ...] = ()
    by_name: tuple[str, ...] = ()
    take_from_git: bool = True
    secrets: str = "seal"

    def naming(self, paths: Iterable[str]) -> CapturePolicy:
        """Returns the policy with more paths that are asked for by name."""
        named = tuple(dict.fromkeys((*self.by_name, *paths)))
        return self if named == self.by_name else self._replace(by_name=named)

    @property
    def always(self) -> tuple[str, ...]:
        """The patterns of what is captured whatever hides it."""
        return (*self.include, *map(as_pattern, self.by_name))


def as_pattern(path: str) -> str:
    """Returns the pattern, in gitignore syntax, that matches one path of a workspace."""
    # A pattern cannot hold a line break; any character in its place will do.
    return "/" + re.sub(_SPECIAL, r"\\\1", path).replace("\n", "?")


class Retention(NamedTuple):
    """How many checkpoints of each kind stay, and how many bytes the store may use."""

    automatic: int = 5
    session: int = 3
    step: int = 200
    safety: int = 20
    step_days: int = 30
    budget: int = 2 * GIB
    total_budget: int = 0  # of all stores together; 0 for none

    def limit(self, kind: str) -> int | None:
        """Returns how many of a kind are kept, None for those that only an explicit delete removes."""
        return None if kind in LASTING_KINDS else int(getattr(self, kind))


class LoopPolicy(NamedTuple):
    """The agent loop's own checkpoints."""

    enabled: bool = False
    every_n_steps: int = 5


class HookPolicy(NamedTuple):
    """A hook's action before a destructive command: nothing, a message, or a question by the agent."""

    destructive: str = "off"


class RootPolicy(NamedTuple):
    """The root of a new history in a git repository: its top (`top`) or the current directory (`here`)."""

    root: str = "top"


class WatchPolicy(NamedTuple):
    """What starts a watcher (nothing, `never`; the hooks of agents; commands too, `always`), and how many run at most."""

    auto: str = "hooks"
    most: int = 8

    def is_started_by(self, command: str) -> bool:
        """Returns whether a command starts one for those to come."""
        return self.auto == "always" or (self.auto == "hooks" and command == "hook")


class RemotesPolicy(NamedTuple):
    """After how many seconds without a command a watcher pushes what is new to the remotes; 0 for never."""

    push_when_idle: int = 0


class Settings(NamedTuple):
    """Everything that `open` needs to know about the user and the machine."""

    workspace: str
    store: str
    stores: str
    home: str
    capture: CapturePolicy = CapturePolicy()
    retention: Retention = Retention()
    loop: LoopPolicy = LoopPolicy()
    hooks: HookPolicy = HookPolicy()
    temporary: str = "/tmp"  # noqa: S108 - the name of a directory that is refused as a workspace
    wait: float = 2.0
    warnings: tuple[str, ...] = ()
    watch: WatchPolicy = WatchPolicy()
    remotes: RemotesPolicy = RemotesPolicy()
    root: RootPolicy = RootPolicy()
    git_home: str = ""  # the directory of git's configuration, beside the file in the home directory
    keys: str = ""  # the directory of the keys that secrets are sealed with
    paused: bool = False  # hooks of agents record nothing here until `mulligan resume`
    append_only: bool = False  # for a client that may add to history and never remove from it: a model
