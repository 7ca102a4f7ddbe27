"""
A timeline made anew: from the repository, and from whatever the old one still says under an unbroken seal.

The commits know every checkpoint; only the old timeline knows the position, the steps of undo and redo, the notes, and
which parent a checkpoint has since its own was deleted. What cannot be read is put aside, never removed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import count, islice
from typing import Any, NamedTuple

from mulligan.errors import MulliganError, StoreDamaged
from mulligan.model.checkpoint import pack_list
from mulligan.remotes.pulled import carry_remotes
from mulligan.remotes.tables import ALL_COLUMNS
from mulligan.safefs.directory import Directory
from mulligan.store import refs
from mulligan.store.objects import ObjectStore
from mulligan.timeline.checkpoints import POSITION
from mulligan.timeline.commits import Entry
from mulligan.timeline.database import LONGEST, NAME, STEPS, STEPS_PER_PAGE, Database, connect, decode_exactly
from mulligan.timeline.journal import OWED
from mulligan.timeline.read_commits import read_commit
from mulligan.timeline.store import Store
from mulligan.timeline.tables import checksum
from mulligan.timeline.trees import Trees, pack_changes
from mulligan.timeline.undo import Move

_ASIDE = b"timeline.db.damaged-%d"
_NOTE = "note:"
Rows = dict[str, list[dict[str, Any]]]


class OldRow(NamedTuple):
    """What the old timeline says of one checkpoint and its commit does not."""

    seq: int
    parent: str | None
    packed_changes: bytes


def put_aside(directory: Directory) -> str:
    """Renames the timeline, so that a new one can be built; returns the name under which it is kept."""
    number = next(number for number in count(1) if not directory.exists(_ASIDE % number))
    for ending in (b"-wal", b"-shm", b""):  # the timeline itself last: while it is there, the next doctor begins again
        if directory.exists(NAME.encode() + ending):
            directory.rename(NAME.encode() + ending, _ASIDE % number + ending)
    return (_ASIDE % number).decode()


def rebuild(store: Store, directory: Directory) -> str:
    """Makes the timeline that is missing; returns a sentence about it."""
    for leftover in (b"timeline.db-wal", b"timeline.db-shm"):
        directory.unlink(leftover, missing_ok=True)  # they belong to the database that is gone
    old = _newest_aside(store, directory)
    database = Database(store.path, create=True, directory=directory)
    with closing(ObjectStore(directory)) as objects:
        try:
            entries = _entries(objects, directory, old)
        except BaseException:
            database.close()
            raise
        store.take_over(directory, database)
        with database.transaction():
            store.introduce()
            for entry in entries:
                store.checkpoints.add(entry)
            _carry_over(store, entries, old)
    steps = f" and {len(old['move'])} steps of undo" if old.get("move") else ""
    return f"Rebuilt the timeline from the repository: {len(entries)} checkpoints{steps}."


def _newest_aside(store: Store, directory: Directory) -> Rows:
    """Returns what can be believed of the timeline that was put aside last; nothing where there is none."""
    number = next(number for number in count(1) if not directory.exists(_ASIDE % number)) - 1
    if not number:
        return {}
    aside = _ASIDE % number
    try:
        return whole_rows(f"{store.path}/{aside.decode()}")
    finally:
        # A disk without room keeps SQLite from using the log that it had just begun, and from removing it.
        if directory.exists(aside + b"-wal") and not directory.stat(aside + b"-wal").st_size:
            for ending in (b"-shm", b"-wal"):
                directory.unlink(aside + ending, missing_ok=True)


def _carry_over(store: Store, entries: list[Entry], old: Rows) -> None:
    """Puts into the new timeline what no commit knows (inside a transaction)."""
    known = {entry.id for entry in entries}
    moves = [row for row in old.get("move", ()) if row["id"] in known]
    for row in moves or [{"id": entry.id, "what": Move(entry.id).column} for entry in entries]:
        store.database.insert("move", None, row["id"], row["what"])
    for row in old.get("redo", ()):
        if row["id"] in known:
            store.database.insert("redo", None, row["id"], row["what"])
    said = {row["key"]: row["value"] for row in old.get("meta", ())}
    position = said.get(POSITION)
    if position not in known:
        # The newest step of undo is where the workspace stands.
        standing = [entry for entry in entries if entry.checkpoint.kind != "safety"] or entries
        position = moves[-1]["id"] if moves else standing[-1].id if standing else ""
    store.checkpoints.set_position(position)
    for key, value in said.items():
        if key.startswith(_NOTE) or (key == OWED and value in known):
            store.database.set_meta(key, value)
    carry_remotes(store.database, old)
    for row in old.get("deed", ()):
        store.database.insert("deed", None, *list(row.values())[1:])
    for row in old.get("pin", ()):
        store.database.insert("pin", row["id"], row["pid"])
    for row in old.get("journal", ()):
        store.database.insert("journal", row["one"], row["phase"], row["plan"])


# -- the checkpoints --------------------------------------------------------------------------------


def _entries(objects: ObjectStore, directory: Directory, old: Rows) -> list[Entry]:
    """Returns every checkpoint that a ref or the old timeline names and that can be read, in order."""
    rows = {row["id"]: row for row in old.get("checkpoint", ())}
    named = {name: bytes.fromhex(row["commit_id"]) for name, row in rows.items()}
    found = read_all(objects, named | refs.read_refs(directory))
    known = {
        entry.id: OldRow(row["seq"], row["parent"], row["changes"])
        for entry in found
        if (row := rows.get(entry.id)) is not None and row["commit_id"] == entry.checkpoint.commit
    }
    ordered = sorted((entry for entry in found if entry.id in known), key=lambda entry: known[entry.id].seq)
    for entry in in_order([entry for entry in found if entry.id not in known]):
        ordered.insert(_place(entry, ordered), entry)
    return link(objects, ordered, known=known)


def _place(entry: Entry, ordered: list[Entry]) -> int:
    """Returns where a checkpoint belongs: behind its parent, before its children, and by its time between them."""
    ids = [one.id for one in ordered]
    low = ids.index(entry.checkpoint.parent) + 1 if entry.checkpoint.parent in ids else 0
    children = (n for n, one in enumerate(ordered) if n >= low and one.checkpoint.parent == entry.id)
    high = next(children, len(ordered))
    return next((n for n in range(low, high) if ordered[n].created_ns > entry.created_ns), high)


def read_all(objects: ObjectStore, named: dict[str, bytes]) -> list[Entry]:
    """Returns the checkpoints of some refs, without those that cannot be read."""
    entries = []
    for name, commit in named.items():
        try:
            entry = read_commit(objects, commit)
        except StoreDamaged:
            continue  # named by the check that follows
        except MulliganError as error:
            raise StoreDamaged(
                f"Checkpoint {name} cannot be trusted: {error.message}", hint="mulligan check"
            ) from error
        entries.append(entry)
    return list({entry.id: entry for entry in entries}.values())


def link(
    objects: ObjectStore, ordered: list[Entry], before: Sequence[Entry] = (), known: dict[str, OldRow] | None = None
) -> list[Entry]:
    """
    Returns entries as the timeline had them: each with its parent and what it changed against it.

    A commit names the parent that it was saved from. Where that was deleted since, the one saved last before stands in,
    unless it is `known` better.
    """
    there = {entry.id: entry for entry in before}
    last = next((entry for entry in reversed(before) if entry.checkpoint.kind != "safety"), None)
    ids = {entry.id for entry in (*before, *ordered)}
    linked = []
    for entry in ordered:
        fact = (known or {}).get(entry.id)
        if fact is not None and (fact.parent is None or fact.parent in ids):
            checkpoint = entry.checkpoint.replace(parent=fact.parent, packed_changes=fact.packed_changes)
        else:
            parent = there.get(entry.checkpoint.parent or "", last) if entry.checkpoint.parent else None
            packed = _changes(objects, parent, entry)
            checkpoint = entry.checkpoint.replace(parent=parent.id if parent else None, packed_changes=packed)
        there[entry.id] = entry._replace(checkpoint=checkpoint)
        linked.append(there[entry.id])
        last = last if entry.checkpoint.kind == "safety" else entry
    return linked


def _changes(objects: ObjectStore, parent: Entry | None, entry: Entry) -> bytes:
    """Returns what a checkpoint changed against its parent; where that cannot be read any more, what it holds, or nothing."""
    for against in (parent, None):
        with suppress(StoreDamaged):
            return pack_changes(Trees(objects), against, entry)
    return pack_list(())


def in_order(entries: list[Entry]) -> list[Entry]:
    """Returns entries by their times, but never before their parents: a clock may have been set back."""
    waiting = {entry.id: entry for entry in sorted(entries, key=lambda entry: entry.created_ns)}
    ordered: list[Entry] = []
    while waiting:
        line = [next(iter(waiting.values()))]
        del waiting[line[0].id]
        while (parent := waiting.pop(line[-1].checkpoint.parent or "", None)) is not None:
            line.append(parent)
        ordered += reversed(line)
    return ordered


_MOST_ROWS = 4_000_000


def whole_rows(path: str) -> dict[str, list[dict[str, Any]]]:
    """Returns, by table, the rows of a damaged timeline whose seal is whole, as far as SQLite gets at them."""
    found: dict[str, list[dict[str, Any]]] = {}
    try:
        connection = connect(path)
    except sqlite3.Error:
        return found
    work, most = count(1), 64 + os.stat(path).st_size * STEPS_PER_PAGE // (512 * STEPS)
    with closing(connection):
        connection.text_factory = decode_exactly
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        connection.set_progress_handler(lambda: next(work) > most, STEPS)
        tables = _plain_tables(connection)
        for table, columns in ALL_COLUMNS.items():
            if table not in tables:
                continue
            # From both ends: a page that cannot be read hides what lies behind it from one side only.
            rows = [
                *_until_broken(connection, table, columns, "ASC"),
                *_until_broken(connection, table, columns, "DESC"),
            ]
            found[table] = [
                dict(zip(columns, row, strict=True)) for row in sorted(set(rows), key=lambda row: str(row[0]))
            ]
            if columns[0] == "seq":
                found[table].sort(key=lambda row: row["seq"])
    return found


def _plain_tables(connection: sqlite3.Connection) -> set[str]:
    """Returns the names of what is a table, not of views planted in their place."""
    with suppress(sqlite3.Error, UnicodeDecodeError):
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table' LIMIT 100")}
    return set()


def _until_broken(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], direction: str
) -> Iterator[tuple[Any, ...]]:
    with suppress(sqlite3.Error, OverflowError, UnicodeDecodeError):
        order = f"ORDER BY {columns[0]} {direction}"
        found = connection.execute(f"SELECT {', '.join(columns)}, seal FROM {table} {order}")
        for *values, expected in islice(found, _MOST_ROWS):
            if checksum(*values) == expected:
                yield tuple(values)
