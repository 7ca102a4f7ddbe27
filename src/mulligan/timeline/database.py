"""
The timeline's database.

Promise: a transaction that returned survives a power cut (WAL, `synchronous=FULL`); the file is 0600 from its first
instant. SQLite's files are SQLite's: nothing else in the process opens or closes them, or POSIX would drop its locks.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from mulligan.errors import Busy, DurabilityLost, MulliganError, NoRoom, StoreDamaged, StoreError
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory
from mulligan.safefs.platform import HERE
from mulligan.timeline.tables import COLUMNS, STATEMENTS, TABLES, checksum

# Not the file's fault: a store that may not be written, a process that may open no more files.
_REFUSED = frozenset({sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM})


@contextmanager
def translated() -> Iterator[None]:
    """Turns SQLite's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error) from error
    except UnicodeDecodeError as error:  # where a damaged table is quoted
        raise _translate(sqlite3.DatabaseError("what it holds is no text")) from error


def disk_full() -> NoRoom:
    """Returns the error for a disk that has no room for a transaction."""
    return NoRoom(
        "The disk is full. Not saved. Earlier checkpoints are safe.",
        hint="Free space, then: mulligan gc",
    )


def _translate(error: sqlite3.Error) -> MulliganError:
    text = str(error)
    if "locked" in text or "busy" in text:
        return Busy("The timeline is in use by another process. Nothing was changed.", hint="Try again.")
    if "full" in text or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHMSIZE:
        return disk_full()
    if "I/O" in text:
        return DurabilityLost(
            f"The disk failed the timeline ({text}). Not saved. Earlier checkpoints are safe.",
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


def broken_row(table: str) -> StoreDamaged:
    """Returns the error for a row that is not what was written."""
    return StoreDamaged(
        f"A record in the timeline is damaged (table {table}). The checkpoints themselves are untouched.",
        hint="Mend it from the repository: mulligan doctor",
    )


NAME = "timeline.db"
# 2: the mark of an undo may name the checkpoint whose changes it took back, which a release of format 1 cannot read.
FORMAT = 2
# 3: the tables for remotes are there too. A store that knows no remote stays at 2.
WITH_REMOTES = 3
# What SQLite says where the disk has no room, or no inode, for its files beside the database.
_CRAMPED = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_CANTOPEN}
)
# A row takes more bytes than this in the file: a query that returns more rows than that goes in circles.
_SMALLEST_ROW = 8
_MANY_ROWS = 4096
# The longest value, far beyond what a restore of a million files notes: a longer one is refused before it is read.
LONGEST = 256 << 20
# After so many steps of a statement its work is compared with the size of the file.
STEPS = 1 << 20
STEPS_PER_PAGE = 20_000
# A longer log is written back when its process ends: the next one that opens the timeline reads all of it.
_LONG_LOG = 512 << 10
# Connections that end with the process, where it said so.
_left: list[tuple[Database, sqlite3.Connection]] | None = None


class Database:
    """One connection to the timeline; the caller serialises its use."""

    def __init__(self, store_path: str, *, create: bool, directory: Directory, look: bool = False) -> None:
        self.columns = COLUMNS
        fresh = not directory.exists(NAME.encode())
        if fresh and not create:
            raise StoreDamaged(
                "The store's timeline (timeline.db) is missing. The objects are untouched.",
                hint="Rebuild it from the repository: mulligan doctor",
            )
        if fresh:
            # SQLite would create it with the umask's mode; its -wal and -shm take over the mode found here.
            syscalls.calls.close(directory.create(NAME.encode()))
        self.inode = directory.stat(NAME.encode()).st_ino
        self._path = f"{store_path}/{NAME}"
        self.read_only = look or (not create and not os.access(store_path, os.W_OK | os.X_OK, effective_ids=True))
        self._cramped = False
        with translated():
            try:
                self._open()
            except sqlite3.OperationalError as error:
                if create or self.read_only or getattr(error, "sqlite_errorcode", 0) not in _CRAMPED:
                    raise
                # A full disk has no room for what SQLite shares between processes; without it one can still read.
                self.read_only = self._cramped = True
                self._open()

    def _open(self) -> None:
        self._connection = connect_to_read(self._path) if self.read_only else connect(self._path)
        try:
            self._be_careful()
            self._initialise()
        except BaseException:
            self._connection.close()
            raise

    def _be_careful(self) -> None:
        """Treats the file as what it may be: damaged, or made by an attacker."""
        self._steps = 0
        self._connection.create_function("checksum", -1, checksum, deterministic=True)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        # A broken page may lead SQLite in circles that have no end within a lifetime.
        self._connection.set_progress_handler(self._too_much_work, STEPS)
        self._connection.execute("PRAGMA trusted_schema=OFF")
        self._connection.execute("PRAGMA cell_size_check=ON")

    def _too_much_work(self) -> bool:
        self._steps += STEPS
        if self._steps < 16 * STEPS:
            return False
        # Not by a query: SQLite is in the middle of one. A log may hold as much again, and more.
        return self._steps > STEPS_PER_PAGE * (os.stat(self._path).st_size >> 9) + 64 * STEPS

    def _initialise(self) -> None:
        run = self._connection.execute
        version = self._readable_format()
        if not self.read_only:
            run("PRAGMA synchronous=FULL")
            run("PRAGMA secure_delete=ON")
            if version == 0:
                run("PRAGMA journal_mode=WAL")
                with self.transaction():
                    if not run("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                        for statement in STATEMENTS:
                            run(statement)
        self._refuse_other_schema(version)

    def _readable_format(self) -> int:
        """Returns the number of the store's format; raises StoreError where a newer release made it."""
        version = int(self._connection.execute("PRAGMA user_version").fetchone()[0])
        if version > WITH_REMOTES:
            raise StoreError(
                f"This store has format {version}; this mulligan reads up to {WITH_REMOTES}. Nothing was touched.",
                hint="Upgrade: pip install -U mulligan",
            )
        return version

    def _refuse_other_schema(self, version: int) -> None:
        """Raises StoreDamaged unless the tables are exactly ours, and their format one that there was."""
        found = self._connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchmany(99)
        wanted = TABLES
        if version == WITH_REMOTES:
            from mulligan.remotes.tables import ALL_COLUMNS, ALL_TABLES

            wanted, self.columns = ALL_TABLES, ALL_COLUMNS
        if version < 0 or set(map(tuple, found)) != wanted:
            raise StoreDamaged(
                "The timeline (timeline.db) does not have the tables of a timeline. The checkpoints are untouched.",
                hint="Rebuild it from the repository: mulligan doctor",
            )

    def knows_remotes(self) -> bool:
        """Returns whether the tables for remotes are there; another process may have added them."""
        if self.columns is COLUMNS and self._readable_format() == WITH_REMOTES:
            self._refuse_other_schema(WITH_REMOTES)
        return self.columns is not COLUMNS

    def __del__(self) -> None:
        # One that failed to open, or was dropped, gives its descriptors back; before 3.13 SQLite did that in silence.
        with suppress(AttributeError, sqlite3.Error):
            self._connection.close()

    def close(self) -> None:
        """Closes the connection; in a process that ends at once, leaves that to its end, unless SQLite's log is long."""
        ending = [] if _left is None else _left
        ending.append((self, self._connection))
        if _left is None or self.read_only or _size_of(self._path + "-wal") > _LONG_LOG:
            for _, connection in ending:  # SQLite writes it back when the last one is closed
                connection.close()

    @contextmanager
    def at_one_moment(self) -> Iterator[None]:
        """Lets the body read one state, whatever others write in the meantime."""
        mine = not self._connection.in_transaction
        try:
            if mine:
                with translated():
                    self._connection.execute("BEGIN")
            yield
        finally:
            if mine:
                self.roll_back()  # nothing was written; what failed in the body is what to tell

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Runs the body whole or not at all; durable when it returns."""
        if self._cramped:
            raise disk_full()
        mine = not self._connection.in_transaction
        with translated():
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                # With the first row that this release writes, not before: until then an older one can read the store. Each
                # time, because a newer release may have upgraded it while this process had it open.
                if self._readable_format() < FORMAT:
                    self._connection.execute(f"PRAGMA user_version={FORMAT}")
                yield
                self._connection.execute("COMMIT")
                HERE.settle(os.path.dirname(self._path))
            except BaseException:
                if mine:
                    self.roll_back()
                raise

    def roll_back(self) -> None:
        """Ends a transaction that is open, whatever became of it: an open one would keep all others from writing."""
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """Returns every row of a query."""
        with translated():
            cursor = self._execute(sql, values)
            found: list[sqlite3.Row] = cursor.fetchmany(_MANY_ROWS)
            if len(found) == _MANY_ROWS:
                most = self._size() // _SMALLEST_ROW
                while more := cursor.fetchmany(_MANY_ROWS):
                    found += more
                    if len(found) > most:
                        raise sqlite3.DatabaseError("it holds more rows than fit into it")
        return found

    def _size(self) -> int:
        pages, size = (self._execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size"))
        return int(pages * size)

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        self._steps = 0
        return self._connection.execute(sql, values)

    def row(self, sql: str, *values: Any) -> sqlite3.Row | None:
        """Returns the first row of a query, or None."""
        with translated():
            found: sqlite3.Row | None = self._execute(sql, values).fetchone()
        return found

    def number(self, sql: str, *values: Any) -> int:
        """Returns the number that a query asks for, 0 where there is none."""
        found = self.row(sql, *values)
        return int(found[0] or 0) if found is not None else 0

    def run(self, sql: str, *values: Any) -> None:
        """Runs one statement."""
        with translated():
            self._execute(sql, values)

    def is_empty(self, table: str) -> bool:
        """Returns whether a table has no row."""
        return self.row(f"SELECT 1 FROM {table} LIMIT 1") is None

    def empty(self, table: str) -> None:
        """Removes every row of a table."""
        if not self.is_empty(table):  # else SQLite would write the table's page anew
            self.run(f"DELETE FROM {table}")

    # -- rows and their checksums -----------------------------------------------------------------

    def insert(self, table: str, *values: Any, over: bool = False) -> None:
        """Adds a row, `over` one that has its place; the first value is None where SQLite gives the number."""
        sql = f"INSERT {'OR REPLACE ' if over else ''}INTO {table} VALUES ({'?, ' * len(self.columns[table])}?)"
        self.run(sql, *values, checksum(*values))
        if values[0] is None:
            self._write_checksums(table, "seq=last_insert_rowid()")

    def update(self, table: str, where: str, *values: Any, **columns: Any) -> None:
        """Changes columns of some rows, and their checksums; the caller has seen that the rows were intact before."""
        self.run(
            f"UPDATE {table} SET {', '.join(f'{name}=?' for name in columns)} WHERE {where}", *columns.values(), *values
        )
        self._write_checksums(table, where, *values)

    def _write_checksums(self, table: str, where: str, *values: Any) -> None:
        self.run(f"UPDATE {table} SET seal=checksum({', '.join(self.columns[table])}) WHERE {where}", *values)

    def select(self, table: str, tail: str = "", *values: Any) -> list[sqlite3.Row]:
        """Returns rows of a table, each with its checksum behind it; raises StoreDamaged where one is not what was written."""
        # The checksum is compared here and not by SQL, which would hand each value to Python twice and stumble over bad text.
        found = self.rows(self._select(table) + tail, *values)
        if not all(map(is_intact, found)):
            raise broken_row(table)
        return found

    def _select(self, table: str) -> str:
        return f"SELECT {', '.join(self.columns[table])}, seal FROM {table} "

    def intact(self, table: str) -> list[sqlite3.Row]:
        """Returns the rows of a table that are what was written, in their order, each with its checksum behind it."""
        return [row for row in self.as_they_are(table) if is_intact(row)]

    def as_they_are(self, table: str) -> list[sqlite3.Row]:
        """Returns the rows of a table, in their order, whatever they hold, each with its checksum behind it."""
        self._connection.text_factory = decode_exactly
        try:
            return self.rows(f"{self._select(table)}ORDER BY {self.columns[table][0]}")
        finally:
            self._connection.text_factory = str

    def meta(self, key: str, default: str = "") -> str:
        """Returns a value of the store's own."""
        found = self.select("meta", "WHERE key=?", key)
        value = found[0]["value"] if found else default
        if not isinstance(value, str):
            raise broken_row("meta")  # written by a program that means harm
        return value

    def set_meta(self, key: str, value: str) -> None:
        """Sets a value of the store's own."""
        self.insert("meta", key, value, over=True)

    def forbids_writing(self) -> bool:
        """Whether the file itself, and not the system, keeps everybody from writing it: two bytes of its head can."""
        if self.read_only or not os.access(self._path, os.W_OK, effective_ids=True):
            return False
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute(f"PRAGMA user_version={self._readable_format()}")
        except sqlite3.OperationalError as error:
            return error.sqlite_errorcode == sqlite3.SQLITE_READONLY  # busy: another process writes it
        finally:
            self.roll_back()
        return False

    def compact(self) -> None:
        """Gives freed pages back to the disk, the log's too."""
        self.run("VACUUM")
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")


def end_with_process() -> None:
    """
    Says that this process ends without taking itself apart as soon as everything is closed.

    To close the last connection, SQLite writes its log back, syncs twice and removes it, and the next process makes a new
    one and syncs twice. Nothing that was saved needs any of that: a killed process leaves the same behind.
    """
    global _left  # noqa: PLW0603 - how a process ends concerns all of it
    _left = _left or []


def is_intact(row: sqlite3.Row) -> bool:
    """Returns whether a row, its checksum last, is what was written."""
    *values, expected = row
    return bool(checksum(*values) == expected)


def decode_exactly(data: bytes) -> str:
    """Returns text that is never taken for other text: what is no UTF-8 gets a checksum that fits nothing."""
    return data.decode("utf-8", "surrogateescape")


def connect(path: str, *, uri: bool = False) -> sqlite3.Connection:
    """Opens a timeline as it is."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0, uri=uri)
    connection.row_factory = sqlite3.Row
    return connection


def connect_to_read(path: str) -> sqlite3.Connection:
    """Opens the timeline of a store that cannot be written here; SQLite would put files beside it."""
    place = "file:" + path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = connect(f"{place}?mode=ro", uri=True)
    try:
        connection.execute("SELECT count(*) FROM meta").fetchone()
    except BaseException as error:
        connection.close()
        if not isinstance(error, sqlite3.OperationalError) or _size_of(path + "-wal"):
            raise  # the newest checkpoints may be in the log alone: an answer without them would be wrong
        connection = connect(f"{place}?immutable=1", uri=True)
    return connection


def _size_of(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0
