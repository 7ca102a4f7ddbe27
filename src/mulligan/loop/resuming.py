"""
How far a pipeline came, remembered in the store: which step is next, and what the steps before it said.

Written after each step, so that a run which was interrupted, also by a kill or a power cut, can go on where it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mulligan.engine.workspace import Workspace
from mulligan.errors import UserError
from mulligan.loop.conditions import as_text
from mulligan.loop.steps import PipelineConfig

_PLAIN = (str, int, float, type(None))


class PipelineProgress:
    """The progress of one pipeline in one workspace; pipelines are told apart by their names."""

    def __init__(self, workspace: Workspace, config: PipelineConfig) -> None:
        self._workspace = workspace
        self._steps = [step.name for step in config.steps]
        self._name = config.name
        self._key = f"pipeline:{config.name}"

    def keep(self, following: int, variables: Mapping[str, Any]) -> None:
        """Remembers which step is next (its index), and the variables as they are now."""
        plain = {name: value if isinstance(value, _PLAIN) else as_text(value) for name, value in variables.items()}
        record = {"steps": self._steps, "next": following, "variables": plain}
        self._workspace.update_note(self._key, lambda _: record)

    def recall(self) -> tuple[str, dict[str, Any]]:
        """Returns the step to go on with and the variables of the interrupted run; raises UserError without one."""
        found = self._workspace.note(self._key)
        if found is None:
            raise UserError(f"The pipeline {self._name!r} was not run here yet. Nothing was run.", hint="mulligan run")
        following: int = found["next"]
        if following >= len(found["steps"]):
            raise UserError(
                f"There is nothing to resume: the last run of {self._name!r} came to its end. Nothing was run.",
                hint="Run it again without --resume, or from a step on: --from-step STEP",
            )
        if self._steps[: following + 1] != found["steps"][: following + 1]:
            raise UserError(
                f"The steps of {self._name!r} up to {found['steps'][following]!r} changed since it was interrupted."
                " Nothing was run.",
                hint="Name the step to go on with: --from-step STEP",
            )
        return found["steps"][following], found["variables"]
