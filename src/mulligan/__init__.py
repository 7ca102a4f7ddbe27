"""
mulligan: checkpoints and rollback for coding agents.

    import mulligan

    ws = mulligan.open()
    ws.save("before the refactor")
    ...
    ws.undo()

The public surface is `__all__`; everything else may change between versions.
"""

from __future__ import annotations

import os

from mulligan.errors import (
    AmbiguousCheckpoint,
    Busy,
    ConfigError,
    DurabilityLost,
    GitFailed,
    GitMissing,
    GitNotMoved,
    MulliganError,
    NoRoom,
    NothingSaved,
    NothingToRedo,
    NothingToUndo,
    PlanStale,
    StoreDamaged,
    StoreError,
    UnknownCheckpoint,
    UnknownPath,
    Unprotectable,
    UnsafePath,
    UserError,
    WorkspaceReplaced,
)

TYPE_CHECKING = False  # the module of that name costs a command more than everything else it imports here
if TYPE_CHECKING:
    from typing import Any

    from mulligan.engine import Workspace
    from mulligan.model.checkpoint import Checkpoint, GitState, NotCaptured
    from mulligan.model.diff import Diff
    from mulligan.model.gitposition import GitMove, GitPosition
    from mulligan.model.plan import Keep, RestorePlan, RestoreReport
    from mulligan.timeline.forgetting import ForgetReport
    from mulligan.timeline.health import CheckReport, DoctorReport

__version__ = "0.1.0"

# Loaded when first asked for: a command that only prints help pays for none of it.
_LAZY = {
    "CheckReport": "mulligan.timeline.health",
    "Checkpoint": "mulligan.model.checkpoint",
    "Diff": "mulligan.model.diff",
    "DoctorReport": "mulligan.timeline.health",
    "ForgetReport": "mulligan.timeline.forgetting",
    "GitMove": "mulligan.model.gitposition",
    "GitPosition": "mulligan.model.gitposition",
    "GitState": "mulligan.model.checkpoint",
    "Keep": "mulligan.model.plan",
    "NotCaptured": "mulligan.model.checkpoint",
    "RestorePlan": "mulligan.model.plan",
    "RestoreReport": "mulligan.model.plan",
    "Workspace": "mulligan.engine",
}

__all__ = [
    "AmbiguousCheckpoint",
    "Busy",
    "CheckReport",
    "Checkpoint",
    "ConfigError",
    "Diff",
    "DoctorReport",
    "DurabilityLost",
    "ForgetReport",
    "GitFailed",
    "GitMissing",
    "GitMove",
    "GitNotMoved",
    "GitPosition",
    "GitState",
    "Keep",
    "MulliganError",
    "NoRoom",
    "NotCaptured",
    "NothingSaved",
    "NothingToRedo",
    "NothingToUndo",
    "PlanStale",
    "RestorePlan",
    "RestoreReport",
    "StoreDamaged",
    "StoreError",
    "UnknownCheckpoint",
    "UnknownPath",
    "Unprotectable",
    "UnsafePath",
    "UserError",
    "Workspace",
    "WorkspaceReplaced",
    "open",
]


def open(path: str | os.PathLike[str] = ".", *, store: str | os.PathLike[str] | None = None) -> Workspace:  # noqa: A001 - the name users type
    """Opens a directory for protection. Nothing is written until the first save."""
    from mulligan.engine import Workspace
    from mulligan.settings import resolve

    return Workspace(resolve(path, store=store))


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'mulligan' has no attribute {name!r}")
