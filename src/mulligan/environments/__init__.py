"""
Where an agent works: its files, its commands, and a way back.

`Environment` is the public protocol; `LocalEnvironment`, `GitEnvironment` and `DockerEnvironment` are the ones that come
with mulligan. Each is loaded when first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mulligan.environments.base import CommandResult, Environment, TestResult

if TYPE_CHECKING:
    from mulligan.environments.docker import DockerEnvironment
    from mulligan.environments.git import GitEnvironment
    from mulligan.environments.local import LocalEnvironment

_LAZY = {
    "DockerEnvironment": "mulligan.environments.docker",
    "GitEnvironment": "mulligan.environments.git",
    "LocalEnvironment": "mulligan.environments.local",
}

__all__ = ["CommandResult", "DockerEnvironment", "Environment", "GitEnvironment", "LocalEnvironment", "TestResult"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'mulligan.environments' has no attribute {name!r}")
