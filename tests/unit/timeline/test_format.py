"""A store of a newer release."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import mulligan
from tree import put


def files(store: Path) -> list[str]:
    """What is in a store, but for the files that SQLite puts beside an open database."""
    return sorted(path.name for path in store.iterdir() if not path.name.endswith(("-wal", "-shm")))


def test_a_store_of_a_newer_release_is_left_alone_by_every_verb(project, store):
    """The doctor too: what it cannot read is not damage."""
    put(project, "a", "1")
    mulligan.open(project, store=store).save("one")
    with sqlite3.connect(store / "timeline.db") as database:
        database.execute("PRAGMA user_version=999")
    database.close()
    before = files(store)
    for verb in ("log", "save", "doctor"):
        with pytest.raises(mulligan.StoreError, match="format 999"):
            getattr(mulligan.open(project, store=store), verb)()
    assert files(store) == before
