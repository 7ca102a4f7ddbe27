"""
The timeline as the page shows it: what was asked, what was done for it, and the checkpoints beside.

An entry is one prompt with its tool calls, or one checkpoint that belongs to no prompt. Entries come newest first and are read
again when something happened; each remembers at which version it last changed, so that a page that was away gets what it missed.
"""

from __future__ import annotations

import secrets
import time
from threading import Lock
from typing import TYPE_CHECKING, Any

from mulligan.errors import MulliganError

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.model.checkpoint import Checkpoint
    from mulligan.timeline.story import Chapter

Entry = dict[str, Any]
PAGE, LARGEST_PAGE = 200, 2000
#: Checkpoints whose lines one request may ask for, and files above which lines are not counted.
COUNTED, _LARGE = 40, 500
#: So many checkpoints and prompts are read when something was added; and seconds after which all are read again.
RECENT, _RECENT_PROMPTS, _WHOLE_AGAIN = 50, 12, 60.0
_PATHS = 50
_TEXT = 4000


class Timeline:
    """The entries of one workspace, cached, with the version at which each last changed."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._reading = Reading(workspace)
        self._epoch = secrets.token_hex(4)
        self._lock = Lock()
        self._seen: object = None
        self._version = 0
        self._entries: list[Entry] = []
        self._changed: dict[str, tuple[Entry, int]] = {}
        self._removed: dict[str, int] = {}
        self._place: dict[str, Any] = {"position": None}
        self._counts: dict[str, dict[str, int] | None] = {}

    def refresh(self) -> str:
        """Reads what happened since the last call; returns the id of the newest state."""
        with self._lock:
            seen = self._look()
            if seen != self._seen:
                self._take(self._reading.entries(), self._workspace.position())
                self._seen = seen
            return f"{self._epoch}.{self._version}"

    def _look(self) -> object:
        """Returns what differs whenever anything was added; cheap, for it is asked several times a second."""
        newest, events = self._workspace.log(limit=1), self._workspace.agent_events(limit=1)
        return (
            newest[0].id if newest else None,
            events[0].seq if events else None,
            self._workspace.position(),
        )

    def _take(self, entries: list[Entry], position: str | None) -> None:
        self._version += 1
        changed: dict[str, tuple[Entry, int]] = {}
        for entry in entries:
            before = self._changed.get(entry["key"])
            changed[entry["key"]] = before if before and before[0] == entry else (entry, self._version)
        self._removed |= dict.fromkeys(self._changed.keys() - changed.keys(), self._version)
        self._entries, self._changed = entries, changed
        self._place = {"position": position}

    def page(self, before: str | None, limit: int) -> dict[str, Any]:
        """Returns entries older than the one with a key, newest first, and the key to go on with."""
        version = self.refresh()
        with self._lock:
            entries = self._entries
            start = next((at + 1 for at, each in enumerate(entries) if each["key"] == before), 0) if before else 0
            part = entries[start : start + limit]
            more = start + limit < len(entries)
            return {
                "entries": part,
                "next": part[-1]["key"] if more and part else None,
                "total": len(entries),
                "version": version,
                **self._place,
            }

    def since(self, version: str) -> dict[str, Any] | None:
        """Returns the entries that changed after a version, None where that version is not known any more."""
        epoch, _, number = version.partition(".")
        with self._lock:
            if epoch != self._epoch or not number.isdigit() or int(number) > self._version:
                return None
            fresh = [each for each in self._entries if self._changed[each["key"]][1] > int(number)]
            return {
                "entries": fresh,
                "removed": [key for key, gone in self._removed.items() if gone > int(number)],
                "total": len(self._entries),
                "version": f"{self._epoch}.{self._version}",
                **self._place,
            }

    def counts(self, checkpoints: list[str]) -> dict[str, dict[str, int] | None]:
        """Returns the lines that each checkpoint added and removed, None where that is not counted."""
        for each in checkpoints:
            if each not in self._counts:
                self._counts[each] = self._count(each)
        return {each: self._counts[each] for each in checkpoints}

    def _count(self, checkpoint: str) -> dict[str, int] | None:
        try:
            found = self._workspace.get(checkpoint)
            if found.parent is None or found.first_changed(1)[1] > _LARGE:
                return None
            stats = self._workspace.diff(found.parent, found).stat
        except MulliganError:
            return None  # it expired, or a file of it cannot be read; asking for its difference says which
        return {
            "additions": sum(each.additions for each in stats),
            "deletions": sum(each.deletions for each in stats),
        }


class Reading:
    """
    Reads the entries of a workspace; after the first time, only what was added, so that it costs little in a long history.

    An undo or a restore changes older entries, and retention removes some: everything is read again then, and
    once a minute.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._saved: dict[str, Checkpoint] = {}
        self._prompts: dict[str, Entry] = {}
        self._loose: dict[str, Entry] = {}
        self._whole = 0.0

    def entries(self) -> list[Entry]:
        """Returns all entries, newest first."""
        saved, told = self._added() or self._all()
        self._saved |= {each.id: each for each in saved}
        fresh = [_prompt(each.to_dict(), self._saved) for each in told]
        self._prompts = {key: {**each, "here": ""} if each["here"] else each for key, each in self._prompts.items()}
        self._prompts |= {each["key"]: each for each in fresh}
        in_prompts = {each["checkpoint"] for prompt in self._prompts.values() for each in prompt["happened"]}
        self._loose |= {each.id: _checkpoint(each) for each in saved if each.id not in self._loose}
        loose = [each for key, each in self._loose.items() if key not in in_prompts]
        return sorted([*self._prompts.values(), *loose], key=lambda entry: entry["at"], reverse=True)

    def _added(self) -> tuple[list[Checkpoint], list[Chapter]] | None:
        """Returns what is new and the newest prompts, None where all has to be read."""
        if time.monotonic() - self._whole > _WHOLE_AGAIN:
            return None
        recent = self._workspace.log(limit=RECENT)
        if not recent or recent[0].id != self._workspace.position() or recent[-1].id not in self._saved:
            return None
        return [each for each in recent if each.id not in self._saved], self._workspace.story(limit=_RECENT_PROMPTS)

    def _all(self) -> tuple[list[Checkpoint], list[Chapter]]:
        self._saved, self._prompts, self._loose = {}, {}, {}
        self._whole = time.monotonic()
        return self._workspace.log(), self._workspace.story()


def entries_of(workspace: Workspace) -> list[Entry]:
    """Returns all entries of a workspace, newest first."""
    return Reading(workspace).entries()


def _prompt(chapter: dict[str, Any], known: dict[str, Checkpoint]) -> Entry:
    happened = [_happening(each, known) for each in chapter.pop("happened")]
    return {
        **chapter,
        "key": f"p:{chapter['session']}:{chapter['prompt']}",
        "type": "prompt",
        "text": chapter["text"][:_TEXT],
        "happened": happened,
    }


def _happening(each: dict[str, Any], known: dict[str, Checkpoint]) -> Entry:
    checkpoint = known.get(each["checkpoint"])
    return {
        **each,
        "text": each["text"][:_TEXT],
        "changed": each["changed"][:_PATHS],
        "files": len(each["changed"]),
        **_kept(checkpoint, each["checkpoint"]),
    }


def _kept(checkpoint: Checkpoint | None, wanted: str) -> Entry:
    """Returns what a row says about its checkpoint; one that retention removed is `expired`."""
    if checkpoint is None:
        return {"parent": None, "complete": True, "missed": 0, "expired": bool(wanted)}
    return {
        "parent": checkpoint.parent,
        "complete": checkpoint.complete,
        "missed": 0 if checkpoint.complete else _missed(checkpoint),
        "expired": False,
    }


def _missed(checkpoint: Checkpoint) -> int:
    try:
        return len(checkpoint.not_captured)
    except MulliganError:
        return 0  # `mulligan check` says what is damaged; the timeline is shown all the same


def _checkpoint(checkpoint: Checkpoint) -> Entry:
    first, files = checkpoint.first_changed(_PATHS)
    return {
        "key": f"c:{checkpoint.id}",
        "type": "checkpoint",
        "at": checkpoint.created_at.isoformat(),
        "checkpoint": checkpoint.id,
        "name": checkpoint.name[:_TEXT],
        "text": checkpoint.description[:_TEXT],
        "kind": checkpoint.kind,
        "changed": list(first),
        "files": files,
        **_kept(checkpoint, checkpoint.id),
    }
