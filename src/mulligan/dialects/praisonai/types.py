"""
The values of PraisonAI's checkpoints, in both spellings.

The document and the code that was shipped disagree about several names; each class here answers to both. Nothing here
touches a disk. A result of `save` is text, the checkpoint's id, and has the fields of a result.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from mulligan.model.plan import RestoreReport
from mulligan.settings.variables import expand_user, praisonai_choices


class CheckpointEvent(str, Enum):  # noqa: UP042 - str(event) stays what it was
    """What handlers can be registered for; the short names are the document's, and mean the same."""

    INITIALIZED = "initialized"
    CHECKPOINT_CREATED = "checkpoint_created"
    CHECKPOINT_RESTORED = "checkpoint_restored"
    CHECKPOINT_DELETED = "checkpoint_deleted"
    CHECKPOINTS_PRUNED = "checkpoints_pruned"
    ERROR = "error"

    CREATED = "checkpoint_created"
    RESTORED = "checkpoint_restored"
    DELETED = "checkpoint_deleted"
    PRUNED = "checkpoints_pruned"

    @classmethod
    def _missing_(cls, value: object) -> CheckpointEvent | None:
        return cls.__members__.get(str(value).upper())


@dataclass
class CheckpointConfig:
    """
    How checkpoints are made. Without `workspace_dir` it is completed by the service it is given to.

    Without `storage_dir` the checkpoints are in the workspace's ordinary store, where `mulligan log` and `mulligan undo`
    see them. `exclude_patterns` adds to what no checkpoint holds (ignored files, dependencies, git's own directory).
    `max_checkpoints=0` keeps all. `max_file_size`: bytes, 0 for no limit, None for the user's own setting.
    """

    workspace_dir: str = ""
    storage_dir: str | None = None
    enabled: bool = True
    auto_checkpoint: bool = True
    max_checkpoints: int = 100
    user_name: str = field(default_factory=lambda: praisonai_choices().user_name)
    user_email: str = field(default_factory=lambda: praisonai_choices().user_email)
    max_file_size: int | None = None
    exclude_patterns: list[str] = field(default_factory=list)
    own_storage: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Expands both directories and makes them absolute."""
        if self.workspace_dir:
            self.workspace_dir = os.path.abspath(expand_user(os.fspath(self.workspace_dir)))
        self.own_storage = self.storage_dir is not None
        self.storage_dir = (
            praisonai_choices().storage
            if self.storage_dir is None
            else os.path.abspath(expand_user(os.fspath(self.storage_dir)))
        )
        self.exclude_patterns = [str(pattern) for pattern in self.exclude_patterns]

    def for_workspace(self, workspace_dir: str, **changes: Any) -> CheckpointConfig:
        """Returns the same choices for a workspace, with some changed."""
        kept = {name: value for name, value in vars(self).items() if name != "own_storage"}
        if not self.own_storage:
            kept["storage_dir"] = None
        return CheckpointConfig(**{**kept, "workspace_dir": workspace_dir or self.workspace_dir, **changes})

    def get_checkpoint_dir(self) -> str:
        """Returns the directory of this workspace below `storage_dir`: one, by whatever path the workspace is reached."""
        real = os.path.realpath(self.workspace_dir)
        digest = hashlib.sha256(os.fsencode(real), usedforsecurity=False).hexdigest()
        return os.path.join(self.storage_dir or "", digest[:12])


class ChangedFiles(list[str]):
    """The names of changed files, which can also be used as their number."""

    def __int__(self) -> int:
        return len(self)

    __index__ = __int__

    def __eq__(self, other: object) -> bool:
        return len(self) == other if isinstance(other, int) else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __gt__(self, other: Any) -> bool:
        return len(self) > other if isinstance(other, int) else super().__gt__(other)

    def __lt__(self, other: Any) -> bool:
        return len(self) < other if isinstance(other, int) else super().__lt__(other)

    def __ge__(self, other: Any) -> bool:
        return len(self) >= other if isinstance(other, int) else super().__ge__(other)

    def __le__(self, other: Any) -> bool:
        return len(self) <= other if isinstance(other, int) else super().__le__(other)

    __hash__ = None


@dataclass
class Checkpoint:
    """One checkpoint; `files_changed` is a list of names that compares like their number, or what it was made with."""

    id: str
    short_id: str = ""
    message: str = ""
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))
    files_changed: Any = 0
    insertions: int = 0
    deletions: int = 0
    step: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Derives the short id where none was given."""
        self.short_id = self.short_id or self.id[:8]

    def __str__(self) -> str:
        return self.id

    @classmethod
    def from_git_commit(cls, commit_hash: str, message: str, timestamp: str | datetime) -> Checkpoint:
        """Returns a checkpoint from a commit's parts; the time as ISO 8601, with `Z` or without."""
        when = datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else timestamp
        return cls(commit_hash, commit_hash[:8], message, when)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form: the number of changed files, and their names where they are known."""
        names = list(self.files_changed) if isinstance(self.files_changed, list) else None
        found = {
            "id": self.id,
            "short_id": self.short_id,
            "message": self.message,
            "timestamp": self.timestamp.isoformat(),
            "files_changed": self.files_changed if names is None else len(names),
            "insertions": self.insertions,
            "deletions": self.deletions,
            "step": self.step,
        }
        if names is not None:
            found["files"] = names
        return {**found, "metadata": self.metadata} if self.metadata else found


@dataclass
class FileDiff:
    """One file of a diff: status `added`, `modified` or `deleted`."""

    path: str
    absolute_path: str
    status: str
    additions: int = 0
    deletions: int = 0
    before_content: str | None = None
    after_content: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form, without contents."""
        names = ("path", "absolute_path", "status", "additions", "deletions")
        return {name: getattr(self, name) for name in names}


@dataclass
class CheckpointDiff:
    """
    The difference between two checkpoints, or one and the workspace (`to_checkpoint` None).

    `from_checkpoint` and `to_checkpoint` are short ids, `from_id` and `to_id` whole ones. A renamed file is deleted under
    its old name and added under the new one. `error` says why a diff is empty that should not be.
    """

    from_checkpoint: str = ""
    to_checkpoint: str | None = None
    files: list[FileDiff] = field(default_factory=list)
    total_additions: int = 0
    total_deletions: int = 0
    from_id: str = ""
    to_id: str | None = None
    diff_content: str = ""
    error: str | None = None
    added_files: list[str] = field(default_factory=list)
    modified_files: list[str] = field(default_factory=list)
    deleted_files: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Works out the totals and the lists, and the one spelling of each id from the other."""
        self.from_checkpoint = self.from_checkpoint or self.from_id[:8]
        self.from_id = self.from_id or self.from_checkpoint
        if self.to_checkpoint is None and self.to_id:
            self.to_checkpoint = self.to_id[:8]
        self.to_id = self.to_id if self.to_id is not None else self.to_checkpoint
        if self.files:
            self.total_additions = sum(file.additions for file in self.files)
            self.total_deletions = sum(file.deletions for file in self.files)
            self.added_files, self.modified_files, self.deleted_files = (
                [file.path for file in self.files if file.status == status]
                for status in ("added", "modified", "deleted")
            )

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "from_checkpoint": self.from_checkpoint,
            "to_checkpoint": self.to_checkpoint,
            "files": [file.to_dict() for file in self.files],
            "total_additions": self.total_additions,
            "total_deletions": self.total_deletions,
        }

    def only(self, files: Iterable[FileDiff]) -> CheckpointDiff:
        """Returns the same comparison for some of its files; the patch is left out."""
        return CheckpointDiff(
            self.from_checkpoint, self.to_checkpoint, list(files), from_id=self.from_id, to_id=self.to_id
        )


class CheckpointResult(str):
    """
    The result of an operation; as text it is the checkpoint's id, so it can stand for one.

    False when the operation failed. A save that failed because nothing had changed is, as text, the id of the checkpoint
    that holds this state already; any other failure is empty text, and using it as an id fails with its own error.
    """

    __slots__ = ("checkpoint", "error", "report", "success")
    success: bool
    checkpoint: Checkpoint | None
    error: str | None
    report: RestoreReport | None

    def __new__(
        cls,
        success: bool,
        checkpoint: Checkpoint | None = None,
        error: str | None = None,
        *,
        report: RestoreReport | None = None,
        held_by: str = "",
    ) -> CheckpointResult:
        """Makes a result; `held_by` is the checkpoint that a save without changes would have repeated."""
        self = super().__new__(cls, checkpoint.id if checkpoint is not None else held_by)
        self.success, self.checkpoint, self.error, self.report = success, checkpoint, error, report
        return self

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        known = {"report": self.report, "held_by": "" if self.checkpoint else str(self)}
        return (self.success, self.checkpoint, self.error), known

    @classmethod
    def ok(cls, checkpoint: Checkpoint, report: RestoreReport | None = None) -> CheckpointResult:
        """Returns a success."""
        return cls(True, checkpoint, report=report)

    @classmethod
    def fail(cls, error: str, *, held_by: str = "") -> CheckpointResult:
        """Returns a failure."""
        return cls(False, error=error, held_by=held_by)

    @property
    def id(self) -> str:
        """The id of the checkpoint."""
        return str(self)

    def __str__(self) -> str:
        return str.__str__(self)

    def __bool__(self) -> bool:
        return self.success

    def __repr__(self) -> str:
        return f"CheckpointResult(success={self.success}, checkpoint={self.checkpoint!r}, error={self.error!r})"
