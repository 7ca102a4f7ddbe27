"""What became of the forks of a workspace: whether each stands, what it holds that is nowhere else, and its size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.engine.workspace import Workspace
from mulligan.errors import MulliganError
from mulligan.forks.fork import stands
from mulligan.forks.record import Fork
from mulligan.forks.verbs import bring, forks, holds_bytes, open_fork
from mulligan.safefs.directory import Directory
from mulligan.safefs.room import disk_usage

if TYPE_CHECKING:
    from mulligan.doctor.forget import ForgetReport
    from mulligan.model.checkpoint import Checkpoint


class ForkState(NamedTuple):
    """A fork as it is now: files not saved in it, checkpoints made since, and the bytes of its directory."""

    fork: Fork
    exists: bool
    unsaved: int = 0
    checkpoints: int = 0
    bytes: int = 0
    problem: str = ""

    @property
    def has_work(self) -> bool:
        """Whether it holds work that is in no other place."""
        return bool(self.unsaved or self.checkpoints or self.problem)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            **self.fork.to_dict(),
            "gone": not self.exists,
            "unsaved": self.unsaved,
            "checkpoints": self.checkpoints,
            "bytes": self.bytes,
            "problem": self.problem,
        }


def describe(workspace: Workspace, fork: Fork) -> ForkState:
    """Returns what a fork is now; a fork that cannot be read says why."""
    exists = stands(workspace.settings, fork)
    try:
        with open_fork(workspace, fork) as opened:
            made = max(0, len(opened.log()) - 1)
            if not exists:
                return ForkState(fork, exists, checkpoints=made)
            unsaved = sum(opened.status()["unsaved"].values())
        with Directory.open(fork.directory) as directory:
            return ForkState(fork, exists, unsaved, made, disk_usage(directory))
    except MulliganError as error:
        return ForkState(fork, exists, problem=error.message)
    except OSError as error:
        return ForkState(fork, exists, problem=f"It cannot be read ({error.strerror}).")


def save_fork(workspace: Workspace, fork: Fork, about: str) -> Checkpoint:
    """Saves a fork as it is, if anything changed since its last checkpoint; returns the one that holds it."""
    with open_fork(workspace, fork) as opened:
        saved = opened.save(description=about, kind="manual", if_changed=True)
        return saved if saved is not None else opened.get("@")


def bring_fork(workspace: Workspace, fork: Fork) -> Checkpoint:
    """Saves a fork and adds that checkpoint to the timeline of the workspace; no file is touched."""
    saved = save_fork(workspace, fork, "before mulligan keep")
    with open_fork(workspace, fork) as opened:
        return bring(workspace, opened, saved, name=f"fork {fork.name}")


def forks_holding(workspace: Workspace, path: str) -> list[Fork]:
    """Returns the forks whose stores hold a path, or bytes that it had in a checkpoint of the workspace."""
    found = []
    for fork in forks(workspace):
        try:
            with open_fork(workspace, fork) as opened:
                if holds_bytes(opened, path, like=workspace):
                    found.append(fork)
        except (MulliganError, OSError):
            found.append(fork)  # what cannot be read may hold it
    return found


def forget_in(workspace: Workspace, fork: Fork, path: str) -> ForgetReport | None:
    """Removes a path from a fork's history too; None where only bytes of it had to go."""
    with open_fork(workspace, fork) as opened:
        if any(opened.holds(checkpoint, path) for checkpoint in opened.log()):
            return opened.forget(path)
        opened.prune()
        return None
