"""
The checkpoint-manager skill's interface, over mulligan.

    manager = CheckpointManager(project_dir)
    checkpoint = await manager.create_checkpoint(name="before-refactor", description="State before major refactoring")
    await manager.rollback(checkpoint.id)

Every call is a coroutine whose work runs in a thread: the event loop is never blocked. The checkpoints share the project's
ordinary store, so `mulligan log`, `diff` and `undo` work on them. The rules are in `mulligan.loop.project`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mulligan.loop.context import ContextTracker
from mulligan.loop.project import KEPT, ProjectCheckpoints
from mulligan.loop.project_values import Checkpoint, CheckpointType, FeatureState, GitState, RollbackResult
from mulligan.loop.records import PLACE
from mulligan.model.plan import RestoreReport
from mulligan.safefs.userfile import read_user_file
from mulligan.state.project import FEATURE_LIST_FILE, PROGRESS_FILE, read_features

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointManager",
    "CheckpointType",
    "ContextTracker",
    "FeatureState",
    "GitSnapshot",
    "GitState",
    "RollbackHandler",
    "RollbackResult",
    "StateSnapshot",
    "count_passing_tests",
]

Result = TypeVar("Result")
Project = str | os.PathLike[str]
_LIMIT = 64 << 20


@dataclass
class CheckpointConfig:
    """
    Choices of a manager, with the names that the skill's sibling gives them.

    `max_checkpoints` is how many automatic ones stay; a manager without a configuration keeps 5. `auto_checkpoint` is for loops
    that ask it. Without `include_git`, a rollback leaves HEAD, branch and index where they are.
    """

    checkpoint_dir: str = PLACE
    max_checkpoints: int = 20
    auto_checkpoint: bool = True
    include_git: bool = True

    def __post_init__(self) -> None:
        number = self.max_checkpoints
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"max_checkpoints is a whole number from 1 on, not {number!r}")


class CheckpointManager:
    """Creates, lists, deletes and rolls back to the checkpoints of one project."""

    FEATURE_LIST_FILE = FEATURE_LIST_FILE
    PROGRESS_FILE = PROGRESS_FILE
    STATE_FILE = ".claude/autonomous-state.json"

    def __init__(
        self,
        project_dir: Project,
        config: CheckpointConfig | None = None,
        *,
        figures: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        self.project_dir = Path(project_dir)
        self.config = config or CheckpointConfig()
        kept = KEPT if config is None else {**KEPT, CheckpointType.AUTOMATIC: config.max_checkpoints}
        place = os.fspath(self.config.checkpoint_dir)
        self.project = ProjectCheckpoints(project_dir, place=place, kept=kept, with_git=self.config.include_git)
        self.checkpoint_dir = self.project_dir / self.project.records.place
        self.tracker = ContextTracker(project_dir, checkpoints=self.project)
        self._figures = figures or self.tracker.figures

    async def __aenter__(self) -> CheckpointManager:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Releases files and memory; the next use opens them again."""
        await _in_thread(self.project.close)

    # -- making and seeing ------------------------------------------------------------------------

    async def create_checkpoint(
        self,
        name: str = "",
        description: str = "",
        checkpoint_type: CheckpointType | str = CheckpointType.MANUAL,
        context: Mapping[str, Any] | None = None,
    ) -> Checkpoint:
        """
        Saves the project: all files, where git stands, the feature list, the progress file, and the context.

        Session number and token usage are filled in from the context tracker; what `context` gives wins.
        """
        kind = CheckpointType.of(checkpoint_type)
        return await _in_thread(self._create, name, description, kind, dict(context or {}))

    def _create(self, name: str, description: str, kind: CheckpointType, context: dict[str, Any]) -> Checkpoint:
        return self.project.create(name, description, kind, {**self._figures(), **context})

    async def list_checkpoints(self, checkpoint_type: CheckpointType | str | None = None) -> list[Checkpoint]:
        """Returns the checkpoints, newest first; of one type only, if that is given."""
        found = await _in_thread(self.project.all)
        wanted = None if checkpoint_type is None else CheckpointType.of(checkpoint_type)
        return [each for each in found if wanted is None or each.checkpoint_type is wanted]

    async def get_checkpoint(self, checkpoint_id: str) -> Checkpoint | None:
        """Returns one checkpoint, None where there is none of that id."""
        return await _in_thread(self.project.get, checkpoint_id)

    async def get_latest(self) -> Checkpoint | None:
        """Returns the newest checkpoint of any type, None where there is none."""
        return await _in_thread(self.project.latest)

    # -- going back -------------------------------------------------------------------------------

    async def rollback(self, checkpoint_id: str | Checkpoint) -> RollbackResult:
        """Takes the project back to a checkpoint; the result is false, and nothing changed, where that was refused."""
        wanted = checkpoint_id.id if isinstance(checkpoint_id, Checkpoint) else checkpoint_id
        return await _in_thread(self.project.rollback, wanted)

    restore_checkpoint = rollback

    async def rollback_to_latest(self) -> RollbackResult:
        """Takes the project back to the newest checkpoint of any type."""
        return await _in_thread(self.project.rollback_to_latest)

    async def undo(self) -> RestoreReport:
        """Takes one rollback back: files, HEAD, branch and index as they were before it."""
        return await _in_thread(self.project.workspace.undo)

    # -- letting go and mending -------------------------------------------------------------------

    async def delete_checkpoint(self, checkpoint_id: str) -> bool:
        """Deletes a checkpoint and its record; returns whether there was one."""
        return await _in_thread(self.project.delete, checkpoint_id)

    async def repair_checkpoint(self, checkpoint_id: str) -> Checkpoint | None:
        """Writes the record of a checkpoint anew from what was saved; None where there is no such checkpoint."""
        return await _in_thread(self.project.repair, checkpoint_id)

    async def cleanup(self) -> list[str]:
        """Lets go what the types do not keep and frees its disk space; returns the ids that went."""
        gone = await _in_thread(self.project.retain)
        await _in_thread(self.project.workspace.prune)
        return gone

    prune = cleanup
    cleanup_old_checkpoints = cleanup


class GitSnapshot:
    """Where a project's git repository stands, read without starting git."""

    def __init__(self, project_dir: Project) -> None:
        self.project_dir = Path(project_dir)
        self._project = ProjectCheckpoints(project_dir)

    def capture(self) -> GitState:
        """Returns commit, branch and the files that `git status` would name; all empty where there is no repository."""
        return self._project.git_state()


class StateSnapshot:
    """The state files of a project, as they are now: the feature list and the progress file."""

    def __init__(self, project_dir: Project) -> None:
        self.project_dir = Path(project_dir)
        self._root = os.path.realpath(project_dir)

    def capture(self) -> FeatureState:
        """Returns where the feature list stands; nothing is copied, so there is no path of a copy."""
        features = read_features(self.files().get(FEATURE_LIST_FILE))
        return FeatureState(features.current, list(features.completed), "")

    def files(self) -> dict[str, bytes]:
        """Returns the bytes of the state files that are there."""
        found = {name: _read(os.path.join(self._root, name)) for name in (FEATURE_LIST_FILE, PROGRESS_FILE)}
        return {name: data for name, data in found.items() if data is not None}


class RollbackHandler:
    """Carries out a rollback: loads the checkpoint, moves git, restores files and state files, removes what came since."""

    def __init__(self, project_dir: Project) -> None:
        self.project_dir = Path(project_dir)
        self._manager = CheckpointManager(project_dir)

    async def rollback(self, checkpoint: str | Checkpoint) -> RollbackResult:
        """Takes the project back to a checkpoint, given as itself or by its id."""
        return await self._manager.rollback(checkpoint)

    execute = rollback

    async def preview(self, checkpoint: str | Checkpoint) -> dict[str, Any]:
        """Returns what a rollback would create, modify, delete and keep. Changes nothing."""
        wanted = checkpoint.id if isinstance(checkpoint, Checkpoint) else checkpoint
        return await _in_thread(self._manager.project.preview, wanted)


def count_passing_tests(project_dir: Project) -> tuple[int, int]:
    """Returns how many features pass, and how many there are; (0, 0) where there is no list that can be read."""
    features = read_features(_read(os.path.join(os.path.realpath(project_dir), FEATURE_LIST_FILE)))
    return len(features.completed), features.total


def _read(path: str) -> bytes | None:
    try:
        return read_user_file(path, limit=_LIMIT)
    except OSError:
        return None  # a directory, a device, not to be read: no state file


async def _in_thread(call: Callable[..., Result], *args: Any) -> Result:
    return await asyncio.to_thread(call, *args)
