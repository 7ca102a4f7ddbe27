"""
Where a text is: in prompts, commands, names, paths and contents; and when it appeared in a file or disappeared from one.

Contents of sealed secrets are never read. What is shown of a line has known shapes of secrets left out. The number of bytes
that are read is bounded; what was left out for that is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.diff.lines import is_binary
from mulligan.history.filters import Filters, context_of, keeps_entry, parse_filters
from mulligan.history.origins import AGENT, YOU, Origin, Origins
from mulligan.model.event import BEFORE, ENDED, PROMPT, RecordedEvent, Turn
from mulligan.model.objects import BLOB, EMPTY_TREE, MODE_DIR, MODE_LINK, Change
from mulligan.model.paths import to_text
from mulligan.scan.secrets import redact
from mulligan.timeline.trees import Trees

if TYPE_CHECKING:
    from mulligan.timeline.commits import Entry
    from mulligan.timeline.store import Store

#: A larger file is not searched; nor is more than this in all; and so many matches are enough.
LARGEST_FILE, MOST_READ, MOST_MATCHES = 4 << 20, 512 << 20, 1_000
_EXCERPT = 200

Progress = Callable[[int, int | None], None]


class Match(NamedTuple):
    """
    One place where the text is: a `prompt`, `command`, `checkpoint`, `path` or `content`; or a change of a file's content.

    A change says how often the text was there `before` and `after`: it `appeared` or `disappeared`.
    """

    kind: str
    text: str
    path: str = ""
    line: int = 0
    origin: Origin = Origin(YOU)
    before: int = 0
    after: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        where = {"path": self.path or None, "line": self.line or None}
        counts = {"before": self.before, "after": self.after} if self.before or self.after else {}
        return {"kind": self.kind, "text": self.text, **where, **counts, **self.origin.to_dict()}


class SearchResult(NamedTuple):
    """What was found; `left_out` says what was not searched, in words."""

    matches: tuple[Match, ...]
    left_out: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {"matches": [each.to_dict() for each in self.matches], "left_out": list(self.left_out)}


def search(
    store: Store, text: str, *, changes: bool, bounds: dict[str, Any], progress: Progress | None
) -> SearchResult:
    """Returns where a text is, or with `changes` when it came and went, newest first."""
    filters = parse_filters(**bounds) or Filters()
    wanted = _Search(store, text, filters, progress)
    matches: list[Match] = []
    for match in wanted.changes() if changes else wanted.everywhere():
        if len(matches) == MOST_MATCHES:
            wanted.left_out.append(f"more than {MOST_MATCHES:,} matches")
            break
        matches.append(match)
    return SearchResult(tuple(matches), tuple(wanted.told()))


class _Search:
    """One search, with what it may still read."""

    def __init__(self, store: Store, text: str, filters: Filters, progress: Progress | None) -> None:
        self._store, self._text, self._filters = store, text, filters
        self._progress = progress or (lambda _done, _total: None)
        self._has: Callable[[str], bool] = lambda said: text.casefold() in said.casefold()
        self._trees = Trees(store.objects)
        self._counts: dict[bytes, int] = {}
        self._may_read = MOST_READ
        self._skipped = 0
        self.left_out: list[str] = []

    def told(self) -> list[str]:
        """Returns what was not searched, in words."""
        skipped = f"{self._skipped:,} files that are too large or too many"
        return [*self.left_out, *([skipped] if self._skipped else [])]

    # -- words ------------------------------------------------------------------------------------

    def everywhere(self) -> Iterator[Match]:
        """Yields prompts, commands, checkpoints, paths and lines of the files as they were saved last."""
        events = self._store.events.newest()
        entries = self._store.checkpoints.newest()
        yield from self._said(events)
        known = context_of(events)
        kept = [entry for entry in entries if keeps_entry(self._filters, entry, known)]
        origins = Origins(events)
        yield from self._named(kept, origins)
        yield from self._paths(kept, origins)
        if self._filters.agent or self._filters.session or self._filters.since is not None:
            self.left_out.append("the contents of files, which belong to no agent and no time; -S finds their changes")
            return
        yield from self._contents()

    def _said(self, events: list[RecordedEvent]) -> Iterator[Match]:
        prompts = context_of(events).prompts
        seen: set[tuple[str, int]] = set()
        for each in events:
            event, turn = each.event, Turn(each.event.session, each.prompt)
            is_call = event.kind == BEFORE or event.kind in ENDED
            if not is_call and not (event.kind == PROMPT and event.person):
                continue
            if is_call and (event.session, each.number) in seen:
                continue
            known = self._filters.covers(each.created_ns) and self._filters.names((event.agent,), (event.session,))
            if not known or not self._has(f"{event.tool} {event.text}"):
                continue
            if is_call:
                seen.add((event.session, each.number))
            yield Match(
                "command" if is_call else "prompt",
                f"{event.tool}: {event.text}" if is_call else event.text,
                origin=Origin(
                    *(AGENT, each.checkpoint, each.created_at.isoformat(), event.agent, event.session, each.prompt),
                    *(prompts.get(turn, ""), each.number, event.tool, event.text if is_call else ""),
                ),
            )

    def _named(self, entries: list[Entry], origins: Origins) -> Iterator[Match]:
        for entry in entries:
            checkpoint = entry.checkpoint
            if checkpoint.kind != "step" and self._has(f"{checkpoint.name}\n{checkpoint.description}"):
                said = checkpoint.name or checkpoint.description
                yield Match("checkpoint", redact(said)[:_EXCERPT], origin=origins.of(entry, ""))

    def _paths(self, entries: list[Entry], origins: Origins) -> Iterator[Match]:
        """Yields each path that holds the text once, with the newest checkpoint that changed it."""
        seen: set[str] = set()
        for entry in entries:
            for path in entry.checkpoint.files_changed:
                if path not in seen and self._has(path):
                    seen.add(path)
                    yield Match("path", path, path, origin=origins.of(entry, path))

    # -- contents ---------------------------------------------------------------------------------

    def _contents(self) -> Iterator[Match]:
        until = self._filters.until
        entries = self._store.checkpoints.newest() if until is not None else []
        entry = next((each for each in entries if until is not None and each.created_ns <= until), None)
        entry = entry if until is not None else self._store.checkpoints.current()
        if entry is None:
            return
        needle = self._text.encode(errors="surrogateescape").lower()
        at = Origin(YOU, entry.id, entry.checkpoint.created_at.isoformat())._replace(by="")
        files = [(p, e) for p, e in self._trees.walk(entry.files_tree) if e.mode not in (MODE_DIR, MODE_LINK)]
        for number, (path, found) in enumerate(sorted(files)):
            self._progress(number, len(files))
            data = self._read(found.oid)
            if data is None or needle not in data.lower():
                continue
            for line, text in enumerate(data.split(b"\n"), 1):
                if needle in text.lower():
                    yield Match("content", _excerpt(text), to_text(path), line, at)

    def _read(self, oid: bytes) -> bytes | None:
        """Returns the bytes of a file to be searched, None for one that is too large, too much or binary."""
        size = self._store.objects.kind_and_size(oid)[1]
        if size > min(LARGEST_FILE, self._may_read):
            self._skipped += 1
            return None
        self._may_read -= size
        data = self._store.objects.read(oid, BLOB)
        return None if is_binary(data) else data

    # -- changes ----------------------------------------------------------------------------------

    def changes(self) -> Iterator[Match]:
        """Yields the steps in which the text came into a file or went from one, newest first."""
        entries = self._store.checkpoints.newest()
        by_id = {entry.id: entry for entry in entries}
        events = self._store.events.newest()
        known, origins = context_of(events), Origins(events)
        for number, entry in enumerate(entries):
            self._progress(number, len(entries))
            if not keeps_entry(self._filters, entry, known):
                continue
            parent = by_id.get(entry.checkpoint.parent or "")
            before = (
                entry.before.files if entry.before is not None else parent.files_tree if parent is not None else None
            )
            if before != entry.files_tree:
                yield from self._changed(entry, before or EMPTY_TREE, origins)

    def _changed(self, entry: Entry, before: bytes, origins: Origins) -> Iterator[Match]:
        changes = self._trees.changes(before, entry.files_tree)
        gone = {change.old.oid for change in changes if change.new is None and change.old is not None}
        made = {change.new.oid for change in changes if change.old is None and change.new is not None}
        for change in changes:
            moved = (change.old is None and change.new is not None and change.new.oid in gone) or (
                change.new is None and change.old is not None and change.old.oid in made
            )
            old, new = self._count(change, new=False), self._count(change, new=True)
            if old == new or moved:
                continue
            kept = change.new if new > old else change.old
            line, text = self._first(kept.oid) if kept is not None else (0, "")
            path = to_text(change.path)
            kind = "appeared" if new > old else "disappeared"
            yield Match(kind, text, path, line, origins.of(entry, path), old, new)

    def _count(self, change: Change, *, new: bool) -> int:
        found = change.new if new else change.old
        if found is None or found.mode in (MODE_DIR, MODE_LINK):
            return 0
        if found.oid not in self._counts:
            data = self._read(found.oid)
            self._counts[found.oid] = data.count(self._text.encode(errors="surrogateescape")) if data else 0
        return self._counts[found.oid]

    def _first(self, oid: bytes) -> tuple[int, str]:
        """Returns the first line that holds the text, or where the text begins."""
        data = self._store.objects.read(oid, BLOB)
        at = data.find(self._text.encode(errors="surrogateescape"))
        start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        return data.count(b"\n", 0, at) + 1, _excerpt(data[start : end if end >= 0 else len(data)])


def _excerpt(line: bytes) -> str:
    return redact(line.strip().decode(errors="surrogateescape"))[:_EXCERPT]
