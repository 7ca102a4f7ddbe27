"""
The timeline against itself and against the commits.

Each row has its seal, each name must name something, and what a row says of a checkpoint must be what its commit says.
What cannot be read is a breach and not an error, once the timeline could be opened; the checkpoints are then taken from the
refs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mulligan.errors import MulliganError, StoreDamaged
from mulligan.store import refs
from mulligan.timeline.commits import Entry, read_commit
from mulligan.timeline.journal import STAGING, read_journal
from mulligan.timeline.vault import Vault


class Breach(NamedTuple):
    """One thing that is wrong with the timeline, and the checkpoints it concerns."""

    detail: str
    checkpoints: tuple[str, ...] = ()


class Said(NamedTuple):
    """What timeline and repository say: the commit of each row, every checkpoint that can be read, and what is wrong."""

    rows: dict[str, bytes]
    entries: list[Entry]
    breaches: list[Breach]


def read(vault: Vault) -> Said:
    """Reads the whole timeline and compares it with the commits."""
    database, breaches, rows = vault.database, list[Breach](), list[Entry]()
    try:
        breaches += [Breach(text) for text in database.integrity()]
        breaches += [_unsealed(*broken) for broken in database.broken()]
        breaches += [Breach(text) for text in database.misnumbered()]
        with database.at_one_moment():
            rows = vault.checkpoints.believable()
            if breaches:  # a broken index hides rows from queries
                breaches += [
                    Breach(f"{entry.id} is not found by its id", (entry.id,))
                    for entry in rows
                    if not _is_found(vault, entry)
                ]
            breaches += _names(vault, rows)
    except StoreDamaged as error:
        breaches.append(Breach(error.message))
    for entry in rows:
        breaches += _against_commit(vault, entry)
    known = {entry.id for entry in rows}
    rest = []
    for name, commit in refs.read_refs(vault.directory).items():
        if name not in known:
            try:
                rest.append(read_commit(vault.objects, commit))
            except MulliganError:
                continue  # the refs without a row are named on their own
    return Said({entry.id: entry.commit_id for entry in rows}, rows + rest, breaches)


def _is_found(vault: Vault, entry: Entry) -> bool:
    try:
        return vault.checkpoints.by_id(entry.id) is not None
    except StoreDamaged:
        return False


def _unsealed(table: str, name: Any) -> Breach:
    called = f" of {name!r}" if isinstance(name, str) else ""
    concerned = (name,) if table == "checkpoint" and isinstance(name, str) else ()
    return Breach(f"a record{called} in {table} is not what was written", concerned)


def _names(vault: Vault, rows: list[Entry]) -> list[Breach]:
    """Names in the timeline that name nothing."""
    known = {entry.id for entry in rows} | {""}
    asked = [("the position", vault.checkpoints.position())]
    asked += [(f"the parent of {entry.id}", entry.checkpoint.parent or "") for entry in rows]
    asked += [("a step of undo", move.id) for move in vault.moves.down(-1)]
    asked += [("a step of redo", move.id) for move in vault.moves.redoable()]
    if (journal := read_journal(vault.database)) is not None:
        asked.append(("the journal", journal.target))
        if journal.phase != STAGING:  # before that, the checkpoint may still have been on its way
            asked.append(("the journal", journal.safety))
    return [Breach(f"{what} names {name}, which is not there") for what, name in asked if name not in known]


def _against_commit(vault: Vault, entry: Entry) -> list[Breach]:
    """Where a row and its commit say different things; ancestry, and what follows from it, is the timeline's alone."""
    try:
        theirs = _facts(read_commit(vault.objects, entry.commit_id))
    except MulliganError:
        return []  # the objects of a checkpoint are looked at on their own
    try:
        mine = _facts(entry)
    except MulliganError as error:
        return [Breach(error.message, (entry.id,))]
    return [
        Breach(f"{what} of {entry.id} is not what its commit says", (entry.id,))
        for what in mine
        if mine[what] != theirs[what]
    ]


def _facts(entry: Entry) -> dict[str, Any]:
    cp = entry.checkpoint
    return {
        "id": cp.id, "name": cp.name, "description": cp.description, "kind": cp.kind, "time": entry.created_ns,
        "files": entry.files_tree, "modes": entry.modes_tree, "defaults": tuple(entry.defaults), "complete": cp.complete,
        "git": cp.git, "context": cp.context, "metadata": cp.metadata, "state": cp.state, "not captured": cp.not_captured,
        "secrets": cp.plain_secrets,
    }  # fmt: skip
