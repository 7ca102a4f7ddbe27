"""
Pushing: what this machine's chain lacks becomes segments, and the storage takes them.

The difference between the timeline and what was pushed decides: checkpoints that came, whose commit was rewritten, that are
gone. So deleting, retention and forgetting need not know of remotes. The store is not held while anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, NamedTuple

from mulligan.errors import RemoteDamaged, RemoteFailed
from mulligan.model.event import RecordedEvent
from mulligan.model.paths import parse_path
from mulligan.remotes.chain import Diverged
from mulligan.remotes.events import new_events
from mulligan.remotes.protocol import LARGEST_SEGMENT, MOST_CHECKPOINTS, Forgotten, Segment, Told
from mulligan.remotes.records import ChainMark, LastPush, RemoteRecords
from mulligan.remotes.rows import row_of, size_of
from mulligan.remotes.storage import Storage
from mulligan.remotes.words import Incomplete
from mulligan.timeline.commits import Entry
from mulligan.timeline.store import Store

Writing = Callable[[str], AbstractContextManager[Store]]


class Pushed(NamedTuple):
    """What a push did: checkpoints sent, deletions and agents' events told, and those held back with the path that another machine forgot."""

    remote: str
    checkpoints: int = 0
    gone: int = 0
    segments: int = 0
    held_back: tuple[tuple[str, str], ...] = ()
    renamed: str = ""
    bytes: int = 0
    events: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "remote": self.remote,
            "pushed": self.checkpoints,
            "gone": self.gone,
            "events": self.events,
            "bytes": self.bytes,
            "held_back": [{"checkpoint": name, "path": path} for name, path in self.held_back],
        }


class Difference(NamedTuple):
    """What the chain of this machine lacks."""

    fresh: list[Entry]
    gone: list[str]
    forgets: tuple[Forgotten, ...]
    events: tuple[RecordedEvent, ...]
    told: int
    held_back: list[tuple[str, str]]

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to send."""
        return not (self.fresh or self.gone or self.forgets or self.events)


def difference(store: Store, remote: str, *, full: bool = False) -> Difference:
    """Compares the timeline with what a remote holds."""
    records = RemoteRecords(store)
    held, mark = records.pushed(remote), records.marks(remote).get(records.machine(), ChainMark())
    mine = store.checkpoints.oldest()
    pending = [note for note in records.forgotten() if not note.applied]
    held_back = [(entry.id, path) for entry in mine if pending and (path := _holds_one(store, entry, pending))]
    kept = {name for name, _ in held_back}
    fresh = [e for e in mine if e.id not in kept and (full or held.get(e.id) != e.checkpoint.commit)]
    there = {entry.id for entry in mine}
    known = set() if full else set(mark.applied)  # a full segment stands for those before it, also for what they forgot
    own = records.machine()
    forgets = tuple(note.what for note in records.forgotten() if note.machine == own and note.what.id not in known)
    told, events = new_events(store, 0 if full else records.told_until(remote))
    return Difference(
        fresh, [name for name in held if name not in there or name in kept], forgets, events, told, held_back
    )


def _holds_one(store: Store, entry: Entry, pending: list[Any]) -> str:
    from mulligan.doctor.forget import holds

    return next((note.what.path for note in pending if holds(store.objects, entry, parse_path(note.what.path))), "")


def segments_of(
    records: RemoteRecords, lack: Difference, mark: ChainMark, now_ns: int, *, full: bool
) -> Iterator[Segment]:
    """Yields the segments that a push sends, each with its numbers but for the hash of the one before."""
    fresh, number = iter(lack.fresh), mark.number
    applied = tuple(note.what.id for note in records.forgotten() if note.applied)
    first = True
    while True:
        part = tuple(_told_all(islice(fresh, MOST_CHECKPOINTS)))
        if not part and not first:
            return
        number += 1
        yield Segment(
            records.timeline(), records.machine(), records.machine_name(), number, "", now_ns,
            full=full and first, checkpoints=part, gone=tuple(lack.gone) if first and not full else (),
            forgets=lack.forgets if first else (), applied=applied, events=lack.events if first else (),
            about=about(records.store) if first else {},
        )  # fmt: skip
        first = False


def _told_all(entries: Iterable[Entry]) -> Iterator[Told]:
    """Yields the checkpoints of one segment, with what the log shows of them as far as there is room."""
    left = LARGEST_SEGMENT // 4
    for entry in entries:
        cp, row = entry.checkpoint, row_of(entry)
        left -= size_of(row)
        yield Told(cp.id, cp.commit, cp.name[:200], cp.kind, entry.created_ns, row if left > 0 else {})


def about(store: Store) -> dict[str, Any]:
    """Returns what a fleet shows of this machine: how many checkpoints, which agents, the last step."""
    newest = store.checkpoints.newest(limit=1)
    last = newest[0].checkpoint if newest else None
    agents = store.database.rows(
        "SELECT json_extract(about, '$.agent'), max(seq) FROM deed GROUP BY 1 ORDER BY 2 DESC LIMIT 20"
    )
    return {
        "checkpoints": store.checkpoints.count(),
        "bytes": store.objects.disk_bytes(),
        "agents": [str(row[0])[:100] for row in agents if row[0]],
        "last": {"id": last.id, "name": last.name[:200], "kind": last.kind, "at": last.created_at.isoformat()}
        if last
        else None,
    }


class Pusher:
    """One push of one store to one remote."""

    def __init__(
        self, store: Store, storage: Storage, remote: str, writing: Writing, now_ns: Callable[[], int]
    ) -> None:
        self._store, self._storage, self._remote, self._writing, self._now = store, storage, remote, writing, now_ns

    def run(self, *, full: bool = False) -> Pushed:
        """Sends what is lacking; where the chain there is not what this store thinks, finds out why and sends again."""
        renamed, incomplete = "", None
        for _ in range(3):
            try:
                return self._send(full=full)._replace(renamed=renamed)
            except Diverged:
                renamed = self._reconcile() or renamed
            except Incomplete as error:  # a power cut damaged what waits here: the chain is fetched anew
                incomplete = error
                self._storage.look_anew()
                renamed = self._reconcile() or renamed
        if incomplete is not None:
            raise incomplete
        raise RemoteFailed(
            f"{self._remote} keeps changing under this machine's name. Your checkpoints here are untouched.",
            hint="Is another copy of this store pushing? Run the command again.",
        )

    def _send(self, *, full: bool) -> Pushed:
        records = RemoteRecords(self._store)
        mark, count = records.marks(self._remote).get(records.machine(), ChainMark()), 0
        full = full or (mark.number > 0 and not mark.digest)  # what is there cannot be read, see `_reconcile`
        lack = difference(self._store, self._remote, full=full)
        if lack.is_nothing and not full:
            return Pushed(self._remote, held_back=tuple(lack.held_back))
        held = {} if full else records.pushed(self._remote)
        for plan in segments_of(records, lack, mark, self._now(), full=full):
            segment = plan._replace(previous=mark.digest)
            with self._writing("push") as store, store.database.transaction():
                unsure = RemoteRecords(store).intent(self._remote)
                RemoteRecords(store).set_intent(
                    self._remote, sorted(unsure.union(told.id for told in segment.checkpoints))
                )
            mark = self._storage.send(segment, self._base(held), mark)
            held = {name: commit for name, commit in held.items() if name not in segment.gone}
            held |= {told.id: told.commit for told in segment.checkpoints}
            self._note(mark, held, lack.told)
            count += 1
        return Pushed(
            self._remote,
            len(lack.fresh),
            len(lack.gone),
            count,
            tuple(lack.held_back),
            bytes=getattr(self._storage, "sent_bytes", 0),
            events=len(lack.events),
        )

    def _base(self, held: dict[str, str]) -> bytes | None:
        """Returns a checkpoint that the remote has and that is still here: only what differs from it is sent."""
        for entry in reversed(self._store.checkpoints.oldest()):
            if held.get(entry.id) == entry.checkpoint.commit:
                return entry.commit_id
        return None

    def _note(self, mark: ChainMark, held: dict[str, str], told: int) -> None:
        with self._writing("push") as store:
            records = RemoteRecords(store)
            with store.database.transaction():
                records.set_mark(self._remote, records.machine(), mark)
                records.set_pushed(self._remote, held)
                records.set_told(self._remote, told)
                records.set_sent(self._remote, {})
                records.set_intent(self._remote, [])
                records.set_last_push(self._remote, LastPush(self._now()))

    def _step_over(self, end: ChainMark) -> None:
        """Notes where this machine's chain ends, which cannot be read (half a segment, damage), so that a full segment follows."""
        with self._writing("push") as store, store.database.transaction():
            records = RemoteRecords(store)
            records.set_mark(self._remote, records.machine(), end)
            records.set_pushed(self._remote, {})

    def _reconcile(self) -> str:
        """
        Reads this machine's own chain; takes over what an interrupted push left there.

        Where another store wrote it (a copy of this one), this store gets a new id, which is returned.
        """
        records = RemoteRecords(self._store)
        own, marks = records.machine(), records.marks(self._remote)
        try:
            arrived = self._storage.receive({own: marks[own]} if own in marks else {}, only=own)
        except RemoteDamaged:
            self._step_over(self._storage.end_of(own, marks.get(own, ChainMark())))
            return ""
        self._storage.settled({each.machine: each.mark for each in arrived})
        held = records.pushed(self._remote)
        mine = {entry.id for entry in self._store.checkpoints.oldest()} | held.keys() | records.intent(self._remote)
        with self._writing("push") as store, store.database.transaction():
            records = RemoteRecords(store)
            for each in arrived:
                if any(told.id not in mine for segment in each.segments for told in segment.checkpoints):
                    records.be_another()
                    return records.machine()
                for segment in each.segments:
                    held = {} if segment.full else {name: c for name, c in held.items() if name not in segment.gone}
                    held |= {told.id: told.commit for told in segment.checkpoints}
                records.set_mark(self._remote, own, each.mark)
            if not arrived:  # the chain is gone there, or was taken back: everything is sent anew
                records.set_mark(self._remote, own, ChainMark())
                records.set_told(self._remote, 0)
                held = {}
            records.set_pushed(self._remote, held)
        return ""
