"""
What a store remembers of its remotes: their addresses, how far each chain was read, what was pushed and forgotten.

All of it is in the timeline, sealed like every other record. Changes happen inside the caller's transaction.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mulligan.errors import UserError
from mulligan.model.bounded import read_json
from mulligan.remotes.protocol import Forgotten, machine_name
from mulligan.remotes.pulled import FORGOTTEN, MACHINE, MACHINE_NAME, TIMELINE, Pulled, name_machine
from mulligan.remotes.tables import add_tables
from mulligan.safefs.directory import random_name
from mulligan.store import repository
from mulligan.timeline.database import Database
from mulligan.timeline.store import Store

_REMOTE, _CHAIN, _DEED = "remotes:remote:", "remotes:chain:", "remotes:deed:"
_SENT, _INTENT, _LAST = "remotes:sent:", "remotes:intent:", "remotes:last:"
#: Below which refs chains are kept on a git server.
HIDDEN, VISIBLE = "refs/mulligan", "refs/heads/mulligan"


class RemoteNote(NamedTuple):
    """A remote: its name, its address, and what was found out about its server."""

    name: str
    url: str
    kind: str
    encrypted: bool = False
    place: str = ""
    able: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    identity: str = ""
    lazy: bool = False

    def remarks(self) -> list[str]:
        """Returns what the server cannot do, and what follows."""
        if self.place == VISIBLE:
            return ["This server takes branches only: the history appears there as branches below mulligan/."]
        if self.kind == "git":
            return []
        found = []
        if "create" not in self.able:
            found.append(
                "This server overwrites objects without a word: only one machine may push here, and gc refuses."
            )
        if "list" not in self.able:
            found.append("This server does not list at once what was written: a pull may come a little late.")
        if "delete" not in self.able:
            found.append(
                "This key may not delete: pushing and pulling work, `gc --remote` and `remote member rm` do not."
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        said = {"name": self.name, "url": self.url, "kind": self.kind, "encrypted": self.encrypted}
        return {**said, "lazy": True} if self.lazy else said


class ChainMark(NamedTuple):
    """How far a chain is known: its last segment, that segment's hash, and on a git server its commit."""

    number: int = 0
    digest: str = ""
    tip: str = ""
    name: str = ""
    applied: tuple[str, ...] = ()


class LastPush(NamedTuple):
    """When a push last ended well, and the error of a later one; times in nanoseconds, 0 where there was none."""

    at: int = 0
    failed_at: int = 0
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "pushed_at": _stamp(self.at) if self.at else None,
            "failed_at": _stamp(self.failed_at) if self.error else None,
            "error": self.error or None,
        }


def _stamp(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="seconds")


class ForgottenNote(NamedTuple):
    """A path that some machine forgot, and whether this machine removed it from its own checkpoints too."""

    what: Forgotten
    machine: str
    applied: bool


class RemoteRecords:
    """The remotes of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.database: Database = store.database

    # -- who ------------------------------------------------------------------------------------

    def machine(self) -> str:
        """Returns the id of this machine in this timeline, empty before the first remote."""
        return self.database.meta(MACHINE)

    def machine_name(self) -> str:
        """Returns what this machine is called."""
        return self.database.meta(MACHINE_NAME)

    def timeline(self) -> str:
        """Returns the id of the timeline: that of the store which began it."""
        return self.database.meta(TIMELINE) or repository.store_id(self.store.directory) or ""

    def introduce(self, *, timeline: str = "", name: str = "") -> None:
        """Gives this store what it needs to have remotes; again is harmless."""
        add_tables(self.database)
        if timeline and timeline != self.timeline():
            self.database.set_meta(TIMELINE, timeline)
        if not self.machine():
            self.be_another(name)

    def be_another(self, name: str = "") -> None:
        """Gives this store a new id: another store pushes under the old one, because one is a copy of the other."""
        self.database.set_meta(MACHINE, random_name(8))
        self.database.set_meta(MACHINE_NAME, machine_name(name or self.machine_name() or os.uname().nodename))
        self.database.empty("pushed")
        self.database.run("DELETE FROM meta WHERE key>=? AND key<?", _DEED, _DEED + "~")

    # -- remotes --------------------------------------------------------------------------------

    def remotes(self) -> list[RemoteNote]:
        """Returns all remotes, by name."""
        rows = self.database.select("meta", "WHERE key>=? AND key<? ORDER BY key", _REMOTE, _REMOTE + "~")
        found = []
        for row in rows:
            # A note of another version may say more: what is not known here is ignored.
            said = {key: value for key, value in read_json(row["value"]).items() if key in RemoteNote._fields}
            listed = {key: tuple(said.get(key, ())) for key in ("able", "pins")}
            found.append(RemoteNote(**{**said, **listed}))
        return found

    def remote(self, name: str | None) -> RemoteNote:
        """Returns a remote by its name, or the only one; raises UserError."""
        known = self.remotes()
        if name is None and len(known) == 1:
            return known[0]
        for each in known:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in known)
        if not known:
            raise UserError("There is no remote yet. Nothing was sent.", hint="mulligan remote add NAME URL")
        if name is None:
            raise UserError(f"There are several remotes ({names}). Nothing was sent.", hint="Name one of them.")
        raise UserError(f"No remote is called {name!r}. Nothing was sent.", hint=f"There are: {names}")

    def keep(self, remote: RemoteNote) -> None:
        """Notes a remote."""
        self.database.set_meta(_REMOTE + remote.name, json.dumps(remote._asdict(), sort_keys=True))

    def drop(self, name: str) -> None:
        """Removes a remote and all that is known of it; pulled checkpoints stay."""
        for key in (_REMOTE + name, _DEED + name, _SENT + name, _INTENT + name, _LAST + name):
            self.database.run("DELETE FROM meta WHERE key=?", key)
        self.database.run("DELETE FROM meta WHERE key>=? AND key<?", f"{_CHAIN}{name}:", f"{_CHAIN}{name}:~")
        self.database.run("DELETE FROM pushed WHERE remote=?", name)

    # -- chains ---------------------------------------------------------------------------------

    def marks(self, remote: str) -> dict[str, ChainMark]:
        """Returns how far each machine's chain on a remote is known."""
        prefix = f"{_CHAIN}{remote}:"
        rows = self.database.select("meta", "WHERE key>=? AND key<?", prefix, prefix + "~")
        found = {}
        for row in rows:
            said = read_json(row["value"])
            found[row["key"].removeprefix(prefix)] = ChainMark(**{**said, "applied": tuple(said["applied"])})
        return found

    def set_mark(self, remote: str, machine: str, mark: ChainMark) -> None:
        """Notes how far a chain is known."""
        self.database.set_meta(f"{_CHAIN}{remote}:{machine}", json.dumps(mark._asdict(), sort_keys=True))
        if machine != self.machine() and mark.name:
            name_machine(self.database, machine, mark.name)

    def pushed(self, remote: str) -> dict[str, str]:
        """Returns the commit of each checkpoint that a remote holds."""
        rows = self.database.select("pushed", "WHERE remote=?", remote)
        return {row["id"]: row["commit_id"] for row in rows}

    def set_pushed(self, remote: str, held: dict[str, str]) -> None:
        """Notes what a remote holds."""
        before = self.pushed(remote)
        for gone in before.keys() - held.keys():
            self.database.run("DELETE FROM pushed WHERE remote=? AND id=?", remote, gone)
        for name, commit in held.items():
            if before.get(name) != commit:
                self.database.insert("pushed", remote, name, commit, over=True)

    def told_until(self, remote: str) -> int:
        """Returns the number of the last event of an agent that a remote was told of."""
        said = self.database.meta(_DEED + remote, "0")
        return int(said) if said.isdecimal() else 0

    def set_told(self, remote: str, number: int) -> None:
        """Notes the last event of an agent that a remote was told of."""
        self.database.set_meta(_DEED + remote, str(number))

    def sent(self, remote: str) -> dict[str, list[Any]]:
        """Returns the packs that an interrupted push has sent already, by their hash."""
        said = read_json(self.database.meta(_SENT + remote, "{}"))
        return said if isinstance(said, dict) else {}

    def set_sent(self, remote: str, sent: dict[str, list[Any]]) -> None:
        """Notes the packs that were sent and that no segment names yet."""
        self.database.set_meta(_SENT + remote, json.dumps(sent, sort_keys=True))

    def intent(self, remote: str) -> set[str]:
        """Returns the checkpoints that pushes were about to send since one ended well: they may be there."""
        return set(read_json(self.database.meta(_INTENT + remote, "[]")))

    def set_intent(self, remote: str, ids: list[str]) -> None:
        """Notes the checkpoints that are about to be sent."""
        self.database.set_meta(_INTENT + remote, json.dumps(ids))

    def last_push(self, remote: str) -> LastPush:
        """Returns when a push to a remote last ended well, and the error since."""
        return LastPush(**read_json(self.database.meta(_LAST + remote, "{}")))

    def set_last_push(self, remote: str, last: LastPush) -> None:
        """Notes how a push ended."""
        self.database.set_meta(_LAST + remote, json.dumps(last._asdict(), sort_keys=True))

    # -- forgotten paths --------------------------------------------------------------------------

    def forgotten(self) -> list[ForgottenNote]:
        """Returns every path that some machine forgot."""
        said = read_json(self.database.meta(FORGOTTEN, "[]"))
        return [ForgottenNote(Forgotten(row[0], row[1]), row[2], row[3] is True) for row in said]

    def set_forgotten(self, rows: list[ForgottenNote]) -> None:
        """Notes the paths that were forgotten."""
        plain = [[row.what.id, row.what.path, row.machine, row.applied] for row in rows]
        self.database.set_meta(FORGOTTEN, json.dumps(plain))

    def pulled(self, machine: str = "") -> Pulled:
        """Returns the copies of a machine's checkpoints, or of all."""
        own = self.store.checkpoints
        return Pulled(self.database, own.objects, machine)
