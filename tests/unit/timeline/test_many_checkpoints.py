"""A long history costs disk, and not the time of a save."""

from __future__ import annotations

import os
import sqlite3

import pytest

from mulligan.timeline.undo import Move
from tree import put


def steps_of(ws, act) -> int:
    """How many instructions SQLite carries out for something."""
    (connection,) = (v for v in vars(ws.bench.store.database).values() if isinstance(v, sqlite3.Connection))
    count = 0

    def one() -> int:
        nonlocal count
        count += 1
        return 0

    connection.set_progress_handler(one, 1)
    try:
        act()
    finally:
        connection.set_progress_handler(None, 0)
    return count


def grow(ws, number: int) -> None:
    """Adds checkpoints that hold what the position holds."""
    vault = ws.bench.store
    with ws.bench.writing("note"), vault.database.transaction():
        entry = vault.checkpoints.current()
        for _ in range(number):
            fresh = {"id": os.urandom(8).hex(), "name": os.urandom(4).hex(), "kind": "manual"}
            more = entry._replace(seq=0, checkpoint=entry.checkpoint.replace(**fresh))
            vault.checkpoints.add(more)
            vault.moves.push(Move(more.id))
        vault.checkpoints.set_position(more.id)


@pytest.mark.parametrize(
    "verb",
    [
        lambda ws: ws.save("now", kind="step"),
        lambda ws: ws.save("now"),
        lambda ws: ws.restore("@"),
        lambda ws: ws.log(limit=5),
        lambda ws: ws.get("first"),
        lambda ws: ws.diff(),
        lambda ws: ws.delete(ws.log(limit=1)[0]),
    ],
    ids=["step", "save", "restore", "log", "get", "diff", "delete"],
)
def test_two_thousand_checkpoints_do_not_slow_a_verb(ws, project, verb):
    put(project, "f", "0")
    ws.save("first")
    for number in range(3):
        put(project, "f", str(number))
        ws.save("step", kind="step")
    few = steps_of(ws, lambda: (put(project, "f", "a"), verb(ws)))
    grow(ws, 2000)
    many = steps_of(ws, lambda: (put(project, "f", "b"), verb(ws)))
    assert many < few + 300


def test_what_a_checkpoint_says_is_packed_as_well_as_what_it_holds(ws, project, store):
    """A conversation grows by a line with every checkpoint, and the store by about that line."""
    put(project, "f", "0")
    talk: list[str] = []
    for _ in range(60):
        talk.append(os.urandom(40).hex())
        ws.save(state={"conversation": talk})
    whole = sum(len("".join(talk[: n + 1])) for n in range(60)) // 2
    ws.prune()
    assert sum(path.stat().st_size for path in (store / "objects/pack").glob("*.pack")) < whole / 2
    assert ws.get("latest~30").state["conversation"] == talk[:30]
    assert not ws.check().problems


def test_packing_leaves_no_history_in_what_the_scan_remembers(ws, project, store):
    for name in range(30):
        put(project, f"f{name}", "0")
    for number in range(60):
        put(project, "f1", str(number))
        ws.save()
    before = (store / "cache").stat().st_size
    ws.prune()
    assert (store / "cache").stat().st_size < before / 10
    put(project, "f1", "changed")
    assert ws.save(if_changed=True).files_changed == ("f1",)
