"""How many tokens a conversation takes, read from the end of an agent's transcript."""

from __future__ import annotations

import json
from typing import Any

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
