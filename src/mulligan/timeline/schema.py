"""The tables of the timeline, exactly as SQLite's own table of tables must tell them."""

from __future__ import annotations

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
# What SQLite's own table of tables must say: a view, a trigger or another table does what its maker wants.
TABLES = frozenset(
    [
        # By words: a table has a name, an index also the table that it is on.
        *(
            (kind.lower(), name, words[1] if words[0] == "ON" else name, text)
            for text in STATEMENTS
            for _, kind, name, *words in [text.split(None, 5)]
        ),
        ("index", "sqlite_autoindex_checkpoint_1", "checkpoint", None),
        ("table", "sqlite_sequence", "sqlite_sequence", "CREATE TABLE sqlite_sequence(name,seq)"),
    ]
)
