"""The tables that a timeline has besides once it knows a remote: format 3. No other store loads this."""

from __future__ import annotations

from mulligan.timeline.database import WITH_REMOTES, Database
from mulligan.timeline.tables import COLUMNS, TABLES, described

# Which checkpoints a remote holds, and copies of other machines' checkpoints.
_REMOTES = """
CREATE TABLE pushed (remote TEXT NOT NULL, id TEXT NOT NULL, commit_id TEXT NOT NULL, seal BLOB NOT NULL, PRIMARY KEY (remote, id)) WITHOUT ROWID;
CREATE TABLE pulled (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  machine TEXT NOT NULL,
  id TEXT NOT NULL,
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
CREATE UNIQUE INDEX pulled_id ON pulled (machine, id);
CREATE INDEX pulled_name ON pulled (name)
"""
STATEMENTS = tuple(_REMOTES.strip().split(";\n"))
ALL_TABLES = TABLES.union(described(STATEMENTS))
ALL_COLUMNS = COLUMNS | {
    "pushed": ("remote", "id", "commit_id"),
    "pulled": ("seq", "machine", *COLUMNS["checkpoint"][1:]),
}


def add_tables(database: Database) -> None:
    """Adds the tables for remotes where they are missing (inside a transaction)."""
    if not database.knows_remotes():
        for statement in STATEMENTS:
            database.run(statement)
        database.run(f"PRAGMA user_version={WITH_REMOTES}")
        database.knows_remotes()
