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

TYPE_CHECKING = False  # the module of that name costs a command more than everything else it imports here
if TYPE_CHECKING:
    from typing import Any

    from mulligan.doctor.check import CheckReport, DoctorReport
    from mulligan.doctor.forget import ForgetReport
    from mulligan.engine.workspace import Workspace
    from mulligan.errors import (
        AmbiguousCheckpoint,
        Busy,
        ConfigError,
        ContentsElsewhere,
        DurabilityLost,
        FileSealed,
        GitFailed,
        GitMissing,
        GitNotMoved,
        KeyMissing,
        MulliganError,
        NoRoom,
        NothingSaved,
        NothingToRedo,
        NothingToUndo,
        PlanStale,
        RemoteDamaged,
        RemoteFailed,
        StoreDamaged,
        StoreError,
        UnknownCheckpoint,
        UnknownPath,
        Unprotectable,
        UnsafePath,
        UserError,
        WorkspaceGone,
        WorkspaceReplaced,
    )
    from mulligan.model.checkpoint import Checkpoint, GitState, NotCaptured
    from mulligan.model.diff import Diff
    from mulligan.model.gitposition import GitMove, GitPosition
    from mulligan.model.plan import Keep, RestorePlan, RestoreReport
    from mulligan.remotes.clone import clone

__version__ = "0.1.0"

# Loaded when first asked for: a command that only prints help, or asks a watcher, pays for none of it. All others are errors.
_LAZY = {
    "CheckReport": "mulligan.doctor.check",
    "Checkpoint": "mulligan.model.checkpoint",
    "clone": "mulligan.remotes.clone",
    "Diff": "mulligan.model.diff",
    "DoctorReport": "mulligan.doctor.check",
    "ForgetReport": "mulligan.doctor.forget",
    "GitMove": "mulligan.model.gitposition",
    "GitPosition": "mulligan.model.gitposition",
    "GitState": "mulligan.model.checkpoint",
    "Keep": "mulligan.model.plan",
    "NotCaptured": "mulligan.model.checkpoint",
    "RestorePlan": "mulligan.model.plan",
    "RestoreReport": "mulligan.model.plan",
    "Workspace": "mulligan.engine.workspace",
}

__all__ = [
    "AmbiguousCheckpoint",
    "Busy",
    "CheckReport",
    "Checkpoint",
    "ConfigError",
    "ContentsElsewhere",
    "Diff",
    "DoctorReport",
    "DurabilityLost",
    "FileSealed",
    "ForgetReport",
    "GitFailed",
    "GitMissing",
    "GitMove",
    "GitNotMoved",
    "GitPosition",
    "GitState",
    "Keep",
    "KeyMissing",
    "MulliganError",
    "NoRoom",
    "NotCaptured",
    "NothingSaved",
    "NothingToRedo",
    "NothingToUndo",
    "PlanStale",
    "RemoteDamaged",
    "RemoteFailed",
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
    "WorkspaceGone",
    "WorkspaceReplaced",
    "clone",
    "open",
]


def open(path: str | os.PathLike[str] = ".", *, store: str | os.PathLike[str] | None = None) -> Workspace:  # noqa: A001 - the name users type
    """Opens a directory for protection. Nothing is written until the first save."""
    from mulligan.engine.workspace import Workspace
    from mulligan.settings import resolve

    return Workspace(resolve(path, store=store))


def __getattr__(name: str) -> Any:
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(_LAZY.get(name, "mulligan.errors")), name)
    raise AttributeError(f"module 'mulligan' has no attribute {name!r}")
