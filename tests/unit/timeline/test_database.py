"""The timeline's database: whole transactions, private files, errors that say whose fault it is."""

from __future__ import annotations

import sqlite3
import stat
from typing import Any

import pytest

from mulligan.errors import Busy, NoRoom, StoreDamaged, StoreError
from mulligan.safefs.directory import Directory
from mulligan.timeline.database import FORMAT, Database, translated
from mulligan.timeline.tables import as_column, from_column


@pytest.fixture
def place(tmp_path):
    with Directory.open(tmp_path) as directory:
        yield directory


@pytest.fixture
def database(place, tmp_path):
    made = Database(str(tmp_path), create=True, directory=place)
    yield made
    made.close()


def test_its_files_are_private_from_the_first_instant(database, tmp_path):
    database.set_meta("k", "v")
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_a_transaction_happens_whole_or_not_at_all(database):
    with pytest.raises(KeyError), database.transaction():
        database.set_meta("k", "v")
        raise KeyError
    assert database.meta("k", "none") == "none"
    with database.transaction():
        database.set_meta("k", "v")
        database.set_meta("k", "w")
    assert database.meta("k") == "w"


class Interrupting:
    """A connection on which one statement is done, or not, and then something comes between."""

    def __init__(self, connection: sqlite3.Connection, statement: str, error: BaseException, *, done: bool) -> None:
        self._connection, self._statement, self._error, self._done = connection, statement, error, done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *values: Any) -> Any:
        if sql == self._statement and self._done:
            self._connection.execute(sql, *values)
        if sql == self._statement:
            raise self._error
        return self._connection.execute(sql, *values)


@pytest.mark.parametrize(
    ("statement", "error", "done"),
    [
        ("BEGIN IMMEDIATE", KeyboardInterrupt(), True),
        ("BEGIN", KeyboardInterrupt(), True),
        ("COMMIT", sqlite3.OperationalError("disk I/O error"), False),
    ],
)
def test_whatever_comes_between_no_transaction_is_left_that_would_keep_everybody_from_writing(
    database, monkeypatch, statement, error, done
):
    with monkeypatch.context() as patched:
        patched.setattr(database, "_connection", Interrupting(database._connection, statement, error, done=done))
        body = database.at_one_moment() if statement == "BEGIN" else database.transaction()
        with pytest.raises((KeyboardInterrupt, StoreError)), body:
            statement != "BEGIN" and database.set_meta("k", "v")
    assert not database._connection.in_transaction
    assert database.meta("k", "none") == "none"
    with database.transaction():
        database.set_meta("k", "w")
    assert database.meta("k") == "w"


def test_a_transaction_that_an_interruption_left_open_ends_with_the_holding_of_the_store(database):
    database._connection.execute("BEGIN IMMEDIATE")
    database.set_meta("k", "v")
    database.roll_back()
    assert not database._connection.in_transaction and database.meta("k", "none") == "none"


def test_a_second_opening_finds_what_the_first_wrote(database, place, tmp_path):
    database.set_meta("k", "v")
    other = Database(str(tmp_path), create=False, directory=place)
    assert other.meta("k") == "v" and other.inode == database.inode
    other.close()


def test_a_missing_or_strange_file_is_damage(place, tmp_path):
    with pytest.raises(StoreDamaged, match="missing"):
        Database(str(tmp_path), create=False, directory=place)
    (tmp_path / "timeline.db").write_bytes(b"no database" * 999)
    with pytest.raises(StoreDamaged, match="cannot be read"):
        Database(str(tmp_path), create=False, directory=place)


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("database is locked", sqlite3.SQLITE_BUSY, Busy),
        ("database or disk is full", sqlite3.SQLITE_FULL, NoRoom),
        ("attempt to write a readonly database", sqlite3.SQLITE_READONLY, StoreError),
        ("unable to open database file", sqlite3.SQLITE_CANTOPEN, StoreError),
        ("database disk image is malformed", sqlite3.SQLITE_CORRUPT, StoreDamaged),
    ],
)
def test_each_failure_is_what_it_is(text, code, expected):
    """A file that may not be opened is not damaged, and no doctor puts it aside."""
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    with pytest.raises(StoreError if expected is StoreDamaged else expected) as caught, translated():
        raise error
    assert type(caught.value) is expected


@pytest.mark.parametrize("text", ["", "plain", "\ud800", "a\0b", "é"])
def test_any_text_goes_into_a_column_and_comes_back(database, text):
    (value,) = database.row("SELECT ?", as_column(text))
    assert from_column(value) == text


def test_a_timeline_that_lost_the_number_of_its_format_gets_it_back_and_keeps_its_records(database, place, tmp_path):
    database.set_meta("k", "v")
    database.run("PRAGMA user_version=0")
    database.close()
    again = Database(str(tmp_path), create=False, directory=place)
    assert (again.meta("k"), again.row("PRAGMA user_version")[0]) == ("v", FORMAT)
    again.close()


def test_an_upgrade_is_taken_back_with_the_change_that_it_belongs_to(database):
    database.run("PRAGMA user_version=1")
    with pytest.raises(RuntimeError), database.transaction():
        database.set_meta("k", "v")
        assert database.row("PRAGMA user_version")[0] == FORMAT
        raise RuntimeError
    assert (database.meta("k"), database.row("PRAGMA user_version")[0]) == ("", 1)
