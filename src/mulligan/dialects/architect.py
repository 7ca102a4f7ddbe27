"""
architect's checkpoints and pipelines: change one import and keep your code.

    from mulligan.dialects.architect import CheckpointManager

Commits `architect:checkpoint:step-N -- message` on the user's branch, as architect makes them, and with each one a checkpoint
of mulligan's own. Thin: the commits are made in `mulligan.loop.commits`, pipelines run in `mulligan.loop.pipeline`.
Promise: a rollback loses nothing (`undo` takes it back, files and branch), later checkpoints stay listed, and neither
secrets nor ignored files get into a commit. Differences from the original are in docs/howto/migrate-from-architect.md.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mulligan.committing.labels import PREFIX, of_step
from mulligan.errors import GitFailed, GitMissing, MulliganError, StoreError, UnknownCheckpoint
from mulligan.loop.commits import CommitCheckpoints, ListedCommit

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.loop.agent import AgentLoop
    from mulligan.loop.pipeline import (
        PipelineConfig,
        PipelineRunner,
        PipelineStep,
        PipelineStepResult,
        PipelineValidationError,
    )

CHECKPOINT_PREFIX = PREFIX
#: The configuration file that `architect init` writes.
CONFIG_FILE = "config.yaml"
_LARGEST = 1 << 20

__all__ = [
    "CHECKPOINT_PREFIX",
    "Checkpoint",
    "CheckpointManager",
    "CheckpointsConfig",
    "PipelineConfig",
    "PipelineRunner",
    "PipelineStep",
    "PipelineStepResult",
    "PipelineValidationError",
    "agent_loop",
]


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint, as architect describes it; `step` is 0 for a pipeline's step, which has a name instead."""

    step: int
    commit_hash: str
    message: str
    timestamp: float
    files_changed: list[str]

    def short_hash(self) -> str:
        """Returns the first seven characters of the hash."""
        return self.commit_hash[:7]


class CheckpointManager:
    """
    Checkpoints of one workspace, as commits on its branch.

    `create` returns None when nothing changed or no commit could be made, `rollback` False when there is nothing to go back
    to; why is in the log. Only a missing git (GitMissing, a FileNotFoundError) and a damaged store are raised.
    """

    def __init__(self, workspace_root: str) -> None:
        self.root = workspace_root
        self.log = logging.getLogger("mulligan.architect")

    @cached_property
    def workspace(self) -> Workspace:
        """The same directory as mulligan sees it: `manager.workspace.undo()` takes a rollback back."""
        import mulligan

        return mulligan.open(self.root)

    @property
    def _commits(self) -> CommitCheckpoints:
        return CommitCheckpoints(self.workspace)

    def create(self, step: int, message: str = "") -> Checkpoint | None:
        """Commits what changed in the workspace and saves it; returns None when nothing changed or no commit could be made."""
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise ValueError(f"step is a whole number from 0 on, not {step!r}; nothing was saved")
        try:
            made = self._commits.create(of_step(step, message or ""))
        except GitMissing:
            raise
        except GitFailed as error:
            self.log.warning("checkpoint.no_commit: %s Your files were saved by mulligan all the same.", error)
            return None
        if made is None:
            return None
        if made.left_out:
            self.log.warning("checkpoint.left_out: saved but not committed, a filter is in the way: %s", made.left_out)
        if made.trouble is not None:
            self.log.warning("checkpoint.commit_only: %s", made.trouble)
        self.log.info("checkpoint.created: step %d, %s", step, made.commit[:7])
        return Checkpoint(step, made.commit, message or "", made.when, list(made.files))

    def list_checkpoints(self) -> list[Checkpoint]:
        """Returns the checkpoints, newest first; those that a rollback left behind too."""
        return [_shown(each) for each in self._commits.listed(with_files=True)]

    def rollback(self, step: int | None = None, commit: str | None = None, *, name: str | None = None) -> bool:
        """
        Goes back to a commit, else to the newest checkpoint of a step, else to that of a pipeline's step by its name.

        Uncommitted and untracked work is saved first; `workspace.undo()` brings it all back.
        """
        try:
            target = commit or self._target(step, name)
            if not target:
                return False
            report = self._commits.rollback(target)
        except (GitMissing, StoreError):
            raise
        except MulliganError as error:
            self.log.warning("checkpoint.rollback_failed: %s", error)
            return False
        self.log.info(
            "checkpoint.rollback: to %s, saved before as %s",
            target[:7],
            (report.undo or "nothing, since nothing differed")[:8],
        )
        return True

    def _target(self, step: int | None, name: str | None) -> str:
        if step is None and name is None:
            return ""
        found = self._commits.find(step=step, name=name if step is None else None)
        return found.commit if found is not None else ""

    def get_latest(self) -> Checkpoint | None:
        """Returns the newest checkpoint, None when there is none."""
        listed = self.list_checkpoints()
        return listed[0] if listed else None

    def has_changes_since(self, commit_hash: str) -> bool:
        """Returns whether files differ from a commit, new ones included; True for a commit that is not known here."""
        try:
            return self._commits.changed_since(commit_hash)
        except UnknownCheckpoint as error:
            # Not False: a caller would read that as "nothing to save".
            self.log.warning("checkpoint.unknown_commit: %s", error)
            return True


class CheckpointsConfig:
    """The section `checkpoints:` of architect's configuration: whether the agent loop saves, and every how many steps."""

    enabled: bool
    every_n_steps: int

    def __init__(self, **values: Any) -> None:
        unknown = sorted(set(values) - {"enabled", "every_n_steps"})
        if unknown:
            raise ValueError(f"checkpoints: unknown keys: {', '.join(unknown)} (known: enabled, every_n_steps)")
        self.enabled = values.get("enabled", False)
        self.every_n_steps = values.get("every_n_steps", 5)
        if not isinstance(self.enabled, bool):
            raise ValueError(f"checkpoints.enabled is true or false, not {self.enabled!r}")  # noqa: TRY004 - as pydantic
        number = self.every_n_steps
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= 50:
            raise ValueError(f"checkpoints.every_n_steps is a whole number from 1 to 50, not {number!r}")

    def __repr__(self) -> str:
        return f"CheckpointsConfig(enabled={self.enabled}, every_n_steps={self.every_n_steps})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CheckpointsConfig) and self.model_dump() == other.model_dump()

    def __hash__(self) -> int:
        return hash((self.enabled, self.every_n_steps))

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> CheckpointsConfig:
        """Returns the section `checkpoints:` of a YAML file, the defaults where there is none; raises ValueError."""
        from mulligan.loop.pipeline_file import parse
        from mulligan.safefs.userfile import read_user_file

        data = read_user_file(os.fspath(path), limit=_LARGEST)
        if data is None:
            raise FileNotFoundError(f"Configuration file not found: {os.fspath(path)}")
        document, _ = parse(data, os.fspath(path))
        section = document.get("checkpoints") if isinstance(document, dict) else None
        return cls() if section is None else cls.model_validate(section)

    @classmethod
    def model_validate(cls, values: dict[str, Any]) -> CheckpointsConfig:
        """Returns the configuration that a mapping describes; raises ValueError for anything else."""
        if not isinstance(values, dict):
            raise ValueError(f"checkpoints is a mapping, not {values!r}")  # noqa: TRY004 - as pydantic
        return cls(**{str(key): value for key, value in values.items()})

    def model_dump(self) -> dict[str, Any]:
        """Returns the configuration as a mapping."""
        return {"enabled": self.enabled, "every_n_steps": self.every_n_steps}


class _StepCommits:
    """Saves for the agent loop: steps as commits, the state before a risky tool as a checkpoint only."""

    loop: AgentLoop

    def __init__(self, manager: CheckpointManager) -> None:
        self.manager = manager

    def save(self, description: str, kind: str) -> Any:
        if kind == "step":
            return self.manager.create(self.loop.steps, description.partition(": ")[2])
        return self.manager.workspace.save(description=description, kind=kind, if_changed=True)


def agent_loop(workspace_root: str, config: CheckpointsConfig | str | os.PathLike[str] | None = None) -> AgentLoop:
    """
    Returns the checkpoints of an agent's loop: where enabled, a commit after every so many steps that succeeded.

    `config` is the section itself or the path of architect's YAML file; without it, `config.yaml` in the workspace is read.
    """
    from mulligan.loop.agent import AgentLoop, LoopRules

    usual = os.path.join(workspace_root, CONFIG_FILE)
    if config is None and os.path.isfile(usual):
        config = usual
    chosen = config if isinstance(config, CheckpointsConfig) else CheckpointsConfig()
    if isinstance(config, str | os.PathLike):
        chosen = CheckpointsConfig.from_yaml(config)
    saves = _StepCommits(CheckpointManager(workspace_root))
    saves.loop = AgentLoop(saves, LoopRules(chosen.enabled, chosen.every_n_steps))
    return saves.loop


def _shown(each: ListedCommit) -> Checkpoint:
    return Checkpoint(each.label.step or 0, each.commit, each.label.message, each.when, list(each.files))


def __getattr__(name: str) -> Any:
    # Pipelines need more than checkpoints do, a YAML reader above all.
    if name.startswith("Pipeline") and name in __all__:
        from mulligan.loop import pipeline

        return getattr(pipeline, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
