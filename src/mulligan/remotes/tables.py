"""The tables that a timeline has besides once it knows a remote: format 3. No other store loads this."""

from __future__ import annotations

from mulligan.timeline.database import WITH_REMOTES, Database
from mulligan.timeline.tables import COLUMNS, TABLES, columns_of, described
from mulligan.timeline.tables import STATEMENTS as OWN_STATEMENTS

# Which checkpoints a remote holds, and copies of other machines' checkpoints.
_REMOTES = """
CREATE TABLE pushed (remote TEXT NOT NULL, id TEXT NOT NULL, commit_id TEXT NOT NULL, seal BLOB NOT NULL, PRIMARY KEY (remote, id)) WITHOUT ROWID;
CREATE UNIQUE INDEX pulled_id ON pulled (machine, id);
CREATE INDEX pulled_name ON pulled (name)
"""
_OWN = next(text for text in OWN_STATEMENTS if text.startswith("CREATE TABLE checkpoint"))
_PULLED = _OWN.replace("TABLE checkpoint", "TABLE pulled").replace(
    "id TEXT NOT NULL UNIQUE", "machine TEXT NOT NULL,\n  id TEXT NOT NULL"
)
STATEMENTS = (_PULLED, *_REMOTES.strip().split(";\n"))
ALL_TABLES = TABLES.union(described(STATEMENTS))
ALL_COLUMNS = COLUMNS | {"pushed": columns_of(STATEMENTS[1]), "pulled": columns_of(_PULLED)}


def add_tables(database: Database) -> None:
    """Adds the tables for remotes where they are missing (inside a transaction)."""
    if not database.knows_remotes():
        for statement in STATEMENTS:
            database.run(statement)
        database.run(f"PRAGMA user_version={WITH_REMOTES}")
        database.knows_remotes()
