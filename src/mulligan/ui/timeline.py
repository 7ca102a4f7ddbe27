"""
The timeline as the page shows it: what was asked, what was done for it, and the checkpoints beside.

An entry is one prompt with its tool calls, or one checkpoint that belongs to no prompt. Entries come newest first. When something
happened, only what is new is read and taken over; each entry remembers when it last changed, so that a page that was away gets
what it missed.
"""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from threading import Lock
from typing import TYPE_CHECKING, Any

from mulligan import engine
from mulligan.errors import MulliganError
from mulligan.history.news import parse_rows
from mulligan.model.checkpoint import LASTING_KINDS
from mulligan.timeline.commits import HELD

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.history.news import News, TimelineRows
    from mulligan.model.checkpoint import Checkpoint
    from mulligan.model.event import Turn
    from mulligan.timeline.story import Chapter

Entry = dict[str, Any]
PAGE, LARGEST_PAGE = 200, 2000
#: Checkpoints whose lines one request may ask for, and files above which lines are not counted.
COUNTED, _LARGE = 40, 500
#: Seconds after which everything is read again when something is new: the timeline drops its oldest events by and by.
_WHOLE_AGAIN = 600.0
#: States of which this server knows what changed since; a page that saw an older one is answered by rows.
_REMEMBERED = 1000
_PATHS = 50
_TEXT = 4000


class Timeline:
    """The entries of one workspace, cached, with the order in which they changed."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = Lock()
        self._seen: object = None
        self._entries = Entries()
        self._read_at = 0.0
        self._counts: dict[str, dict[str, int] | None] = {}

    def refresh(self) -> str:
        """Reads what happened since the last call; returns the id of the newest state."""
        with self._lock:
            seen = engine.agents.newest_rows(self._workspace.bench)
            if seen != self._seen:
                again = time.monotonic() - self._read_at > _WHOLE_AGAIN
                news = engine.agents.news(
                    self._workspace.bench, None if again else self._entries.rows, self._entries.parents
                )
                self._entries.take(news)
                self._seen = seen
                if news.whole:
                    self._read_at = time.monotonic()
            return self._entries.version

    def page(self, before: str | None, limit: int) -> dict[str, Any]:
        """Returns entries older than the one with a key, newest first, and the key to go on with."""
        version = self.refresh()
        with self._lock:
            part, more = self._entries.part(before, limit)
            following = part[-1]["key"] if more and part else None
            return {"entries": part, "next": following, "version": version, **self._entries.about()}

    def since(self, version: str) -> dict[str, Any] | None:
        """Returns the entries that changed after a version; None where the page has to load anew."""
        with self._lock:
            found = self._entries.since(version)
            rows = None if found is not None else parse_rows(version)
            if rows is not None:
                found = self._after(rows)
            if found is None:
                return None
            fresh, removed = found
            about = self._entries.about()
            return {"entries": fresh, "removed": removed, "version": self._entries.version, **about}

    def _after(self, rows: TimelineRows) -> tuple[list[Entry], list[str]] | None:
        """Returns the entries that came after rows that another server named; None where more changed than that."""
        news = engine.agents.news(self._workspace.bench, rows)
        if not news.only_adds_to(rows):
            return None
        return self._entries.of(news), []

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


class Entries:
    """The entries that were read, by time and by when each changed; `take` adds what is new."""

    def __init__(self) -> None:
        self.rows: TimelineRows | None = None
        self.version = ""
        self._number = 0
        self._numbers: dict[str, int] = {}
        self._position: str | None = None
        self._here: str | None = None
        self._undone: frozenset[Turn] = frozenset()
        self._by_key: dict[str, Entry] = {}
        self._order: list[tuple[str, str]] = []
        #: The version at which each entry changed or went, the last one last.
        self._changed: dict[str, int] = {}
        self._removed: dict[str, int] = {}
        #: What entries say about checkpoints, and the prompt that each belongs to.
        self._kept: dict[str, Entry] = {}
        #: The parent of each checkpoint that was read.
        self.parents: dict[str, str | None] = {}
        self._prompt_of: dict[str, str] = {}

    def about(self) -> dict[str, Any]:
        """Returns what a page says beside its entries."""
        return {"total": len(self._order), "position": self._position, "here": self._here}

    def part(self, before: str | None, limit: int) -> tuple[list[Entry], bool]:
        """Returns some entries, newest first, and whether there are older ones."""
        last = self._by_key.get(before) if before else None
        end = bisect_left(self._order, (last["at"], last["key"])) if last is not None else len(self._order)
        start = max(end - limit, 0)
        return [self._by_key[key] for _, key in reversed(self._order[start:end])], start > 0

    def all(self) -> list[Entry]:
        """Returns every entry, newest first."""
        return [self._by_key[key] for _, key in reversed(self._order)]

    def since(self, version: str) -> tuple[list[Entry], list[str]] | None:
        """Returns what changed, newest first, and the keys that went after a version, None for one that is not known."""
        number = self._numbers.get(version)
        if number is None:
            return None
        keys = _newer(self._changed, number)
        fresh = sorted((self._by_key[key] for key in keys), key=lambda each: (each["at"], each["key"]), reverse=True)
        return fresh, _newer(self._removed, number)

    def of(self, news: News) -> list[Entry]:
        """Returns the entries that news are about, as they are now."""
        keys = [_key(each.session, each.prompt) for each in news.told] + [f"c:{each.id}" for each in news.saved]
        found = [self._by_key[key] for key in keys if key in self._by_key]
        return sorted(found, key=lambda each: (each["at"], each["key"]), reverse=True)

    def take(self, news: News) -> None:
        """Takes over what is new."""
        self._number += 1
        before = dict(self._by_key) if news.whole else {}
        if news.whole:
            self._kept, self.parents, self._prompt_of, self._undone = {}, {}, {}, news.undone
        for checkpoint in news.saved:
            self._kept[checkpoint.id] = _kept(checkpoint)
            self.parents[checkpoint.id] = checkpoint.parent
        for removed in news.removed:
            del self._kept[removed], self.parents[removed]
            self._prompt_of.pop(removed, None)
        told = [_prompt(chapter, self._kept) for chapter in news.told]
        for entry in told:
            self._prompt_of |= {each["checkpoint"]: entry["key"] for each in entry["happened"] if each["checkpoint"]}
        loose = [_checkpoint(each) for each in news.saved if each.id not in self._prompt_of]
        for entry in (*told, *loose):
            before.pop(entry["key"], None)
            self._put(entry)
        # A checkpoint may be read before the event that it was made for.
        stale = [f"c:{each['checkpoint']}" for entry in told for each in entry["happened"] if each["checkpoint"]]
        for key in (*before, *stale, *(f"c:{each}" for each in news.removed)):
            self._drop(key)
        for turn in news.undone ^ self._undone:
            self._update(_key(*turn), undone=turn in news.undone)
        self._undone, self._position = news.undone, news.position
        self._here = _key(*news.here) if news.here is not None else None
        self.rows, self.version = news.rows, str(news.rows)
        self._numbers.pop(self.version, None)
        self._numbers[self.version] = self._number
        if len(self._numbers) > _REMEMBERED:
            del self._numbers[next(iter(self._numbers))]

    def _update(self, key: str, **values: Any) -> None:
        if key in self._by_key:
            self._put({**self._by_key[key], **values})

    def _put(self, entry: Entry) -> None:
        key = entry["key"]
        before = self._by_key.get(key)
        if before == entry:
            return
        if before is None or before["at"] != entry["at"]:
            if before is not None:
                self._unlist(before)
            insort(self._order, (entry["at"], key))
        self._by_key[key] = entry
        self._removed.pop(key, None)
        self._changed.pop(key, None)
        self._changed[key] = self._number

    def _drop(self, key: str) -> None:
        if (entry := self._by_key.pop(key, None)) is not None:
            self._unlist(entry)
            del self._changed[key]
            self._removed[key] = self._number

    def _unlist(self, entry: Entry) -> None:
        del self._order[bisect_left(self._order, (entry["at"], entry["key"]))]


def _newer(numbers: dict[str, int], number: int) -> list[str]:
    """Returns the keys with a higher number, of a dictionary whose last keys have the highest."""
    found = []
    for key in reversed(numbers):
        if numbers[key] <= number:
            break
        found.append(key)
    return found


def _key(session: str, prompt: int) -> str:
    return f"p:{session}:{prompt}"


def entries_of(workspace: Workspace) -> list[Entry]:
    """Returns all entries of a workspace, newest first."""
    entries = Entries()
    entries.take(engine.agents.news(workspace.bench))
    return entries.all()


def _prompt(chapter: Chapter, known: dict[str, Entry]) -> Entry:
    told = {name: value for name, value in chapter.to_dict().items() if name != "here"}
    return {
        **told,
        "key": _key(chapter.session, chapter.prompt),
        "type": "prompt",
        "text": chapter.text[:_TEXT],
        "happened": [_with_kept(_happening(each), known) for each in told["happened"]],
    }


def _happening(each: Entry) -> Entry:
    return {
        **each,
        "text": each["text"][:_TEXT],
        "changed": each["changed"][:_PATHS],
        "files": len(each["changed"]),
    }


def _with_kept(each: Entry, known: dict[str, Entry]) -> Entry:
    """Returns a row of a prompt with what is known of its checkpoint; one that was removed is `expired`."""
    gone = {"parent": None, "complete": True, "missed": 0, "expired": bool(each["checkpoint"]), "pinned": False}
    return {**each, **known.get(each["checkpoint"], gone)}


def _kept(checkpoint: Checkpoint) -> Entry:
    """Returns what a row says about its checkpoint."""
    return {
        "parent": checkpoint.parent,
        "complete": checkpoint.complete,
        "missed": 0 if checkpoint.complete else _missed(checkpoint),
        "expired": False,
        "pinned": checkpoint.kind in LASTING_KINDS or checkpoint.metadata.get(HELD) is True,
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
        **_kept(checkpoint),
    }
