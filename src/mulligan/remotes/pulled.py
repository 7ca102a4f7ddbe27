"""
Copies of other machines' checkpoints, and what a store remembers of its remotes.

Pulled checkpoints have a table of their own, so that `@`, `latest`, undo, retention and the budget see this machine's alone.
They have no refs: a timeline that is lost gets them again with the next pull.
"""

from __future__ import annotations

import json
from heapq import merge
from typing import TYPE_CHECKING, Any

from mulligan.errors import AmbiguousCheckpoint, UnknownCheckpoint
from mulligan.model.bounded import read_json
from mulligan.model.checkpoint import moment
from mulligan.remotes.tables import ALL_COLUMNS, add_tables
from mulligan.safefs.directory import random_name
from mulligan.timeline.checkpoints import Checkpoints, stored_values
from mulligan.timeline.commits import Entry, write_commit
from mulligan.timeline.database import Database

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from mulligan.timeline.store import Store
    from mulligan.timeline.trees import ObjectReader

_COLUMNS = ", ".join(ALL_COLUMNS["pulled"])
#: In the store's own values: the machine's id and name, and everything about remotes.
MACHINE, MACHINE_NAME, TIMELINE, PREFIX = "remotes:machine", "remotes:name", "remotes:timeline", "remotes:"
#: Paths that some machine removed from all history: an id, the path, the machine, and whether this machine did too.
FORGOTTEN = "remotes:forgotten"
_NAMES = "remotes:names"
# How this machine's own copy of another's checkpoint is kept, and where its metadata name that one.
_OWN_KIND, _FROM = "automatic", "mulligan:pulled"
# In the metadata of a row whose contents are on a remote: which one, and what its machine had forgotten when it was told.
_REMOTE = "\0remote"
_HERE, _THERE = "files_tree<>zeroblob(20)", "files_tree=zeroblob(20)"


class Pulled(Checkpoints):
    """The checkpoints of one other machine, or of all."""

    def __init__(self, database: Database, objects: Callable[[], ObjectReader], machine: str = "") -> None:
        super().__init__(database, objects)
        self._only = machine
        self._called = names_of_machines(database)

    def count(self) -> int:
        """Returns how many checkpoints there are."""
        return len(self._rows(""))

    def position(self) -> str:
        """Returns the newest checkpoint that is no safety checkpoint: where that machine stood."""
        found = self._select("WHERE kind<>'safety' ORDER BY seq DESC LIMIT 1")
        return found[0].id if found else ""

    def put(self, machine: str, entry: Entry) -> None:
        """Adds a checkpoint of a machine, or replaces the copy that is there."""
        before = self._db.row("SELECT seq FROM pulled WHERE machine=? AND id=?", machine, entry.id)
        values = stored_values(entry)
        self._db.insert("pulled", before[0] if before else None, machine, *values, over=before is not None)

    def list_remote(self, machine: str, entry: Entry, applied: Iterable[str]) -> None:
        """Adds the row of a checkpoint whose contents stay on a remote, or puts it in the place of a copy."""
        cp = entry.checkpoint
        about = {**cp.metadata, _REMOTE: {"name": cp.held_by, "applied": sorted(applied)}}
        self.put(machine, entry._replace(checkpoint=cp.replace(metadata=about)))

    def only_remote(self, tail: str = "", *values: Any) -> list[tuple[str, Entry, set[str]]]:
        """Returns the rows whose contents are on a remote: the machine, the row, and what that machine had forgotten then."""
        found = []
        for row in self._rows(f"WHERE {_THERE} {tail}", *values):
            about = read_json(row["metadata"]).get(_REMOTE, {})
            found.append((str(row["machine"]), self._entry(row), set(map(str, about.get("applied", ())))))
        return found

    def may_be_remote(self, path: bytes) -> bool:
        """Returns whether contents on a remote may hold a path; rows without the list of their changes may hold any."""
        from mulligan.timeline.trees import touches

        rows = [entry for _, entry, _ in self.only_remote()]
        return any(not entry.checkpoint.packed_changes or touches(entry, path) for entry in rows)

    def forget_remote(self, path: bytes) -> None:
        """Takes a forgotten path out of rows whose contents are on a remote (inside a transaction)."""
        from mulligan.remotes.rows import without_path

        for machine, entry, applied in self.only_remote():
            self.list_remote(machine, without_path(entry, path), applied)

    def here(self) -> list[Entry]:
        """Returns the copies whose contents are here, the oldest first."""
        return self._select(f"WHERE {_HERE} ORDER BY seq")

    def nearest(self, seq: int, most: int) -> list[bytes]:
        """Returns the commits of copies near a row: contents that differ little from it, and are here."""
        rows = self._db.rows(f"SELECT commit_id FROM pulled WHERE {_HERE} ORDER BY abs(seq-?) LIMIT ?", seq, most)
        return [bytes.fromhex(row[0]) for row in rows]

    def drop(self, machine: str, ids: Iterable[str]) -> int:
        """Removes copies; returns how many were there."""
        gone = 0
        for each in ids:
            gone += self._db.row("SELECT 1 FROM pulled WHERE machine=? AND id=?", machine, each) is not None
            self._db.run("DELETE FROM pulled WHERE machine=? AND id=?", machine, each)
        return gone

    def held(self, machine: str, *, listed: bool = False) -> dict[str, str]:
        """Returns the commit of each copy of a machine's checkpoints, the oldest first; with `listed`, of all rows."""
        which = "1" if listed else _HERE
        rows = self._db.rows(f"SELECT id, commit_id FROM pulled WHERE machine=? AND {which} ORDER BY seq", machine)
        return {row[0]: row[1] for row in rows}

    def machine_of(self, entry: Entry) -> str:
        """Returns the id of the machine that a copy came from."""
        row = self._db.row("SELECT machine FROM pulled WHERE seq=?", entry.seq)
        return str(row[0]) if row else ""

    def _read(self, row: sqlite3.Row) -> Entry:
        entry = super()._read(row)
        about = entry.checkpoint.metadata.pop(_REMOTE, None)
        if about is None:
            return entry
        # What a row cannot show comes with the contents.
        return entry._replace(checkpoint=entry.checkpoint.replace(held_by=str(about["name"]), state_source=dict))

    def _machine(self, row: sqlite3.Row) -> str:
        machine = str(row["machine"])
        return self._called.get(machine, machine[:8])

    def _rows(self, tail: str, *values: Any) -> list[sqlite3.Row]:
        if self._only:
            source = f"(SELECT {_COLUMNS}, seal FROM pulled WHERE machine=?)"
            return self._db.rows(f"SELECT {_COLUMNS}, seal FROM {source} {tail}", self._only, *values)
        return self._db.rows(f"SELECT {_COLUMNS}, seal FROM pulled {tail}", *values)

    def _at_deed(self, text: str) -> Entry | None:
        """Returns the workspace as it was at a prompt or a tool call of an agent on that machine."""
        from mulligan.remotes.events import events_of
        from mulligan.timeline.events import find_event

        found = find_event(events_of(self._db, self._only), text) if self._only else None
        return self.by_id(found.checkpoint) if found is not None else None

    def resolve_here(self, text: str) -> Entry:
        """Returns the checkpoint that a reference means on this machine; raises UnknownCheckpoint."""
        found = self.by_id(text) or self._reserved(text) or self._named(text) or self._prefixed(text)
        if found is None:
            raise UnknownCheckpoint(
                f"That machine has no checkpoint {text!r} here. Nothing was changed.",
                hint="mulligan pull, mulligan log",
            )
        return found

    def anywhere(self, text: str) -> Entry | None:
        """Returns the checkpoint of any machine with this id, name or beginning of an id."""
        return self.by_id(text) or self._named(text) or self._prefixed(text)


def names_of_machines(database: Database) -> dict[str, str]:
    """Returns what the machines of pulled checkpoints call themselves, by their ids; each name once."""
    said = read_json(database.meta(_NAMES, "{}"))
    names = {str(key): str(value) for key, value in said.items()} if isinstance(said, dict) else {}
    own = database.meta(MACHINE_NAME)
    taken = [own, *names.values()]
    return {key: value if taken.count(value) == 1 else f"{value}-{key[:4]}" for key, value in names.items()}


def name_machine(database: Database, machine: str, name: str) -> None:
    """Notes what a machine calls itself (inside a transaction)."""
    said = read_json(database.meta(_NAMES, "{}"))
    if said.get(machine) != name:
        database.set_meta(_NAMES, json.dumps({**said, machine: name}, sort_keys=True))


def resolve_pulled(database: Database, objects: Callable[[], ObjectReader], text: str) -> Entry | None:
    """Returns the checkpoint of another machine that `MACHINE:REF`, a name or the beginning of an id means."""
    called, _, ref = text.partition(":")
    if ref:
        machines = [key for key, name in names_of_machines(database).items() if called in (name, key)]
        machines = machines or [
            key for key in names_of_machines(database) if len(called) >= 4 and key.startswith(called)
        ]
        if len(machines) > 1:
            raise AmbiguousCheckpoint(
                f"{called!r} could be several machines. Nothing was changed.", hint="mulligan remote list"
            )
        if machines:
            return Pulled(database, objects, machines[0]).resolve_here(ref)
    return Pulled(database, objects).anywhere(text)


def pulled_checkpoints(store: Store) -> Pulled | None:
    """Returns the copies of all other machines' checkpoints, None where the store knows no remote."""
    own = store.checkpoints
    return Pulled(store.database, own.objects) if store.database.knows_remotes() else None


def drop_copies(database: Database) -> bool:
    """Removes the copies of other machines' checkpoints; the next pull brings them again. Returns whether there were any."""
    if database.row(f"SELECT 1 FROM pulled WHERE {_HERE} LIMIT 1") is None:
        return False
    chain, own = f"{PREFIX}chain:", database.meta(MACHINE)
    with database.transaction():
        database.run(f"DELETE FROM pulled WHERE {_HERE}")
        for row in database.select("meta", "WHERE key>=? AND key<?", chain, chain + "~"):
            if not row["key"].endswith(f":{own}"):
                database.run("DELETE FROM meta WHERE key=?", row["key"])
    return True


def note_forgotten(database: Database, path: str) -> None:
    """Notes that this machine removed a path from all its history, for the next push (inside a transaction)."""
    rows = [[*row[:3], row[3] or row[1] == path] for row in read_json(database.meta(FORGOTTEN, "[]"))]
    database.set_meta(FORGOTTEN, json.dumps([*rows, [random_name(8), path, database.meta(MACHINE), True]]))


def with_pulled(own: Checkpoints, database: Database, entries: list[Entry], kind: str | None) -> list[Entry]:
    """Returns this machine's checkpoints together with those of others, newest first."""
    others = sorted(Pulled(database, own.objects).newest(kind=kind), key=lambda e: e.created_ns, reverse=True)
    return list(merge(entries, others, key=lambda entry: entry.created_ns, reverse=True))


def keep_own(store: Store, entry: Entry, now_ns: int) -> Entry:
    """Makes another machine's checkpoint one of this machine's too, so that it can be restored to and undone."""
    from mulligan.timeline.commits import finish_objects, record_checkpoint

    mine = store.checkpoints.newest(kind=_OWN_KIND)
    known = next((each for each in mine if each.checkpoint.metadata.get(_FROM) == entry.checkpoint.commit), None)
    if known is not None:
        return known
    with store.objects.writer() as writer:
        own = as_own(store, entry, random_name(8), now_ns, writer)
        finish_objects(own, writer)
    pins = {row["id"] for row in store.database.select("pin")}
    record_checkpoint(store, own, now_ns=now_ns, pinned=lambda: pins, as_position=False)
    return own


def as_own(store: Store, entry: Entry, name: str, now_ns: int, writer: Any) -> Entry:
    """Returns another machine's checkpoint as one of this machine's: the same files, a new id and commit."""
    from mulligan.timeline.read_commits import record_tree
    from mulligan.timeline.trees import Trees, pack_changes

    cp, base = entry.checkpoint, store.checkpoints.current()
    state = cp.state
    own = cp.replace(
        id=name, name=f"{cp.name or cp.short_id} ({cp.machine})", kind=_OWN_KIND, created_at=moment(now_ns),
        parent=base.id if base else None, machine="", metadata={_FROM: cp.commit}, state_source=lambda: state,
    )  # fmt: skip
    drafted = entry._replace(checkpoint=own, created_ns=now_ns, seq=0)
    packed = pack_changes(Trees(store.objects), base, drafted)
    drafted = drafted._replace(checkpoint=own.replace(packed_changes=packed))
    return write_commit(drafted, writer, record_tree(store.objects, entry.commit_id))


def carry_remotes(database: Database, old: dict[str, list[dict[str, Any]]]) -> None:
    """Puts what a damaged timeline still says of remotes into the one that was made anew (inside a transaction)."""
    said = {row["key"]: row["value"] for row in old.get("meta", ())}
    for key, value in said.items():
        if key.startswith(PREFIX):
            database.set_meta(key, value)
    if "pulled" in old or "pushed" in old:
        add_tables(database)
        for table in ("pushed", "pulled"):
            for row in old.get(table, ()):
                database.insert(table, *row.values(), over=True)
