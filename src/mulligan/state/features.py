"""
The feature list of an agent's project: which features pass, which one is next.

Reads `feature_list.json` in the shapes that are in use: a list of features with or without ids, and an object with such a
list under `features`. Nothing in such a file can make reading fail: what cannot be understood counts for nothing.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

FEATURE_LIST_FILE = "feature_list.json"
_DONE = frozenset({"completed", "complete", "done", "passed", "passing"})


class Features(NamedTuple):
    """The summary of a feature list: the first that fails, those that pass, and the total."""

    current: str | None = None
    completed: tuple[str, ...] = ()
    total: int = 0


def read_features(data: bytes | None) -> Features:
    """Returns what a feature list says; nothing at all where there is none, or none that can be read."""
    entries = _entries(data)
    completed = tuple(name for name, passes in entries if passes)
    current = next((name for name, passes in entries if not passes), None)
    return Features(current, completed, len(entries))


def _entries(data: bytes | None) -> list[tuple[str, bool]]:
    try:
        document = json.loads(data) if data else None
    except (ValueError, RecursionError):
        return []
    listed = document.get("features") if isinstance(document, dict) else document
    if not isinstance(listed, list):
        return []
    return [(_name(entry, at), _passes(entry)) for at, entry in enumerate(listed, 1) if isinstance(entry, dict)]


def _name(entry: dict[str, Any], at: int) -> str:
    """Returns the id of a feature; of one without, its description; of one without either, its place."""
    for key in ("id", "description"):
        value = entry.get(key)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return f"feature-{at}"


def _passes(entry: dict[str, Any]) -> bool:
    if "passes" in entry:
        return entry["passes"] is True
    return entry.get("status") in _DONE if isinstance(entry.get("status"), str) else False
