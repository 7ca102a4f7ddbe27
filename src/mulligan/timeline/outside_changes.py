"""
Changes that are found with an agent's event and are not its work.

A rewind: a client put files back by itself, to where they stood before one of its prompts. Claude Code's `/rewind` has no event,
and its transcript shows the fork only after the next prompt was sent. The files show it at once: everything that changed since
the last event stands as it did when an earlier prompt was sent. Edits reverted by hand leave the same picture, and mean the same.
A grant: Claude Code asks between the two events of a tool call, and writes the answer "yes, and do not ask again" into its
settings. It is recognised by its content: nothing was changed but rules that allow or forbid this very call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.model.cause import CAUSE
from mulligan.model.checkpoint import Checkpoint
from mulligan.model.event import (
    ENDED,
    PROMPT,
    AgentEvent,
    RecordedEvent,
    Turn,
)
from mulligan.model.objects import BLOB
from mulligan.model.plan import AGENT_SETTINGS
from mulligan.safefs.workfile import read_work_file
from mulligan.timeline.commits import Entry
from mulligan.timeline.trees import WorkspaceView, changes_since, same_state
from mulligan.timeline.undo import UndoMark

if TYPE_CHECKING:
    from mulligan.timeline.store import Store

#: So many prompts are looked back, and with more changes than this nothing is compared: a prompt must not wait for it.
_PROMPTS = 50
_CHANGES = 5_000
_REWOUND = "rewound"


class Rewind(NamedTuple):
    """
    Where files went back to: a prompt, and the checkpoint that holds the workspace of that moment.

    `turns` are those that nothing is left of; none where a shell command left something that the client did not put back.
    """

    prompt: int
    checkpoint: str
    turns: tuple[Turn, ...] = ()

    def marks(self) -> list[UndoMark]:
        """Returns what the undo stack must know: which turns are undone, or else to which state some paths went back."""
        return [UndoMark(turn) for turn in self.turns] or [UndoMark(to=self.checkpoint)]

    def noted(self, metadata: dict[str, object]) -> dict[str, object]:
        """Returns a checkpoint's metadata with the prompt in its cause."""
        cause = metadata[CAUSE]
        return {**metadata, CAUSE: {**cause, _REWOUND: self.prompt}} if isinstance(cause, dict) else metadata


def rewind_of(checkpoint: Checkpoint) -> int:
    """Returns the prompt that a checkpoint was found rewound to, 0 for none."""
    cause = checkpoint.metadata.get(CAUSE)
    return int(cause.get(_REWOUND, 0)) if isinstance(cause, dict) else 0


def find_rewind(store: Store, event: AgentEvent, look: WorkspaceView) -> Rewind | None:
    """Returns the newest prompt of a session to which everything went back that changed since its last event."""
    base = store.checkpoints.current()
    changes = changes_since(base, look.scan, look.source) if base is not None else []
    if not changes or len(changes) > _CHANGES:
        return None
    prompts = _prompts(store, event.session)
    for each in prompts:
        there = store.checkpoints.by_id(each.checkpoint)
        if there is not None and all(_stands(look, there, change.path, change.new) for change in changes):
            over = [Turn(event.session, one.prompt) for one in prompts if one.prompt >= each.prompt]
            return Rewind(each.prompt, there.id, tuple(over) if same_state(there, look.scan) else ())
    return None


def _prompts(store: Store, session: str) -> list[RecordedEvent]:
    found = [each for each in store.events.newest(1000, session) if each.event.kind == PROMPT and each.event.person]
    return found[:_PROMPTS]


def _stands(look: WorkspaceView, there: Entry, path: bytes, now: object) -> bool:
    return look.source.lookup(there.files_tree, path) == now


_LISTS = ("allow", "ask", "deny")
_RULE = r"([^()]+)(?:\((.*)\))?\Z"


def find_grants(root: str, event: AgentEvent, base: Entry | None, look: WorkspaceView) -> Iterator[str]:
    """Yields the settings files that changed during a tool call only by rules about that call."""
    if event.kind not in ENDED or base is None:
        return
    for text in AGENT_SETTINGS:
        path = text.encode()
        now = look.scan.entry(path)
        then = look.source.lookup(base.files_tree, path) if now is not None else None
        if now is None or (then is not None and then.oid == now[1]) or path.rpartition(b"/")[2].decode() in event.text:
            continue
        with suppress(OSError, ValueError, RecursionError):
            old = json.loads(look.source.read(then.oid, BLOB)) if then is not None else {}
            if _is_grant(event, old, json.loads(read_work_file(root, path))):
                yield text


def _is_grant(event: AgentEvent, old: Any, new: Any) -> bool:
    before, after = (_rules(document) for document in (old, new))
    if before is None or after is None or _rest(old) != _rest(new):
        return False
    added = [rule for name in _LISTS for rule in after[name] if rule not in before[name]]
    removed = [rule for name in _LISTS for rule in before[name] if rule not in after[name]]
    return bool(added) and not removed and all(_is_about(event, rule) for rule in added)


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


def _is_about(event: AgentEvent, rule: Any) -> bool:
    found = re.match(_RULE, rule) if isinstance(rule, str) else None
    if found is None or found[1] != event.tool:
        return False
    wanted = re.sub(r":?\s*\*+\Z", "", found[2] or "").strip()
    return bool(wanted) and wanted in event.text if found[2] else True
