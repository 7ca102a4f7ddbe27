"""
The checkpoints of a timeline: adding, finding, listing, deleting.

History is a tree: a checkpoint's parent is the position it was saved from. When one is deleted, its children are
given to its own parent, so nothing else disappears.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from mulligan.errors import AmbiguousCheckpoint, NothingSaved, StoreDamaged, UnknownCheckpoint
from mulligan.model.bounded import read_json
from mulligan.model.checkpoint import MOVING, Checkpoint, GitState, NotCaptured, moment, unpack_list
from mulligan.timeline.commits import COUNTED, HELD, Entry
from mulligan.timeline.database import Database, is_intact
from mulligan.timeline.tables import COLUMNS, as_column, from_column
from mulligan.timeline.undo import Moves

if TYPE_CHECKING:
    import sqlite3

    from mulligan.timeline.retention import CheckpointAge
    from mulligan.timeline.trees import ObjectReader

POSITION = "position"
_INLINE_STATE = 16 << 10
# A longer list of what was not captured is the commit's alone, where those that say the same share one object.
_INLINE_LIST, _IN_COMMIT = 4 << 10, b"@"
#: In the column of metadata: the sealed files. No caller can give metadata with this key by accident.
_SECRETS = "\0secrets"
_LATEST = r"latest(?:~(\d{1,9}))?\Z"
_COLUMNS = COLUMNS["checkpoint"]
_BYTES = ("files_tree", "modes_tree", "changes", "not_captured")
_TEXT = ("id", "kind", "parent", "commit_id", "defaults", "git", "context", "state", "metadata")
#: Lists of what was not saved, each with the files that were saved by the checkpoints that have it.
Unsaved = list[tuple[tuple[NotCaptured, ...], set[bytes]]]


class Checkpoints:
    """The rows of the timeline as values."""

    def __init__(self, database: Database, objects: Callable[[], ObjectReader]) -> None:
        """Takes what gives the objects of the store, which few questions need."""
        self._db = database
        self.objects = objects

    # -- adding and removing (inside a transaction) ---------------------------------------------

    def add(self, entry: Entry) -> None:
        """Inserts a checkpoint and makes it the newest."""
        self._db.insert("checkpoint", entry.seq or None, *stored_values(entry))

    def owe_ref(self, entry: Entry) -> None:
        """Says that a checkpoint's ref is to be written."""
        self._owe("fresh_ref", entry.id, entry.checkpoint.commit)

    def _owe(self, table: str, *values: str) -> None:
        self._db.insert(table, *values, over=True)

    def forget_refs(self) -> None:
        """Says that every ref is as it must be, on the disk."""
        self._db.empty("fresh_ref")
        self._db.empty("dead_ref")

    def remove(self, entry: Entry) -> list[Entry]:
        """Deletes a checkpoint and returns its children, which now belong to its parent."""
        children = self._select("WHERE parent=? ORDER BY seq", entry.id)
        for child in children:
            self._db.update("checkpoint", "id=?", child.id, parent=entry.checkpoint.parent)
        self._db.run("DELETE FROM checkpoint WHERE id=?", entry.id)
        Moves(self._db).forget(entry.id, entry.checkpoint.parent)
        self._db.run("DELETE FROM fresh_ref WHERE id=?", entry.id)
        self._owe("dead_ref", entry.id)
        if self.position() == entry.id:
            # Without a parent, the state the workspace was in before.
            before = self._db.row("SELECT id FROM move ORDER BY seq DESC LIMIT 1")
            self._db.set_meta(POSITION, entry.checkpoint.parent or (before[0] if before else ""))
        return children

    def replace_commit(self, entry: Entry) -> None:
        """Points a checkpoint to a rewritten commit."""
        cp = entry.checkpoint
        self._db.update(
            "checkpoint", "id=?", cp.id, commit_id=cp.commit, files_tree=entry.files_tree, modes_tree=entry.modes_tree,
            changes=cp.packed_changes, not_captured=_inlined(cp.packed_not_captured),
            git=json.dumps(cp.git.to_dict() if cp.git else None), metadata=_metadata(cp),
        )  # fmt: skip
        self._owe("fresh_ref", cp.id, cp.commit)

    def set_changes(self, checkpoint_id: str, packed: bytes) -> None:
        """Sets what a checkpoint changed against its (new) parent."""
        self._db.update("checkpoint", "id=?", checkpoint_id, changes=packed)

    def set_position(self, checkpoint_id: str) -> None:
        """Moves the position."""
        self._db.set_meta(POSITION, checkpoint_id)

    # -- finding --------------------------------------------------------------------------------

    def position(self) -> str:
        """Returns the id of the checkpoint last saved or restored to, empty before the first."""
        return self._db.meta(POSITION)

    def holds_tree(self, tree: bytes) -> bool:
        """Returns whether some checkpoint has these files: then all its objects are there."""
        # The newest is asked first: it is the one nearly always.
        return self._db.row("SELECT 1 FROM checkpoint WHERE files_tree=? ORDER BY seq DESC LIMIT 1", tree) is not None

    def current(self) -> Entry | None:
        """Returns the checkpoint at the position."""
        return self.by_id(self.position())

    def by_id(self, checkpoint_id: str) -> Entry | None:
        """Returns a checkpoint by its exact id."""
        return self._one("WHERE id=?", as_column(checkpoint_id)) if checkpoint_id else None

    def resolve(self, ref: str | Checkpoint) -> Entry:
        """Returns the checkpoint a reference means: an id, a reserved word, a name, a unique prefix, a time, in that order."""
        text = ref.id if isinstance(ref, Checkpoint) else ref
        if not isinstance(text, str):
            raise TypeError(f"a checkpoint reference is text, not {type(text).__name__}")
        found = self.by_id(text) or self._reserved(text) or self._named(text) or self._prefixed(text)
        if found is None and self._db.knows_remotes():
            from mulligan.remotes.pulled import resolve_pulled

            found = resolve_pulled(self._db, self.objects, text)
        found = found or self._at_time(text)
        if found is not None:
            return found
        if not self.count():
            raise NothingSaved("No checkpoint was saved here yet.", hint="mulligan save")
        raise UnknownCheckpoint(
            f"No checkpoint is called {text!r}. Nothing was changed.", hint="List them: mulligan log"
        )

    @staticmethod
    def is_reserved(name: str) -> bool:
        """Returns whether a name could never be found, because it means something else."""
        if not name.startswith(("@", "latest")):
            return False
        from mulligan.timeline.events import is_reference

        return name == "@" or re.match(_LATEST, name) is not None or is_reference(name)

    def _reserved(self, text: str) -> Entry | None:
        if text == "@":
            return self.by_id(self.position())
        if text.startswith("@"):
            return self._at_deed(text)
        match = re.match(_LATEST, text)
        if not match:
            return None
        return self._one("WHERE kind<>'safety' ORDER BY seq DESC LIMIT 1 OFFSET ?", int(match[1] or 0))

    def _at_deed(self, text: str) -> Entry | None:
        """Returns the workspace as it was at a prompt or a tool call of an agent."""
        from mulligan.timeline.events import AgentEvents

        event = AgentEvents(self._db).find(text)
        if event is None:
            return None
        found = self.by_id(event.checkpoint)
        if found is None:
            raise UnknownCheckpoint(
                f"The checkpoint of {text} is no longer kept. Nothing was changed.",
                hint="More of them are kept with a larger retention.step; see: mulligan log",
            )
        return found

    def _named(self, text: str) -> Entry | None:
        return self._one("WHERE name=? ORDER BY seq DESC LIMIT 1", as_column(text)) if text else None

    def _prefixed(self, text: str) -> Entry | None:
        if not re.fullmatch(r"[0-9a-f]{2,40}", text):
            return None
        found = self._select("WHERE id>=? AND id<? ORDER BY seq DESC LIMIT 3", text, text + "g")
        if len(found) > 1:
            ids = ", ".join(entry.id[: len(text) + 4] for entry in found)
            raise AmbiguousCheckpoint(
                f"{text!r} could be {ids} …; nothing was changed.", hint="Type more of the id: mulligan log"
            )
        return found[0] if found else None

    def _at_time(self, text: str) -> Entry | None:
        """Returns the newest checkpoint at or before a time; raises UnknownCheckpoint where none is that old."""
        if not any(letter in text for letter in " :-y"):
            return None  # no time is written without one of these
        from mulligan.timeline.time_refs import find_at

        return find_at(text, time.time_ns(), self._select)

    def is_prefix(self, text: str) -> bool:
        """Returns whether this is how the id of some checkpoint begins."""
        if not re.fullmatch(r"[0-9a-f]{2,40}", text):
            return False
        return self._db.row("SELECT 1 FROM checkpoint WHERE id>=? AND id<? LIMIT 1", text, text + "g") is not None

    # -- listing --------------------------------------------------------------------------------

    def count_of(self, kind: str) -> int:
        """Returns how many checkpoints of a kind there are."""
        return self._db.number("SELECT count(*) FROM checkpoint WHERE kind=?", kind)

    def count(self) -> int:
        """Returns how many checkpoints there are."""
        return self._db.number("SELECT count(*) FROM checkpoint")

    def ever(self) -> int:
        """Returns how many checkpoints there were; after the timeline was made anew, fewer."""
        return self._db.number("SELECT seq FROM sqlite_sequence WHERE name='checkpoint'")

    def gone(self) -> int:
        """Returns how many checkpoints there were that are no more; after the timeline was made anew, fewer than before."""
        return self.ever() - self.count()

    def parents(self) -> dict[str, str | None]:
        """Returns every checkpoint with its parent, oldest first."""
        return {row[0]: row[1] for row in self._db.rows("SELECT id, parent FROM checkpoint ORDER BY seq")}

    def row_sizes(self) -> dict[str, int]:
        """Returns how many bytes the record of each checkpoint takes in the timeline."""
        lengths = " + ".join(f"length(ifnull({name}, ''))" for name in _COLUMNS)
        return {row[0]: int(row[1]) for row in self._db.rows(f"SELECT id, {lengths} FROM checkpoint")}

    def by_kind(self) -> dict[str, int]:
        """Returns how many checkpoints there are of each kind."""
        return {row[0]: row[1] for row in self._db.rows("SELECT kind, count(*) FROM checkpoint GROUP BY kind")}

    def newest(self, *, kind: str | None = None, limit: int | None = None) -> list[Entry]:
        """Returns checkpoints, newest first."""
        where, values = ("WHERE kind=? ", [kind]) if kind else ("", [])
        return self._select(f"{where}ORDER BY seq DESC LIMIT ?", *values, -1 if limit is None else limit)

    def ages(self, kind: str) -> list[CheckpointAge]:
        """Returns when each checkpoint of a kind was made, newest first."""
        from mulligan.timeline.retention import CheckpointAge

        rows = self._db.rows("SELECT id, created_ns, metadata FROM checkpoint WHERE kind=? ORDER BY seq DESC", kind)
        return [CheckpointAge(row[0], row[1], _is_exempt(row[2])) for row in rows]

    def oldest(self) -> list[Entry]:
        """Returns every checkpoint, oldest first."""
        return self._select("ORDER BY seq")

    def believable(self) -> list[Entry]:
        """Returns every checkpoint whose record is what was written, oldest first."""
        found = []
        for row in self._db.intact("checkpoint"):
            with suppress(StoreDamaged):
                found.append(self._entry(row))
        return found

    def hidden_since(self, seq: int) -> Unsaved:
        """Returns what the checkpoints after a number did not save, without files that only would not hold still."""
        trees: dict[bytes, set[bytes]] = {}
        for packed, commit, tree in self._db.rows(
            "SELECT not_captured, commit_id, files_tree FROM checkpoint WHERE seq > ?", seq
        ):
            listed = self._read_list(bytes.fromhex(commit)) if packed == _IN_COMMIT else packed
            trees.setdefault(listed, set()).add(tree)
        found = []
        for listed, having in trees.items():
            rows = [NotCaptured(*map(str, row)) for row in unpack_list(listed)]
            found.append((tuple(row for row in rows if row.reason != MOVING and row.path != "."), having))
        return found

    def hidden_after(self, entry: Entry) -> Unsaved:
        """Returns what the checkpoints after another did not save; see `hidden_since`."""
        # One that this process just recorded was made before SQLite gave it a number.
        return self.hidden_since(entry.seq or self._db.number("SELECT seq FROM checkpoint WHERE id=?", entry.id))

    def roots(self) -> dict[str, bytes]:
        """Returns the commit of each checkpoint that is here, the oldest first; those of other machines by `MACHINE:ID`."""
        rows = self._db.rows("SELECT id, commit_id FROM checkpoint ORDER BY seq")
        found = {row[0]: bytes.fromhex(row[1]) for row in rows}
        if self._db.knows_remotes():
            rows = self._db.rows("SELECT machine, id, commit_id FROM pulled WHERE files_tree<>zeroblob(20)")
            found |= {f"{row[0]}:{row[1]}": bytes.fromhex(row[2]) for row in rows}
        return found

    def files_trees(self) -> set[bytes]:
        """Returns the files trees that some checkpoint holds."""
        return {row[0] for row in self._db.rows("SELECT DISTINCT files_tree FROM checkpoint")}

    def _select(self, tail: str, *values: Any) -> list[Entry]:
        return [self._entry(row) for row in self._rows(tail, *values)]

    def _one(self, tail: str, *values: Any) -> Entry | None:
        return next(iter(self._select(tail, *values)), None)

    def _rows(self, tail: str, *values: Any) -> list[sqlite3.Row]:
        return self._db.rows(f"SELECT {', '.join(_COLUMNS)}, seal FROM checkpoint {tail}", *values)

    def _entry(self, row: sqlite3.Row) -> Entry:
        if not is_intact(row):
            raise StoreDamaged(
                f"The record of checkpoint {row['id']!r} in the timeline is damaged. Its files are untouched.",
                hint="Mend it from the repository: mulligan doctor",
            )
        try:
            return self._read(row)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise StoreDamaged(
                f"The record of checkpoint {row['id']!r} in the timeline is none ({error}). Its files are untouched.",
                hint="Mend it from the repository: mulligan doctor",
            ) from None

    def _read_state(self, commit: bytes) -> dict[str, Any]:
        from mulligan.timeline.read_commits import read_state

        return read_state(self.objects(), commit)

    def _read_list(self, commit: bytes) -> bytes:
        from mulligan.timeline.read_commits import read_commit

        return read_commit(self.objects(), commit).checkpoint.packed_not_captured

    def _machine(self, _row: sqlite3.Row) -> str:
        """Returns the machine that a checkpoint was pulled from; none for this one's own."""
        return ""

    def _read(self, row: sqlite3.Row) -> Entry:
        for name in _BYTES:
            if not isinstance(row[name], bytes):
                raise TypeError(f"{name} is not what it must be")
        for name in _TEXT:
            if not isinstance(row[name], str) and not (row[name] is None and name in ("parent", "state")):
                raise TypeError(f"{name} is not what it must be")
        git, metadata = read_json(row["git"]), read_json(row["metadata"])
        secrets = metadata.pop(_SECRETS, None)
        commit, inline, missed = bytes.fromhex(row["commit_id"]), row["state"], row["not_captured"]
        checkpoint = Checkpoint(
            id=row["id"], name=from_column(row["name"]), description=from_column(row["description"]), kind=row["kind"],
            created_at=moment(row["created_ns"]), parent=row["parent"], complete=bool(row["complete"]), commit=row["commit_id"],
            git=GitState(git["commit_hash"], git["branch"], tuple(git["dirty_files"])) if git else None,
            context=read_json(row["context"]), metadata=metadata,
            state_source=partial(self._read_state, commit) if inline is None else (lambda: _inline(row["id"], inline)),
            packed_changes=row["changes"],
            not_captured_source=partial(self._read_list, commit) if missed == _IN_COMMIT else lambda: missed,
            plain_secrets=secrets, machine=self._machine(row),
        )  # fmt: skip
        defaults = read_json(row["defaults"])
        return Entry(checkpoint, row["created_ns"], row["files_tree"], row["modes_tree"], tuple(defaults), row["seq"])


def stored_values(entry: Entry) -> tuple[Any, ...]:
    """Returns the columns of a checkpoint, from its id on."""
    cp = entry.checkpoint
    state = json.dumps(cp.state)
    return (
        cp.id, as_column(cp.name), as_column(cp.description), cp.kind, entry.created_ns,
        cp.parent, cp.commit, entry.files_tree, entry.modes_tree, json.dumps(entry.defaults), int(cp.complete),
        cp.packed_changes, _inlined(cp.packed_not_captured), json.dumps(cp.git.to_dict() if cp.git else None),
        json.dumps(cp.context), state if len(state) <= _INLINE_STATE else None, _metadata(cp),
    )  # fmt: skip


def _inlined(packed: bytes) -> bytes:
    """Returns a list as it stands in a record."""
    return packed if len(packed) <= _INLINE_LIST else _IN_COMMIT


def _metadata(checkpoint: Checkpoint) -> str:
    """Returns the column of metadata, which carries the list of sealed files as well."""
    secrets = checkpoint.plain_secrets
    return json.dumps(checkpoint.metadata if secrets is None else {**checkpoint.metadata, _SECRETS: secrets})


def _inline(name: str, text: str) -> Any:
    """Returns the state that stands in a record; raises StoreDamaged for one that cannot be read."""
    try:
        return read_json(text)
    except ValueError as error:
        raise StoreDamaged(
            f"The state of checkpoint {name!r} in the timeline is none ({error}). Its files are untouched.",
            hint="Mend it from the repository: mulligan doctor",
        ) from None


def _is_exempt(metadata: str) -> bool:
    """Returns whether retention by kind leaves a checkpoint alone."""
    if HELD not in metadata and COUNTED not in metadata:
        return False  # most of them: metadata without the words need not be parsed
    said = json.loads(metadata)
    return said.get(HELD) is True or said.get(COUNTED) is True
