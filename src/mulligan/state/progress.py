"""
The progress file of an agent's project, as far as anything in it can be relied on: the numbers of its sessions.

`claude-progress.txt` is free text; agents that number their sessions head each with `## Session <n>`.
"""

from __future__ import annotations

import re

PROGRESS_FILE = "claude-progress.txt"
_SESSION = re.compile(rb"^##[ \t]+Session[ \t]+#?(\d{1,9})\b", re.MULTILINE | re.IGNORECASE)


def last_session(data: bytes | None) -> int:
    """Returns the highest session number that a progress file mentions in a heading, 0 where there is none."""
    return max((int(number) for number in _SESSION.findall(data or b"")), default=0)
