"""
The history of a project that moved, joined with what was saved in the new place since.

The store of the new place is joined into the old one, behind what that holds: ids stay valid, both timelines are there, and the
position is the new place's. Everything is durable in the old store before the new one is removed, and the old store is
renamed last; an interrupted adoption is run again and finds one of these states.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.errors import UserError
from mulligan.model.cause import CAUSE
from mulligan.model.event import Turn, commands_beside
from mulligan.model.policy import Settings
from mulligan.safefs.directory import Directory, read_all
from mulligan.safefs.durable import make_private, sync, write_durably
from mulligan.safefs.errors import typed
from mulligan.safefs.lock import exclusive
from mulligan.safefs.removal import remove_whole
from mulligan.store import repository
from mulligan.store.objects import ObjectStore
from mulligan.timeline.checkpoints import POSITION, Checkpoints
from mulligan.timeline.commits import Entry, ObjectAdder, write_commit
from mulligan.timeline.database import NAME, Database
from mulligan.timeline.read_commits import record_tree
from mulligan.timeline.root import Identity, identity_of
from mulligan.timeline.stores import contents_of, describe, stores
from mulligan.timeline.tables import from_column
from mulligan.timeline.trees import Trees, pack_changes
from mulligan.timeline.undo import Move

if TYPE_CHECKING:
    import sqlite3


def adopt(settings: Settings, old: str) -> dict[str, Any]:
    """Renames the store of a project that moved to where this workspace looks for it, joined with what is there."""
    try:
        return _adopt(settings, old)
    except OSError as error:
        raise typed(error) from error


def _adopt(settings: Settings, old: str) -> dict[str, Any]:
    source = _store_of(settings, old)
    if source is None:
        raise UserError(f"There is no history for {old}. Nothing was changed.", hint="See every store: mulligan stores")
    if source["exists"] and source["workspace"] != settings.workspace:
        raise UserError(
            f"{source['workspace']} still exists and this is its history. Nothing was changed.",
            hint="Move the project first.",
        )
    since = 0
    if source["path"] != settings.store and os.path.lexists(os.path.join(settings.store, NAME)):
        since = contents_of(settings.store)[1]
        join(source["path"], settings)
    if source["path"] != settings.store:
        _move(source["path"], settings)
    with Directory.open(settings.store) as directory:
        database = Database(settings.store, create=False, directory=directory)
    try:
        record_owner(database, {"workspace": settings.workspace})
    finally:
        database.close()
    return {"from": source["workspace"], "checkpoints": source["checkpoints"] + since, "joined": since}


def _store_of(settings: Settings, old: str) -> dict[str, Any] | None:
    place = os.path.realpath(old)
    if os.path.lexists(os.path.join(place, NAME)):
        return describe(place) or None
    # Where this workspace looks for it, it may be already: moved by an adoption that was cut short.
    rows = [*stores(settings), *([describe(settings.store)] if os.path.isdir(settings.store) else [])]
    return next((row for row in rows if row and row["workspace"] in (place, old)), None)


def _move(path: str, settings: Settings) -> None:
    target = settings.store
    if os.path.lexists(target) and (not os.path.isdir(target) or set(os.listdir(target)) - {"lock"}):
        raise UserError(
            f"{target}, where the history would go, is not empty. Nothing was changed.",
            hint="Name another place: --store DIR",
        )
    make_private(os.path.dirname(target))
    with Directory.open(os.path.dirname(path)) as before, Directory.open(os.path.dirname(target)) as after:
        name, new = os.fsencode(os.path.basename(path)), os.fsencode(os.path.basename(target))
        with before.child(name) as store, exclusive(store, wait=settings.wait, purpose="adopt"):
            if after.exists(new):
                after.remove_tree(new)  # an empty one, which was checked
            try:
                before.rename(name, new, to=after)
            except OSError as error:
                raise UserError(
                    f"The history in {path} cannot be moved to {target} ({error.strerror}). Nothing was changed.",
                    hint=f"Use it where it is: mulligan --store {path} …",
                ) from error
            # Its timeline names the new workspace next: after a power cut it must not say so in the old place.
            for directory in (after, before):
                sync(directory.fd, "the move of a store")


_PACKS = b"objects/pack"
_JOINING, _NOTE, _SINCE, _EPOCH = "joining", "note:", "workspace_since", "epoch"
_LEAST_COMMON = 0.5


def join(source: str, settings: Settings) -> None:
    """Joins the store of a workspace into the one of the place that it came from, and removes it."""
    home, name = os.path.split(settings.store)
    with (
        Directory.open(source) as old,
        exclusive(old, wait=settings.wait, purpose="adopt"),
        Directory.open(home) as parent,
        parent.child(os.fsencode(name)) as new,
        exclusive(new, wait=settings.wait, purpose="adopt"),
    ):
        with (
            closing(Database(source, create=False, directory=old)) as into,
            closing(Database(settings.store, create=False, directory=new)) as since,
        ):
            _Join((old, into), (new, since), settings).run()
        remove_whole(parent, os.fsencode(name))


class _Join:
    """One join of two stores, both held."""

    def __init__(self, old: tuple[Directory, Database], new: tuple[Directory, Database], settings: Settings) -> None:
        self._old, self._into = old
        self._new, self._since = new
        self._settings = settings

    def run(self) -> None:
        """Copies packs, then writes all rows in one transaction."""
        self._refuse_strangers()
        self._copy_packs()
        with closing(ObjectStore(self._old)) as objects, closing(ObjectStore(self._new)) as theirs:
            checkpoints = Checkpoints(self._into, lambda: objects)
            entries = Checkpoints(self._since, lambda: theirs).oldest()
            with self._into.transaction():
                self._begin()
                self._add(checkpoints, self._renumbered(entries, objects), Trees(objects))
                self._steps()
                self._notes()

    def _refuse_strangers(self) -> None:
        """Raises UserError where the two have nothing in common: not the directory, and hardly a name at its top."""
        recorded = Identity.from_meta(self._into.meta)
        if recorded.inode and not recorded.is_another(identity_of(self._settings.workspace), last_ns=0):
            return
        theirs, ours = self._top_names(self._new, self._since), self._top_names(self._old, self._into)
        if theirs and ours and len(theirs & ours) < _LEAST_COMMON * min(len(theirs), len(ours)):
            raise UserError(
                f"{self._settings.workspace} already has a history of its own, and its files have little in common with "
                f"those of {self._into.meta('workspace')}. Nothing was changed.",
                hint="mulligan log",
            )

    @staticmethod
    def _top_names(directory: Directory, database: Database) -> set[bytes]:
        with closing(ObjectStore(directory)) as objects:
            entry = Checkpoints(database, lambda: objects).current()
            return {each.name for each in objects.read_tree(entry.files_tree)} if entry is not None else set()

    def _copy_packs(self) -> None:
        """Gives the old store the packs of the new one, durably; a pack is never changed, so a second name will do."""
        with self._new.descend(_PACKS) as there, self._old.descend(_PACKS) as here:
            # The index comes last: a pack without one is not looked at.
            for name in sorted(there.names(), key=lambda each: each.endswith(b".idx")):
                if not name.startswith(b"pack-") or here.exists(name):
                    continue
                try:
                    there.link(name, name, to=here)
                except OSError:
                    with there.reading(name) as fd:
                        write_durably(here, name, [read_all(fd)], temporary=b"tmp-" + name, what="a pack")
            sync(here.fd, "the packs of a store")

    def _begin(self) -> None:
        """Removes what an interrupted join of the same store wrote; notes where this one begins."""
        said = self._into.meta(_JOINING)
        known = json.loads(said) if said else {}
        mine = repository.store_id(self._new) or ""
        if known.get("store") != mine:
            last = {table: self._into.number(f"SELECT max(seq) FROM {table}") for table in ("move", "deed")}
            known = {"store": mine, **last, "position": self._into.meta(POSITION)}
            self._into.set_meta(_JOINING, json.dumps(known))
        for table in ("move", "deed"):
            self._into.run(f"DELETE FROM {table} WHERE seq>?", known[table])
        self._before = str(known["position"])
        self._numbers = Renumbering(self._into)

    def _renumbered(self, entries: list[Entry], objects: ObjectStore) -> list[Entry]:
        """Returns checkpoints of the new place with the numbers that their sessions have in both; writes their commits anew."""
        with objects.writer() as writer:
            found = [self._numbers.entry(entry, objects, writer) for entry in entries]
            writer.finish()
        return found

    def _add(self, checkpoints: Checkpoints, entries: list[Entry], source: Trees) -> None:
        parent = checkpoints.by_id(self._before)
        for entry in entries:
            if checkpoints.by_id(entry.id) is not None:
                continue
            cp = entry.checkpoint
            if cp.parent is None and parent is not None:
                # The first in the new place came after the last in the old one.
                cp = cp.replace(parent=parent.id, packed_changes=pack_changes(source, parent, entry))
            checkpoints.add(entry._replace(checkpoint=cp, seq=0))
            checkpoints.owe_ref(entry)
        here = self._since.meta(POSITION)
        if here:
            checkpoints.set_position(here)

    def _steps(self) -> None:
        """Puts the steps of undo and the events behind those of the old place; what can be redone is the new place's."""
        for row in self._since.select("move", "ORDER BY seq"):
            self._into.insert("move", None, row["id"], self._numbers.move(row))
        self._into.empty("redo")
        for row in self._since.select("redo", "ORDER BY seq"):
            self._into.insert("redo", None, row["id"], row["what"])
        for row in self._since.select("deed", "ORDER BY seq"):
            self._into.insert("deed", None, *self._numbers.event(row))

    def _notes(self) -> None:
        for row in self._since.select("meta"):
            if row["key"].startswith(_NOTE) or row["key"] == _SINCE:
                self._into.set_meta(row["key"], row["value"])
        epoch = self._into.meta(_EPOCH, "0")
        self._into.set_meta(_EPOCH, str(int(epoch) + 1 if epoch.isdecimal() else 1))


def record_owner(database: Database, values: dict[str, Any]) -> None:
    """Notes whose history a store holds now; nothing is left to join."""
    with database.transaction():
        for key, value in values.items():
            database.set_meta(key, value)
        if database.meta(_JOINING):
            database.set_meta(_JOINING, "")


class LastNumbers(NamedTuple):
    """The last prompt and the last tool of a session."""

    prompt: int = 0
    number: int = 0


class Renumbering:
    """Gives what was recorded in a new place the numbers that follow those of the old one."""

    def __init__(self, old: Database) -> None:
        rows = old.rows("SELECT session, max(prompt), max(number) FROM deed GROUP BY session")
        self._last = {from_column(row[0]): LastNumbers(int(row[1] or 0), int(row[2] or 0)) for row in rows}

    def _of(self, session: object) -> LastNumbers:
        return self._last.get(str(session), LastNumbers())

    def event(self, row: sqlite3.Row) -> list[Any]:
        """Returns the columns of an event, without its place in the table."""
        last, values = self._of(from_column(row["session"])), dict(zip(row.keys(), tuple(row), strict=True))
        values["prompt"] += last.prompt if values["prompt"] else 0
        values["number"] += last.number if values["number"] else 0
        return list(values.values())[1:-1]

    def move(self, row: sqlite3.Row) -> str:
        """Returns what a step of undo says: the turn that it took back has its new number."""
        move = Move.read(row)
        if move.mark is None or move.mark.turn is None:
            return str(row["what"])
        session, prompt = move.mark.turn
        turn = Turn(session, prompt + self._of(session).prompt)
        return move._replace(mark=move.mark._replace(turn=turn)).column

    def entry(self, entry: Entry, objects: ObjectStore, writer: ObjectAdder) -> Entry:
        """Returns a checkpoint that names its turns by their new numbers; its commit is another one if they differ."""
        cause = entry.checkpoint.metadata.get(CAUSE)
        said = self._cause(cause) if isinstance(cause, dict) else cause
        if said == cause:
            return entry
        state = entry.checkpoint.state
        metadata = {**entry.checkpoint.metadata, CAUSE: said}
        checkpoint = entry.checkpoint.replace(metadata=metadata, state_source=lambda: state)
        return write_commit(entry._replace(checkpoint=checkpoint), writer, record_tree(objects, entry.commit_id))

    def _cause(self, cause: dict[str, Any]) -> dict[str, Any]:
        last, said = self._of(cause.get("session")), dict(cause)
        for name, add in (("prompt", last.prompt), ("tool", last.number)):
            if isinstance(said.get(name), int) and said[name]:
                said[name] += add
        turn = said.get("turn")
        if isinstance(turn, list) and len(turn) == 2:
            said["turn"] = [turn[0], turn[1] + self._of(turn[0]).prompt]
        if beside := commands_beside(cause):
            said["beside"] = [
                {**each, "prompt": each["prompt"] + self._of(each["session"]).prompt} if each["prompt"] else each
                for each in beside
            ]
        return said
