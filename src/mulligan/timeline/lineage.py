"""The way through the tree of checkpoints from one state to another."""

from __future__ import annotations

from mulligan.timeline.checkpoints import Checkpoints
from mulligan.timeline.commits import Entry


def trail(checkpoints: Checkpoints, target: Entry) -> list[Entry]:
    """Returns the states from the last one that a checkpoint and the position have in common up to the position."""
    known = {entry.id for entry in _upwards(checkpoints, target)}
    here = checkpoints.current()
    found: list[Entry] = []
    for entry in _upwards(checkpoints, here) if here is not None else ():
        found.append(entry)
        if entry.id in known:
            return found[::-1]
    # They have nothing in common any more: all that is newer than the target counts as made since.
    return [target, *(entry for entry in reversed(found) if entry.created_ns > target.created_ns)]


def _upwards(checkpoints: Checkpoints, entry: Entry) -> list[Entry]:
    found, seen = [entry], {entry.id}
    while (parent := checkpoints.by_id(found[-1].checkpoint.parent or "")) is not None and parent.id not in seen:
        found.append(parent)
        seen.add(parent.id)
    return found
