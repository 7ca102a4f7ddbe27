"""Which names of the known systems mean which modules of mulligan."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """
    One system: its modules by their own names, each with the module of mulligan that stands for it.

    `checkpoints` replaces modules of an installed original; `others` is provided only where there is none. `proof` is the
    module by which an installed package is known to be the original. An empty source is an empty package.
    """

    proof: str
    checkpoints: dict[str, str]
    others: dict[str, str]


_CHIMERA, _PRAISONAI, _ARCHITECT = (f"mulligan.dialects.{name}" for name in ("chimera", "praisonai", "architect"))

FAMILIES: dict[str, Family] = {
    "chimera": Family(
        "chimera.checkpoints",
        {"chimera.checkpoints": _CHIMERA, "chimera.checkpoints_ghost": _CHIMERA},
        {
            "chimera": "",
            "chimera.core": "",
            "chimera.core.loop_config": _CHIMERA,
            "chimera.core.tool_executor": _CHIMERA,
            "chimera.env": "mulligan.environments",
            "chimera.env.base": "mulligan.environments.base",
            "chimera.env.docker": "mulligan.environments.docker",
            "chimera.env.git_env": "mulligan.environments.git",
            "chimera.env.local": "mulligan.environments.local",
        },
    ),
    "praisonaiagents": Family(
        "praisonaiagents.checkpoints",
        {
            "praisonaiagents.checkpoints": _PRAISONAI,
            "praisonaiagents.checkpoints.service": f"{_PRAISONAI}.service",
            "praisonaiagents.checkpoints.types": f"{_PRAISONAI}.types",
        },
        {"praisonaiagents": ""},
    ),
    "architect": Family(
        "architect.features.checkpoints",
        {"architect.features.checkpoints": _ARCHITECT},
        {"architect": "", "architect.features": _ARCHITECT, "architect.features.pipelines": _ARCHITECT},
    ),
    "scripts": Family(
        "scripts.checkpoint_manager",
        {},
        {
            "scripts": "",
            "scripts.checkpoint_manager": "mulligan.dialects.skill",
            "scripts.git_snapshot": "mulligan.dialects.skill",
            "scripts.rollback_handler": "mulligan.dialects.skill",
            "scripts.state_snapshot": "mulligan.dialects.skill",
        },
    ),
}
#: Families whose name is so usual that another package of that name is no surprise.
UNREMARKABLE = frozenset({"scripts"})
