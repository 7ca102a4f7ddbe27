"""The maker of a checkpoint: a dialect, an agent with hooks, or a person with `mulligan save`."""

from __future__ import annotations

from mulligan.model.cause import CAUSE
from mulligan.model.checkpoint import Checkpoint


def maker(checkpoint: Checkpoint) -> str:
    """Returns the name of the dialect or agent that a checkpoint comes from, else `mulligan`."""
    cause = checkpoint.metadata.get(CAUSE)
    agent = cause.get("agent") if isinstance(cause, dict) else ""
    return str(checkpoint.metadata.get("dialect") or agent or "mulligan")


def words_for(checkpoint: Checkpoint) -> str:
    """Returns the name of a checkpoint, else the first line of its description, else its kind."""
    return checkpoint.name or checkpoint.description.partition("\n")[0] or checkpoint.kind
