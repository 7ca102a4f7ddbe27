"""What a pipeline is made of, as values: its steps, their results."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

#: Statuses that are no failure. An agent may return others of its own.
FINE = frozenset({"success", "skipped", "dry_run"})


@dataclass
class PipelineStep:
    """One step: which agent, with which prompt, and what is done around it."""

    name: str
    agent: str = "build"
    prompt: str = ""
    model: str | None = None
    checkpoint: bool = False
    condition: str | None = None
    output_var: str | None = None
    checks: list[str] = field(default_factory=list)
    timeout: float | None = None


@dataclass
class PipelineConfig:
    """
    A pipeline: its steps in order, its variables, and the command lines of its agents, if it brings some.

    `remarks` are sentences about its file that stop nothing, such as a key that is not known.
    """

    name: str
    steps: list[PipelineStep]
    variables: dict[str, Any] = field(default_factory=dict)
    agents: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


@dataclass
class PipelineStepResult:
    """
    The result of a step.

    `status` is success, partial, failed, skipped, dry_run, or whatever the agent returned. `before` and `checkpoint` are
    the ids of the checkpoints before and after it, `commit` is the commit that was made of it; None where there is none.
    """

    step_name: str
    status: str
    cost: float = 0.0
    duration: float = 0.0
    checks_passed: bool = True
    error: str | None = None
    output: str = ""
    checks: list[dict[str, Any]] = field(default_factory=list)
    before: str | None = None
    checkpoint: str | None = None
    commit: str | None = None

    @property
    def ok(self) -> bool:
        """Whether neither the step nor one of its checks failed."""
        return self.status in FINE and self.checks_passed

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {**asdict(self), "ok": self.ok}
