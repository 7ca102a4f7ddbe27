"""
What a restore will do, path by path, before it does it.

A plan is a value: the expected state of each path and the state it shall have. The executor applies exactly this,
the journal stores exactly this, `--dry-run` prints exactly this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.model.objects import MODE_DIR, MODE_LINK, MODE_SEALED
from mulligan.model.paths import ancestors, to_text

if TYPE_CHECKING:
    from mulligan.model.gitposition import GitMove


class Node(NamedTuple):
    """The state of a path: git's mode, the object id (empty for a directory), the permission bits."""

    mode: int
    oid: bytes = b""
    perm: int = 0

    @property
    def is_dir(self) -> bool:
        """Whether this is a directory."""
        return self.mode == MODE_DIR

    @property
    def is_link(self) -> bool:
        """Whether this is a symbolic link."""
        return self.mode == MODE_LINK


class Action(NamedTuple):
    """One path from `before` to `after`; None means that nothing stands there."""

    path: bytes
    before: Node | None
    after: Node | None


def is_sealed(action: Action) -> bool:
    """Returns whether an action concerns a secret that is saved sealed."""
    return any(node is not None and node.mode == MODE_SEALED for node in (action.before, action.after))


def crosses_over(action: Action) -> bool:
    """Returns whether a file is saved sealed on one side and like any other file on the other."""
    before, after = action.before, action.after
    return before is not None and after is not None and (before.mode == MODE_SEALED) != (after.mode == MODE_SEALED)


def for_themselves(actions: Sequence[Action]) -> list[Action]:
    """Returns actions without the directories that are made or removed only with what is in them."""
    above = {ancestor for action in actions for ancestor in ancestors(action.path)}
    return [a for a in actions if a.path not in above or not (a.before or a.after or _NOTHING).is_dir]


_NOTHING = Node(0)


@dataclass(frozen=True)
class Keep:
    """
    A path that the restore leaves as it is although the target differs, and why.

    `failed` tells the two sorts apart: a path that policy protects (it was not captured then), and one that should have
    been restored and was not. `hint` is what to type so that it can be, where that is known.
    """

    path: str
    reason: str
    detail: str = ""
    failed: bool = False
    hint: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return vars(self).copy()


@dataclass(frozen=True)
class Clash:
    """Lines that both sides changed: the number of the first in the present file, and the three texts."""

    line: int
    ours: str
    base: str
    theirs: str

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return vars(self).copy()


@dataclass(frozen=True)
class Conflict:
    """
    A path of a reverted step that was changed again since in a way that cannot be merged.

    `clashes` are the lines in question; without any, `reason` says why the file is not merged by lines. `marked` says that the
    file gets conflict markers; without them it stays as it is.
    """

    path: str
    reason: str
    clashes: tuple[Clash, ...] = ()
    marked: bool = False

    @property
    def ours(self) -> str | None:
        """The lines in question as they are now; None where the file is not merged by lines."""
        return "".join(clash.ours for clash in self.clashes) if self.clashes else None

    @property
    def theirs(self) -> str | None:
        """The lines in question as they were before the step; None where the file is not merged by lines."""
        return "".join(clash.theirs for clash in self.clashes) if self.clashes else None

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        clashes = [clash.to_dict() for clash in self.clashes]
        return {**vars(self), "clashes": clashes, "ours": self.ours, "theirs": self.theirs}


class PlanRequest(NamedTuple):
    """
    What a plan was asked for, so that applying it does the same: the verb, and its arguments.

    `ref` is a full id, or the full name of a prompt, a tool call or a session: it means the same later.
    """

    verb: str = "restore"
    ref: str = ""
    session: str | None = None
    paths: tuple[str, ...] | None = None
    what: str = "files"
    git: bool = False
    hunks: tuple[str, ...] | None = None
    conflicts: str = "keep"


@dataclass(frozen=True)
class Undone:
    """
    Names the operation that an undo, a redo or a revert is about.

    `kind` is "turn" (what an agent did for one prompt), "tool" (one tool call), "session" (all that a session did), "restore",
    "revert", "unsaved" (changes since the last checkpoint) or "step" (the changes that led to a checkpoint). `at` is when it was
    made, `checkpoint` its newest checkpoint. `prompt`, `text`, `session`, `agent` and `tool` (its number) belong to agents;
    `running` says that the turn has not ended.
    """

    kind: str
    checkpoint: str = ""
    at: datetime | None = None
    prompt: int = 0
    text: str = ""
    session: str = ""
    agent: str = ""
    running: bool = False
    tool: int = 0

    @property
    def identity(self) -> tuple[object, ...]:
        """What must be the same in two plans that undo the same operation."""
        return self.kind, self.checkpoint, self.session, self.prompt, self.tool

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {**vars(self), "at": self.at.isoformat() if self.at is not None else None}


@dataclass(frozen=True)
class RestorePlan:
    """
    The frozen result of planning: apply it, print it, or throw it away.

    `absent` are those of the paths it makes where rules hide what stands there now: nothing, which no scan can tell later.
    `undone` names the operation that it takes back, for an undo. `branch` is the git branch that the checkpoint was made on,
    empty when that is the current one. `conflicts` are the paths of a reverted step that could not be merged. `request` is what
    was asked for, and `contents` the texts that the plan makes and no checkpoint holds, by object id.
    """

    target: str
    what: str = "files"
    paths: tuple[str, ...] | None = None
    actions: tuple[Action, ...] = ()
    keeps: tuple[Keep, ...] = ()
    git: GitMove | None = None
    absent: tuple[str, ...] = ()
    undone: Undone | None = None
    branch: str = ""
    conflicts: tuple[Conflict, ...] = ()
    request: PlanRequest | None = None
    contents: Mapping[bytes, bytes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """A hash over everything that the plan would do; two plans with the same digest do the same."""
        from hashlib import blake2b

        git = (self.git.before, self.git.after) if self.git is not None else None
        undone = self.undone.identity if self.undone is not None else None
        parts = (self.target, self.what, self.paths, self.actions, git, undone, self.conflicts, self.request)
        return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    @property
    def creates(self) -> list[str]:
        """Paths that will exist and do not now; a directory only where it is made for itself."""
        return [to_text(a.path) for a in for_themselves([a for a in self.actions if a.before is None])]

    @property
    def modifies(self) -> list[str]:
        """Paths that will have other bytes, another kind or other permissions."""
        return [to_text(a.path) for a in self.actions if a.before is not None and a.after is not None]

    @property
    def deletes(self) -> list[str]:
        """Paths that will be gone, held by the safety checkpoint first; a directory only where it is removed for itself."""
        return [to_text(a.path) for a in for_themselves([a for a in self.actions if a.after is None])]

    @property
    def merged(self) -> list[str]:
        """Paths whose text is made from several states: later changes in them are kept."""
        return [to_text(a.path) for a in self.actions if a.after is not None and a.after.oid in self.contents]

    @property
    def is_noop(self) -> bool:
        """Whether nothing would change."""
        return not self.actions and self.git is None

    def is_as(self, other: RestorePlan) -> bool:
        """Returns whether another plan does the same."""
        return self.actions == other.actions and self.is_same_operation(other)

    def is_same_operation(self, other: RestorePlan) -> bool:
        """Returns whether another plan takes back the same operation and moves git in the same way."""
        named = [plan.undone.identity if plan.undone is not None else None for plan in (self, other)]
        return named[0] == named[1] and self.is_same_git(other)

    def is_same_git(self, other: RestorePlan) -> bool:
        """Returns whether another plan moves git in the same way."""
        return self.git.promises(other.git) if self.git is not None else other.git is None

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "target": self.target,
            "what": self.what,
            "paths": list(self.paths) if self.paths is not None else None,
            "creates": self.creates,
            "modifies": self.modifies,
            "deletes": self.deletes,
            "keeps": [keep.to_dict() for keep in self.keeps],
            "git": self.git.to_dict() if self.git else None,
            "is_noop": self.is_noop,
            "undone": self.undone.to_dict() if self.undone else None,
            "branch": self.branch,
            "conflicts": [conflict.to_dict() for conflict in self.conflicts],
            "merged": self.merged,
            "digest": self.digest,
        }


@dataclass(frozen=True)
class RestoreReport:
    """
    The result of a restore.

    `undone` names the operation that an undo took back, or a redo brought forward. `branch` is the git branch that the
    checkpoint was made on, empty when that is the current one. `lost` is what disappeared in the steps that were undone and
    was never saved; `reinstall` are commands that make unsaved dependencies fit the restored files. `conflicts` are the paths of
    a reverted step that could not be merged, `merged` the paths in which later changes were kept.
    `again` is what takes a redo back, where a plain undo would take another operation first: `undo --session ID`.
    """

    target: str
    created: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    kept: list[Keep] = field(default_factory=list)
    undo: str | None = None
    state: dict[str, Any] = field(default_factory=dict)
    recovered: str = ""
    git: GitMove | None = None
    undone: Undone | None = None
    branch: str = ""
    lost: list[Keep] = field(default_factory=list)
    reinstall: list[str] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    again: str = ""

    @property
    def complete(self) -> bool:
        """Whether every path that should have been restored was, and nothing is lost."""
        return not self.lost and not self.conflicts and not any(keep.failed for keep in self.kept)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            **vars(self),
            "kept": [keep.to_dict() for keep in self.kept],
            "git": self.git.to_dict() if self.git else None,
            "undone": self.undone.to_dict() if self.undone else None,
            "lost": [keep.to_dict() for keep in self.lost],
            "conflicts": [conflict.to_dict() for conflict in self.conflicts],
        }


#: The settings files of agents: they hold hooks, and the permissions that a user granted. An undo treats them with care.
AGENT_SETTINGS = (
    ".claude/settings.local.json",
    ".claude/settings.json",
    ".codex/hooks.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".cursor/hooks.json",
    ".github/hooks/mulligan.json",
    ".qwen/settings.json",
    ".openhands/hooks.json",
    ".factory/settings.local.json",
    ".letta/settings.local.json",
    ".augment/settings.local.json",
    ".vibe/hooks.toml",
    ".agents/plugins/mulligan/plugin.json",
    ".agents/plugins/mulligan/hooks/hooks.json",
    *(f".clinerules/hooks/{name}" for name in ("TaskStart", "TaskResume", "UserPromptSubmit", "PreToolUse")),
    *(f".clinerules/hooks/{name}" for name in ("PostToolUse", "TaskComplete", "TaskCancel")),
    ".opencode/plugin/mulligan.js",
    ".kilo/plugin/mulligan.js",
    ".pi/extensions/mulligan.ts",
    ".aider.conf.yml",
    ".aider.mulligan",
)
_ENDINGS = tuple(f"/{path}".encode() for path in AGENT_SETTINGS)


def is_agent_settings(path: bytes) -> bool:
    """Returns whether a path of a workspace, at any depth, is a settings file of an agent."""
    return (b"/" + path).endswith(_ENDINGS)
