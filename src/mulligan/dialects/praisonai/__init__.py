"""
PraisonAI's checkpoints over mulligan's engine: change the import and keep the code.

    from mulligan.dialects.praisonai import CheckpointService

    service = CheckpointService(workspace_dir="./project")
    await service.initialize()
    checkpoint = await service.save("Before refactoring")
    await service.restore(checkpoint)

Names are loaded when first asked for, as in the original; an unknown one is an AttributeError.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mulligan.dialects.praisonai.service import CheckpointService
    from mulligan.dialects.praisonai.session import SessionCheckpointManager
    from mulligan.dialects.praisonai.types import (
        Checkpoint,
        CheckpointConfig,
        CheckpointDiff,
        CheckpointEvent,
        CheckpointResult,
        FileDiff,
    )

_PLACES = {
    "Checkpoint": "types",
    "CheckpointConfig": "types",
    "CheckpointDiff": "types",
    "CheckpointEvent": "types",
    "CheckpointResult": "types",
    "CheckpointService": "service",
    "FileDiff": "types",
    "SessionCheckpointManager": "session",
}

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointDiff",
    "CheckpointEvent",
    "CheckpointResult",
    "CheckpointService",
    "FileDiff",
    "SessionCheckpointManager",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
