"""
The timeline's database.

Promise: what a transaction acknowledged survives a power cut (WAL, `synchronous=FULL`); the file is 0600 from its first
instant. SQLite's files are SQLite's: nothing else in the process opens or closes them, or POSIX would drop its locks.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from mulligan.errors import Busy, DurabilityLost, MulliganError, NoRoom, StoreDamaged, StoreError
from mulligan.safefs import seam
from mulligan.safefs.directory import Directory

NAME = "timeline.db"
FORMAT = 1
# Not the file's fault: a store that may not be written, a process that may open no more files.
_REFUSED = frozenset({sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM})
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE checkpoint (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  kind TEXT NOT NULL,
  created_ns INTEGER NOT NULL,
  parent TEXT,
  commit_id TEXT NOT NULL,
  files_tree BLOB NOT NULL,
  modes_tree BLOB NOT NULL,
  defaults TEXT NOT NULL,
  complete INTEGER NOT NULL,
  changes BLOB NOT NULL,
  not_captured BLOB NOT NULL,
  git TEXT NOT NULL,
  context TEXT NOT NULL,
  state TEXT,
  metadata TEXT NOT NULL
);
CREATE INDEX checkpoint_name ON checkpoint (name);
CREATE INDEX checkpoint_kind ON checkpoint (kind);
CREATE INDEX checkpoint_parent ON checkpoint (parent);
CREATE TABLE move (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, what TEXT NOT NULL);
CREATE TABLE redo (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, what TEXT NOT NULL);
CREATE TABLE journal (one INTEGER PRIMARY KEY CHECK (one = 1), phase TEXT NOT NULL, plan BLOB NOT NULL);
CREATE TABLE fresh_ref (id TEXT PRIMARY KEY, commit_id TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE dead_ref (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE pin (id TEXT NOT NULL, pid INTEGER NOT NULL);
"""


class Database:
    """One connection to the timeline; the caller serialises its use."""

    def __init__(self, store_path: str, *, create: bool, directory: Directory) -> None:
        fresh = not directory.exists(NAME.encode())
        if fresh and not create:
            raise StoreDamaged(
                "The store's timeline (timeline.db) is missing. The objects are untouched.",
                hint="Rebuild it from the repository: mulligan doctor",
            )
        if fresh:
            # SQLite would create it with the umask's mode; its -wal and -shm take over the mode found here.
            seam.calls.close(directory.create(NAME.encode()))
        self.inode = directory.stat(NAME.encode()).st_ino
        self.read_only = not create and not os.access(store_path, os.W_OK | os.X_OK, effective_ids=True)
        with translated():
            self._connection = (
                _connect_to_read(f"{store_path}/{NAME}") if self.read_only else _connect(f"{store_path}/{NAME}")
            )
            try:
                self._initialise()
            except BaseException:
                self._connection.close()
                raise

    def _initialise(self) -> None:
        run = self._connection.execute
        version = run("PRAGMA user_version").fetchone()[0]
        if version > FORMAT:
            raise StoreError(
                f"This store has format {version}; this mulligan reads up to {FORMAT}. Nothing was touched.",
                hint="Upgrade: pip install -U mulligan",
            )
        if self.read_only:
            return
        run("PRAGMA synchronous=FULL")
        run("PRAGMA secure_delete=ON")
        if version == 0:
            run("PRAGMA journal_mode=WAL")
            with self.transaction():
                if not run("SELECT count(*) FROM sqlite_master WHERE name='meta'").fetchone()[0]:
                    for statement in _SCHEMA.split(";\n"):
                        run(statement)
                run(f"PRAGMA user_version={FORMAT}")

    def __del__(self) -> None:
        # One that failed to open, or was dropped, gives its descriptors back; before 3.13 SQLite did that in silence.
        with suppress(AttributeError, sqlite3.Error):
            self._connection.close()

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Runs the body whole or not at all; durable when it returns."""
        with translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """Returns every row of a query."""
        with translated():
            return self._connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: Any) -> sqlite3.Row | None:
        """Returns the first row of a query, or None."""
        with translated():
            found: sqlite3.Row | None = self._connection.execute(sql, values).fetchone()
        return found

    def run(self, sql: str, *values: Any) -> None:
        """Runs one statement."""
        with translated():
            self._connection.execute(sql, values)

    def meta(self, key: str, default: str = "") -> str:
        """Returns a value of the store's own."""
        row = self.row("SELECT value FROM meta WHERE key=?", key)
        return row[0] if row else default

    def set_meta(self, key: str, value: str) -> None:
        """Sets a value of the store's own."""
        self.run("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value=excluded.value", key, value)

    def integrity(self) -> list[str]:
        """Returns what SQLite's own check finds wrong."""
        return [row[0] for row in self.rows("PRAGMA integrity_check") if row[0] != "ok"]

    def compact(self) -> None:
        """Gives freed pages back to the disk, the log's too."""
        self.run("VACUUM")
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")


def _connect(path: str, *, uri: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0, uri=uri)
    connection.row_factory = sqlite3.Row
    return connection


def _connect_to_read(path: str) -> sqlite3.Connection:
    """Opens the timeline of a store that nobody can write to here; SQLite would want to put files beside it."""
    place = "file:" + path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = _connect(f"{place}?mode=ro", uri=True)
    try:
        connection.execute("SELECT count(*) FROM meta").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if os.path.lexists(path + "-wal"):
            raise  # the newest checkpoints may be there alone: an answer without them would be wrong
        connection = _connect(f"{place}?immutable=1", uri=True)
    return connection


@contextmanager
def translated() -> Iterator[None]:
    """Turns SQLite's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error) from error


def _translate(error: sqlite3.Error) -> MulliganError:
    text = str(error)
    if "locked" in text or "busy" in text:
        return Busy("The timeline is in use by another process. Nothing was changed.", hint="Try again.")
    if "full" in text:
        return NoRoom(
            "The disk is full. Nothing was changed; every earlier checkpoint is untouched.",
            hint="Free space, then: mulligan gc",
        )
    if "I/O" in text:
        return DurabilityLost(
            f"The disk failed the timeline ({text}). Nothing was acknowledged.",
            hint="Check the disk, then: mulligan check",
        )
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _REFUSED:
        return StoreError(
            f"The system does not let the timeline be used ({text}). Nothing was changed.",
            hint="Check the permissions of the store and the limit on open files",
        )
    return StoreDamaged(
        f"The timeline cannot be read ({text}). Your workspace is untouched.", hint="Rebuild it: mulligan doctor"
    )


def as_column(text: str) -> str | bytes:
    """Returns text as SQLite can hold it: lone surrogates, which UTF-8 cannot say, go in as bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def from_column(value: str | bytes) -> str:
    """Returns the text that `as_column` put there."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value
