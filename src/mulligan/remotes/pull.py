"""
Pulling: segments of other machines are read, their objects verified and taken in, their checkpoints listed as copies.

Nothing enters the store before it was followed to its last byte. A checkpoint that cannot be believed is left out and named;
the others come in. Paths that some machine forgot are cut out on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mulligan.errors import MulliganError, RemoteDamaged
from mulligan.model.checkpoint import KINDS
from mulligan.model.paths import parse_path
from mulligan.remotes.chain import Arrived
from mulligan.remotes.events import keep_events
from mulligan.remotes.objects import MemoryObjects, Together, copy, new_objects
from mulligan.remotes.protocol import Forgotten, Segment, Told
from mulligan.remotes.pulled import Pulled
from mulligan.remotes.push import Writing
from mulligan.remotes.records import ForgottenNote, RemoteRecords
from mulligan.remotes.rows import entry_of, without_path
from mulligan.remotes.storage import Storage
from mulligan.store.objects import ObjectStore
from mulligan.timeline.commits import Entry
from mulligan.timeline.read_commits import read_commit
from mulligan.timeline.store import Store

_AT_ONCE = 200
# Git sends a difference from so many checkpoints that are here; with more, the server's work grows and the difference hardly shrinks.
_NEAR = 4


class PulledReport(NamedTuple):
    """What a pull did: copies that came and went, checkpoints that were refused and why, paths that others forgot."""

    remote: str
    checkpoints: int = 0
    gone: int = 0
    machines: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    forgotten: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "remote": self.remote,
            "pulled": self.checkpoints,
            "gone": self.gone,
            "machines": list(self.machines),
            "refused": [{"checkpoint": name, "reason": why} for name, why in self.refused],
            "forgotten": list(self.forgotten),
        }


class Puller:
    """One pull of one store from one remote."""

    def __init__(self, store: Store, storage: Storage, spool: ObjectStore, remote: str, writing: Writing) -> None:
        self._store, self._storage, self._spool, self._remote, self._writing = store, storage, spool, remote, writing
        self._progress: Callable[[str, int, int], None] | None = None

    def run(
        self, progress: Callable[[str, int, int], None] | None = None, *, lazy: bool = False, everything: bool = False
    ) -> PulledReport:
        """
        Reads every chain from where it is known on.

        With `lazy`, contents stay on the remote. With `everything`, chains are read from their beginning, and all contents come.
        """
        self._progress = progress
        records = RemoteRecords(self._store)
        marks = records.marks(self._remote)
        arrived = self._storage.receive({} if everything else marks, own=records.machine(), rows_only=lazy)
        if not lazy:
            self._storage.fetch_packs(arrived)
            self._spool.refresh()
        self._learn_forgotten(arrived)
        report = PulledReport(self._remote, refused=tuple((name[:8], why) for name, why in self._storage.torn.items()))
        for each in arrived:
            came, gone, refused = self._take_chain(each, lazy=lazy)
            report = report._replace(
                checkpoints=report.checkpoints + came,
                gone=report.gone + gone,
                refused=report.refused + refused,
                machines=(*report.machines, each.mark.name),
            )
        with self._writing("pull") as store:
            pending = tuple(note.what.path for note in RemoteRecords(store).forgotten() if not note.applied)
            marks = RemoteRecords(store).marks(self._remote)
        self._storage.settled(marks)
        return report._replace(forgotten=tuple(dict.fromkeys(pending)))

    # -- paths that others forgot -----------------------------------------------------------------

    def _learn_forgotten(self, arrived: list[Arrived]) -> None:
        """Notes every path that was forgotten elsewhere, and cuts it out of the copies that are here."""
        told = [(each.machine, what) for each in arrived for segment in each.segments for what in segment.forgets]
        if not told:
            return
        with self._writing("pull") as store:
            records = RemoteRecords(store)
            known = records.forgotten()
            fresh = [ForgottenNote(what, machine, applied=False) for machine, what in told]
            fresh = [note for note in fresh if note.what.id not in {row.what.id for row in known}]
            fresh = [note._replace(applied=not _is_held(store, note.what)) for note in fresh]
            self._cut_copies(store, records, [note.what for note in fresh])
            with store.database.transaction():
                records.set_forgotten([*known, *fresh])

    def _cut_copies(self, store: Store, records: RemoteRecords, paths: Iterable[Forgotten]) -> None:
        from mulligan.doctor.forget import holds, without

        for what in paths:
            path, copies = parse_path(what.path), records.pulled()
            holders = [entry for entry in copies.here() if holds(store.objects, entry, path)]
            with store.objects.writer() as writer:
                cut = [(copies.machine_of(entry), without(entry, path, store.objects, writer)) for entry in holders]
                writer.finish()
            with store.database.transaction():
                for machine, entry in cut:
                    copies.put(machine, entry)
                copies.forget_remote(path)

    # -- checkpoints --------------------------------------------------------------------------------

    def _take_chain(self, each: Arrived, *, lazy: bool) -> tuple[int, int, tuple[tuple[str, str], ...]]:
        """Takes in what one machine added; returns how many came, how many went, and what was refused."""
        told, applied, gone, full = sum_segments(each.segments)
        came, refused = self._take_all(each.machine, list(told.values()), applied, lazy=lazy)
        if refused and not lazy:
            # Their machine sent only what differs from an earlier checkpoint, and that one is deleted or cut here.
            self._storage.fetch_again(each.machine)
            self._spool.refresh()
            names = dict(refused)
            more, refused = self._take_all(each.machine, [row for row in told.values() if row.id in names], applied)
            came += more
            if self._storage.faults:
                pack, why = next(iter(self._storage.faults.items()))
                refused = [(name, f"Pack {pack[:8]} is damaged or half-written ({why}).") for name, _ in refused]
        with self._writing("pull") as store, store.database.transaction():
            records = RemoteRecords(store)
            copies = records.pulled(each.machine)
            going = [name for name in copies.held(each.machine, listed=True) if name not in told] if full else gone
            went = self._go(copies, each.machine, going)
            records.set_mark(self._remote, each.machine, each.mark)
            keep_events(store.database, each.machine, each.segments)
        return came, went, tuple(refused)

    def bring(self, machine: str, ids: set[str]) -> list[tuple[str, str]]:
        """Brings the contents of checkpoints that are only listed; returns those that were refused, and why."""
        copies = RemoteRecords(self._store).pulled(machine)
        found = [(entry, applied) for _, entry, applied in copies.only_remote() if entry.id in ids]
        if not found:
            return []  # another process was faster
        rows = [Told(entry.id, entry.checkpoint.commit) for entry, _ in found]
        applied = {entry.id: known for entry, known in found}
        commits = [entry.commit_id for entry, _ in found]
        self._storage.fetch_contents(machine, commits, copies.nearest(found[0][0].seq, _NEAR))
        self._spool.refresh()
        _, refused = self._take_all(machine, rows, applied)
        if refused:
            self._storage.fetch_again(machine)
            self._spool.refresh()
            names = dict(refused)
            _, refused = self._take_all(machine, [row for row in rows if row.id in names], applied)
        self._storage.spool.clear()
        return refused

    def _take_all(
        self, machine: str, rows: list[Told], applied: dict[str, set[str]], *, lazy: bool = False
    ) -> tuple[int, list[tuple[str, str]]]:
        """Takes in some checkpoints, a few hundred at a time; returns how many came, and what was refused."""
        came, refused = 0, list[tuple[str, str]]()
        take = self._list if lazy else self._take
        for at in range(0, len(rows), _AT_ONCE):
            with self._writing("pull") as store:
                good, bad = take(store, machine, rows[at : at + _AT_ONCE], applied)
            came += good
            refused += bad
            if self._progress is not None:
                self._progress("taking in", min(at + _AT_ONCE, len(rows)), len(rows))
        return came, refused

    @staticmethod
    def _go(copies: Pulled, machine: str, going: list[str]) -> int:
        return copies.drop(machine, going)

    def _list(
        self, store: Store, machine: str, rows: list[Told], applied: dict[str, set[str]]
    ) -> tuple[int, list[tuple[str, str]]]:
        """Lists some checkpoints whose contents stay on the remote."""
        records = RemoteRecords(store)
        copies, notes = records.pulled(machine), records.forgotten()
        held = copies.held(machine, listed=True)
        entries, refused = list[Entry](), list[tuple[str, str]]()
        for row in rows:
            if held.get(row.id) == row.commit:
                continue
            try:
                entries.append(listed_entry(row, self._remote, notes, applied[row.id]))
            except RemoteDamaged as error:
                refused.append((row.id, error.message))
        with store.database.transaction():
            for entry in entries:
                copies.list_remote(machine, entry, applied[entry.id])
        return len(entries), refused

    def _take(
        self, store: Store, machine: str, rows: list[Told], applied: dict[str, set[str]]
    ) -> tuple[int, list[tuple[str, str]]]:
        """Verifies and copies some checkpoints, then lists them, in one step."""
        from mulligan.doctor.rebuild import link

        records = RemoteRecords(store)
        copies = records.pulled(machine)
        held = copies.held(machine)
        rows = [row for row in rows if held.get(row.id) != row.commit]
        refused: list[tuple[str, str]] = []
        entries: list[Entry] = []
        base = _last_commit(held)
        with store.objects.writer() as writer:
            made = MemoryObjects()
            source = Together(made, self._spool, store.objects)
            for row in rows:
                try:
                    entry = read_commit(source, bytes.fromhex(row.commit))
                    _refuse_odd(entry, row)
                    entry = self._cut(records, entry, applied.get(row.id, set()), source, made)
                    # The whole list first: nothing of a checkpoint with one bad tree comes in.
                    wanted = list(new_objects(source, [entry.commit_id], base))
                    copy(source, wanted, writer, store.objects.has)
                except (MulliganError, KeyError, TypeError, ValueError) as error:
                    refused.append((row.id, str(error)))
                    continue
                base = [entry.commit_id]
                entries.append(entry)
            writer.finish()
        # A row that was listed before knows its parent and what it changed; the parent's contents may not be here.
        listed = {entry.id: entry.checkpoint for _, entry, _ in copies.only_remote() if entry.checkpoint.packed_changes}
        linked = link(store.objects, [entry for entry in entries if entry.id not in listed], copies.here())
        for entry in entries:
            if (known := listed.get(entry.id)) is not None:
                cp = entry.checkpoint.replace(parent=known.parent, packed_changes=known.packed_changes)
                linked.append(entry._replace(checkpoint=cp))
        with store.database.transaction():
            for entry in linked:
                copies.put(machine, entry)
        return len(linked), refused

    def _cut(
        self, records: RemoteRecords, entry: Entry, applied: set[str], source: Together, made: MemoryObjects
    ) -> Entry:
        """Returns a checkpoint without the paths that were forgotten and that its machine had not removed yet."""
        notes = records.forgotten()
        if notes:
            from mulligan.doctor.forget import holds, without
        for note in notes:
            path = parse_path(note.what.path)
            if note.what.id not in applied and holds(source, entry, path):
                entry = without(entry, path, source, made)
        return entry


def listed_entry(row: Told, remote: str, notes: list[ForgottenNote], applied: set[str]) -> Entry:
    """Returns the row of a checkpoint without the paths that were forgotten and that its machine had not removed yet."""
    entry = entry_of(row, remote)
    for note in notes:
        if note.what.id not in applied:
            entry = without_path(entry, parse_path(note.what.path))
    return entry


def _refuse_odd(entry: Entry, row: Told) -> None:
    """Raises RemoteDamaged unless what a commit says about its checkpoint is what a checkpoint can say."""
    cp = entry.checkpoint
    texts = (cp.name, cp.description, cp.kind, cp.parent or "")
    if cp.id != row.id:
        raise RemoteDamaged("Its commit names another checkpoint.")
    if cp.kind not in KINDS or not all(isinstance(text, str) for text in texts):
        raise RemoteDamaged("Its record is not one of a checkpoint.")
    if not isinstance(cp.context, dict) or not isinstance(cp.metadata, dict) or not 0 <= entry.created_ns < 1 << 63:
        raise RemoteDamaged("Its record is not one of a checkpoint.")
    if not all(0 <= bits <= 0o7777 for bits in entry.defaults):
        raise RemoteDamaged("Its record has permissions that there are not.")
    cp.to_dict()  # state, lists and secrets can be read, too


def _last_commit(held: dict[str, str]) -> list[bytes]:
    return [bytes.fromhex(commit) for commit in list(held.values())[-1:]]


def _is_held(store: Store, what: Forgotten) -> bool:
    """Returns whether a checkpoint of this machine holds a path that another machine forgot."""
    from mulligan.doctor.forget import holds

    path = parse_path(what.path)
    return any(holds(store.objects, entry, path) for entry in store.checkpoints.oldest())


def sum_segments(segments: list[Segment]) -> tuple[dict[str, Told], dict[str, set[str]], list[str], bool]:
    """Returns what segments leave in the end: checkpoints, what each had forgotten when it was told, deletions, and whether it is all."""
    told: dict[str, Told] = {}
    applied: dict[str, set[str]] = {}
    gone: list[str] = []
    full = False
    for segment in segments:
        if segment.full:
            told, applied, gone, full = {}, {}, [], True
        for name in segment.gone:
            told.pop(name, None)
            gone.append(name)
        for each in segment.checkpoints:
            told[each.id] = each
            applied[each.id] = set(segment.applied) | {what.id for what in segment.forgets}
    return told, applied, [name for name in gone if name not in told], full
