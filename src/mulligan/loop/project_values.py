"""
The values of a project's checkpoints: what they were made for, where git and the features stood, what a rollback did.

Plain and changeable on purpose: they are the ones that users of the checkpoint-manager skill know, with their names, their
order and their JSON form. The engine's own checkpoint stands behind each of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any


class CheckpointType(Enum):
    """Why a checkpoint was made, which decides how long it stays."""

    AUTOMATIC = "automatic"
    MANUAL = "manual"
    FEATURE = "feature"
    SESSION = "session"

    @classmethod
    def of(cls, value: CheckpointType | str) -> CheckpointType:
        """Returns the type that a member or its word means (`auto` too); raises ValueError for any other."""
        if isinstance(value, cls):
            return value
        return cls("automatic" if value == "auto" else value)


@dataclass
class GitState:
    """The position of the project's git repository; all empty without a repository."""

    commit_hash: str
    branch: str
    dirty_files: list[str] = field(default_factory=list)


@dataclass
class FeatureState:
    """Where the feature list stood, and where its copy is, relative to the project."""

    current: str | None
    completed: list[str]
    snapshot_path: str


@dataclass
class Checkpoint:
    """One checkpoint of a project; `mulligan_id` is its id in the timeline that `mulligan log` shows."""

    id: str
    name: str
    description: str
    timestamp: str
    checkpoint_type: CheckpointType
    git_state: GitState
    feature_state: FeatureState
    context: dict[str, Any] = field(default_factory=dict)
    mulligan_id: str = field(default="", repr=False, compare=False)

    @property
    def git_commit(self) -> str:
        """The commit, under another of its names."""
        return self.git_state.commit_hash

    @property
    def feature_id(self) -> str:
        """The feature that was being worked on, empty where none was."""
        return self.feature_state.current or ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        found = {**asdict(self), "checkpoint_type": self.checkpoint_type.value}
        del found["mulligan_id"]
        return found

    @classmethod
    def from_dict(cls, data: Any) -> Checkpoint:
        """Returns the checkpoint of a JSON form, also one without `checkpoint_type`; raises ValueError for anything else."""
        if not isinstance(data, dict) or not isinstance(data.get("id"), str) or not data["id"]:
            raise ValueError("this is not the record of a checkpoint: it has no id")
        git, features = _table(data, "git_state"), _table(data, "feature_state")
        return cls(
            data["id"],
            _text(data, "name"),
            _text(data, "description"),
            _text(data, "timestamp"),
            CheckpointType.of(data.get("checkpoint_type") or CheckpointType.MANUAL),
            GitState(_text(git, "commit_hash"), _text(git, "branch"), _texts(git, "dirty_files")),
            FeatureState(
                _text(features, "current") or None, _texts(features, "completed"), _text(features, "snapshot_path")
            ),
            _table(data, "context"),
        )


def _table(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{key} is not an object")  # noqa: TRY004 - one kind of mistake for the caller
    return value


def _text(data: dict[str, Any], key: str) -> str:
    value = data.get(key) or ""
    if not isinstance(value, str):
        raise ValueError(f"{key} is not text")  # noqa: TRY004 - one kind of mistake for the caller
    return value


def _texts(data: dict[str, Any], key: str) -> list[str]:
    value = data.get(key) or []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{key} is not a list of texts")
    return list(value)


@dataclass
class RollbackResult:
    """
    The result of a rollback; true if every path is as it was then.

    Where it was refused, nothing was changed, and `error` and `hint` say why and what to do. Where it is only partial, `kept`
    lists what stayed as it was. `undo` is the checkpoint that holds what was there before.
    """

    success: bool
    checkpoint_id: str = ""
    error: str = ""
    hint: str = ""
    restored: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    commit_hash: str = ""
    branch: str = ""
    undo: str | None = None

    def __bool__(self) -> bool:
        return self.success

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return dict(self.__dict__)
