"""
The verbs: save, restore, undo and the rest, each as a function over one open workspace (`workbench`).

`Workspace` (`workspace`) is the public class. A module is loaded when the first of its verbs is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mulligan.engine import (
        agents,
        asked,
        delete,
        doctor,
        guard,
        imports,
        notes,
        remarks,
        restore,
        revert,
        save,
        see,
        undo,
        watching,
    )

__all__ = [
    "agents", "asked", "delete", "doctor", "guard", "imports", "notes", "remarks", "restore", "revert", "save", "see", "undo",
    "watching",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'mulligan.engine' has no attribute {name!r}")
    return __import__(f"mulligan.engine.{name}", fromlist=["engine"])
