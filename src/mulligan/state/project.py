"""
What an agent's project says about itself: its feature list, its progress file, the tokens of its conversation.

Nothing in these files can make reading fail: what cannot be understood counts for nothing.
"""

from __future__ import annotations

import json
import re
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


PROGRESS_FILE = "claude-progress.txt"
_SESSION = re.compile(rb"^##[ \t]+Session[ \t]+#?(\d{1,9})\b", re.MULTILINE | re.IGNORECASE)


def last_session(data: bytes | None) -> int:
    """Returns the highest session number that a progress file mentions in a heading, 0 where there is none."""
    return max((int(number) for number in _SESSION.findall(data or b"")), default=0)


_PARTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def tokens_of(end: bytes) -> int:
    """Returns the tokens that the newest answer in these lines reports (Claude Code's or Codex's form), else 0."""
    for line in reversed(end.splitlines()):
        if b"tokens" not in line:
            continue
        try:
            found = _reported(json.loads(line))
        except (ValueError, RecursionError):
            continue  # the first line of the part may be cut
        if found:
            return found
    return 0


def _reported(entry: Any) -> int:
    usage = _inside(entry, "message", "usage")
    if isinstance(usage, dict):
        return sum(value for part in _PARTS if isinstance(value := usage.get(part), int))
    total = _inside(entry, "payload", "info", "total_token_usage", "total_tokens")
    return total if isinstance(total, int) else 0


def _inside(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
