"""
Permissions that a user grants while a tool call waits for them.

Claude Code asks between the two events of a tool call, and writes the answer "yes, and do not ask again" into its settings. That
change is found when the call ends and must not count as the work of the agent. It is told by its content: nothing was changed
but rules that allow or forbid this very call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from mulligan.model.agentfiles import AGENT_SETTINGS
from mulligan.model.deed import ENDED, Deed
from mulligan.model.objects import BLOB
from mulligan.safefs.userfile import read_work_file
from mulligan.timeline.commits import Entry
from mulligan.timeline.sources import Look

_LISTS = ("allow", "ask", "deny")
_RULE = r"([^()]+)(?:\((.*)\))?\Z"


def granted(root: str, deed: Deed, base: Entry | None, look: Look) -> Iterator[str]:
    """Yields the settings files that changed during a tool call only by rules about that call."""
    if deed.kind not in ENDED or base is None:
        return
    for text in AGENT_SETTINGS:
        path = text.encode()
        now = look.scan.entry(path)
        then = look.source.lookup(base.files_tree, path) if now is not None else None
        if now is None or (then is not None and then.oid == now[1]) or path.rpartition(b"/")[2].decode() in deed.text:
            continue
        with suppress(OSError, ValueError, RecursionError):
            old = json.loads(look.source.read(then.oid, BLOB)) if then is not None else {}
            if _is_grant(deed, old, json.loads(read_work_file(root, path))):
                yield text


def _is_grant(deed: Deed, old: Any, new: Any) -> bool:
    before, after = (_rules(document) for document in (old, new))
    if before is None or after is None or _rest(old) != _rest(new):
        return False
    added = [rule for name in _LISTS for rule in after[name] if rule not in before[name]]
    removed = [rule for name in _LISTS for rule in before[name] if rule not in after[name]]
    return bool(added) and not removed and all(_is_about(deed, rule) for rule in added)


def _rules(document: Any) -> dict[str, list[Any]] | None:
    permissions = document.get("permissions", {}) if isinstance(document, dict) else None
    if not isinstance(permissions, dict):
        return None
    found = {name: permissions.get(name, []) for name in _LISTS}
    return found if all(isinstance(each, list) for each in found.values()) else None


def _rest(document: dict[str, Any]) -> dict[str, Any]:
    """Returns settings without the rules."""
    others = {key: value for key, value in document.get("permissions", {}).items() if key not in _LISTS}
    return {**{key: value for key, value in document.items() if key != "permissions"}, "permissions": others}


def _is_about(deed: Deed, rule: Any) -> bool:
    found = re.match(_RULE, rule) if isinstance(rule, str) else None
    if found is None or found[1] != deed.tool:
        return False
    wanted = re.sub(r":?\s*\*+\Z", "", found[2] or "").strip()
    return bool(wanted) and wanted in deed.text if found[2] else True
