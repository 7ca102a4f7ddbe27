"""
What may be forgotten.

Pure: which checkpoints the rules let go, given the kinds and what is pinned. `manual` and `feature` are never named here;
only an explicit delete removes them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from mulligan.model.policy import Retention
from mulligan.timeline.commits import Entry

# For the disk budget, what goes first.
EVICTION_ORDER = ("step", "automatic", "session", "safety")
_DAY_NS = 86_400_000_000_000
# A safety checkpoint may hold the only copy of what a restore replaced: for so long its number alone does not remove it.
_SAFE_NS = 7 * _DAY_NS


class CheckpointAge(NamedTuple):
    """A checkpoint, when it was made and whether it is held: all that retention by kind asks, with every single save."""

    id: str
    created_ns: int
    held: bool = False


def expired_checkpoints(
    entries: Sequence[CheckpointAge], kind: str, retention: Retention, *, now_ns: int, pinned: Collection[str]
) -> list[CheckpointAge]:
    """Returns which of one kind (newest first) are over their count or age."""
    limit = retention.limit(kind)
    if limit is None:
        return []
    # Held ones do not count either: a client that may only add must not push out others by adding many.
    entries = [entry for entry in entries if not entry.held]
    over = list(entries[limit:])
    if kind == "step":
        # A clock that jumped ahead must not empty the history: half of the count stays whatever its age.
        aged = [e for e in entries[limit // 2 : limit] if now_ns - e.created_ns > retention.step_days * _DAY_NS]
        over = aged + over
    if kind == "safety":
        over = [entry for entry in over if now_ns - entry.created_ns > _SAFE_NS]
    return [entry for entry in over if entry.id not in pinned]


def is_fresh_safety(entry: Entry, now_ns: int) -> bool:
    """Returns whether only the budget may remove this one: it may hold the only copy of what a restore replaced."""
    return entry.checkpoint.kind == "safety" and now_ns - entry.created_ns <= _SAFE_NS


def eviction_order(entries: Sequence[Entry], *, pinned: Collection[str]) -> list[Entry]:
    """Returns what the budget may evict, first to go first (entries come oldest first)."""
    free = [entry for entry in entries if entry.id not in pinned and not entry.held]
    return [entry for kind in EVICTION_ORDER for entry in free if entry.checkpoint.kind == kind]
