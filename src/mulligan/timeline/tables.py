"""
The tables of the timeline, and the checksum that every row carries.

SQLite notices when its pages no longer hang together, and not when a value inside one changed: a name with another letter,
a permission bit, a parent. A row whose checksum does not fit is never believed. Checksums are no defence against a program
that may write to the store: it can compute them too.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, seal BLOB NOT NULL) WITHOUT ROWID;
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
  metadata TEXT NOT NULL,
  seal BLOB NOT NULL
);
CREATE INDEX checkpoint_name ON checkpoint (name);
CREATE INDEX checkpoint_kind ON checkpoint (kind);
CREATE INDEX checkpoint_parent ON checkpoint (parent);
CREATE TABLE move (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, what TEXT NOT NULL, seal BLOB NOT NULL);
CREATE INDEX move_id ON move (id);
CREATE TABLE redo (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, what TEXT NOT NULL, seal BLOB NOT NULL);
CREATE TABLE journal (one INTEGER PRIMARY KEY CHECK (one = 1), phase TEXT NOT NULL, plan BLOB NOT NULL, seal BLOB NOT NULL);
CREATE TABLE fresh_ref (id TEXT PRIMARY KEY, commit_id TEXT NOT NULL, seal BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE dead_ref (id TEXT PRIMARY KEY, seal BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE pin (id TEXT NOT NULL, pid INTEGER NOT NULL, seal BLOB NOT NULL);
CREATE TABLE deed (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  created_ns INTEGER NOT NULL,
  session TEXT NOT NULL,
  kind TEXT NOT NULL,
  prompt INTEGER NOT NULL,
  number INTEGER NOT NULL,
  call TEXT NOT NULL,
  open INTEGER NOT NULL,
  about TEXT NOT NULL,
  checkpoint TEXT NOT NULL,
  saved INTEGER NOT NULL,
  seal BLOB NOT NULL
);
CREATE INDEX deed_session ON deed (session, seq);
CREATE INDEX deed_open ON deed (open);
"""
STATEMENTS = tuple(_SCHEMA.strip().removesuffix(";").split(";\n"))


def described(statements: tuple[str, ...]) -> list[tuple[str, str, str, str]]:
    """Returns the rows of SQLite's own table of tables: a table has a name, an index also the table that it is on."""
    found = []
    for text in statements:
        words = text.replace("CREATE UNIQUE", "CREATE", 1).split(None, 5)
        found.append((words[1].lower(), words[2], words[4] if words[3] == "ON" else words[2], text))
    return found


def columns_of(statement: str) -> tuple[str, ...]:
    """Returns the columns of a table before `seal`, which holds their checksum and stands last."""
    before = statement[statement.index("(") + 1 : statement.index("seal BLOB")]
    return tuple(column.split()[0] for column in before.split(",") if column.strip())


# What SQLite's own table of tables must say: a view, a trigger or another table does what its maker wants.
TABLES = frozenset(
    [
        *described(STATEMENTS),
        ("index", "sqlite_autoindex_checkpoint_1", "checkpoint", None),
        ("table", "sqlite_sequence", "sqlite_sequence", "CREATE TABLE sqlite_sequence(name,seq)"),
    ]
)
#: The columns of each table that its checksum covers.
COLUMNS = {name: columns_of(text) for kind, name, _, text in described(STATEMENTS) if kind == "table"}
_LENGTH = 8


def checksum(*values: Any) -> bytes:
    """Returns the checksum of a row; SQL knows this function by the same name."""
    parts = []
    for value in values:
        if isinstance(value, str):
            data = value.encode("utf-8", "surrogatepass")
            parts.append(b"t%d:%b" % (len(data), data))
        elif isinstance(value, bytes):
            parts.append(b"b%d:%b" % (len(value), value))
        else:
            data = repr(value).encode()
            parts.append(b"v%d:%b" % (len(data), data))
    return blake2b(b"".join(parts), digest_size=_LENGTH, usedforsecurity=False).digest()


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
