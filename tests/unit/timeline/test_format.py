"""A store of a newer release, and one of an older."""

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


def number(store: Path, to: int | None = None) -> int:
    """The format of a store's timeline; `to` makes it another."""
    database = sqlite3.connect(store / "timeline.db", isolation_level=None)
    try:
        if to is not None:
            database.execute(f"PRAGMA user_version={to}")
        return database.execute("PRAGMA user_version").fetchone()[0]
    finally:
        database.close()


def test_a_store_of_an_older_release_is_upgraded_by_the_first_change_and_not_by_a_look(project, store):
    put(project, "a", "1")
    mulligan.open(project, store=store).save("one")
    newest = number(store)
    assert number(store, to=1) == 1 < newest
    with mulligan.open(project, store=store) as ws:
        assert [found.name for found in ws.log()] == ["one"]
        ws.status()
        assert number(store) == 1
        put(project, "a", "2")
        ws.save("two")
    assert number(store) == newest
    with mulligan.open(project, store=store) as ws:
        ws.undo()
        assert (project / "a").read_text() == "1"
        ws.redo()
        assert [found.name for found in ws.log(kind="manual")] == ["two", "one"]
        assert ws.check().ok


def test_a_process_that_has_the_store_open_refuses_it_once_a_newer_release_upgraded_it(project, store):
    put(project, "a", "1")
    with mulligan.open(project, store=store) as ws:
        ws.save("one")
        number(store, to=999)
        put(project, "a", "2")
        with pytest.raises(mulligan.StoreError, match="format 999"):
            ws.save("two")
    number(store, to=1)
    assert [found.name for found in mulligan.open(project, store=store).log()] == ["one"]
