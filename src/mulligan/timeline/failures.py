"""
What a hook could not do, remembered outside the store.

An agent is never stopped because protection failed, so the failure must be seen elsewhere: in the agent's own channel, and here,
where `mulligan status` looks. The store may be the very thing that failed, so this is a file of its own beside the stores;
one line per failure, bounded. `mulligan doctor` tells of them and begins anew.
"""

from __future__ import annotations

import json
import os
from typing import Any

from mulligan.model.policy import Settings
from mulligan.safefs.userfile import append_private_line, read_user_file, remove_user_file

LIMIT = 64 * 1024


def _place(settings: Settings) -> tuple[str, str]:
    name = os.path.basename(settings.store.rstrip("/"))
    return os.path.join(os.path.dirname(settings.stores), "hooks"), f"{name}.jsonl"


def remember(settings: Settings, *, at: str, agent: str, event: str, why: str) -> None:
    """Adds a failure; raises OSError where not even that can be written."""
    line = json.dumps({"at": at, "agent": agent, "event": event, "why": why[:500]}) + "\n"
    append_private_line(*_place(settings), line.encode("ascii"), limit=LIMIT)


def failures(settings: Settings) -> list[dict[str, Any]]:
    """Returns the failures since the last `forget`, oldest first."""
    try:
        data = read_user_file(os.path.join(*_place(settings)), limit=2 * LIMIT) or b""
    except OSError:
        return []  # it is a courtesy: what cannot be read must not keep `status` from answering
    found = []
    for line in data.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # two hooks wrote while a third cut the file
        if isinstance(row, dict):
            found.append(row)
    return found


def forget(settings: Settings) -> None:
    """Begins anew."""
    remove_user_file(os.path.join(*_place(settings)))
