"""
The timeline of a store, read by plain SQLite from a copy, and compared with the refs and commits that git shows.

The copy is made without the shared-memory file: what a crashed process left there is nobody's business but its own, and
reading changes nothing in the store.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import tempfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from check_checkpoints import Held, State, read_checkpoint
from plain_git import Objects, objects_of, refs
from seals import unsealed

NAME = "timeline.db"
_TABLES = ("checkpoint", "move", "redo", "journal", "fresh_ref", "dead_ref", "pin", "deed")
_FORMATS = (1, 2)
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Timeline(NamedTuple):
    """Every row of the timeline, by table, and what SQLite itself finds wrong with it."""

    tables: dict[str, list[dict[str, Any]]]
    meta: dict[str, str]
    wrong: list[str]

    @property
    def commits(self) -> dict[str, str]:
        """The checkpoints: id and commit."""
        return {_text(row["id"]): _text(row["commit_id"]) for row in self.tables["checkpoint"]}


def read_timeline(store: Path) -> Timeline:
    """Returns the timeline of a store; one without any rows where there is none."""
    nothing = Timeline({table: [] for table in _TABLES}, {}, [])
    if not (store / NAME).exists() or not (store / NAME).stat().st_size:
        return nothing  # a process that died while it made the store left an empty file
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        for name in (NAME, NAME + "-wal"):
            if (store / name).exists():
                shutil.copyfile(store / name, Path(folder, name))
        connection = sqlite3.connect(Path(folder, NAME))
        connection.row_factory = sqlite3.Row
        try:
            return _read(connection) if connection.execute("PRAGMA user_version").fetchone()[0] else nothing
        except sqlite3.Error as error:
            return nothing._replace(wrong=[f"timeline: {error}"])
        finally:
            connection.close()


def _read(connection: sqlite3.Connection) -> Timeline:
    wrong = [f"timeline: {row[0]}" for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    wrong += [f"timeline: format {version}"] if version not in _FORMATS else []
    tables = {table: [dict(row) for row in connection.execute(f"SELECT * FROM {table}")] for table in _TABLES}
    wrong += unsealed(connection, (*_TABLES, "meta"))
    return Timeline(tables, dict(connection.execute("SELECT key, value FROM meta").fetchall()), wrong)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else str(value)


class View(NamedTuple):
    """All that a store says, read once."""

    objects: Objects
    timeline: Timeline
    refs: dict[str, str]

    def checkpoints(self) -> dict[str, State]:
        """The checkpoints of the timeline: id and the workspace that each holds, an empty one where that cannot be read."""
        read = {name: read_checkpoint(self.objects, commit)[0] for name, commit in self.timeline.commits.items()}
        return {name: held.files if held is not None else {} for name, held in read.items()}


def is_whole(store: Path) -> bool:
    """Whether a store is one already, as far as git is concerned; its making may have been cut short."""
    return (store / "objects" / "pack").is_dir() and (store / "HEAD").is_file() and (store / "config").is_file()


def view_of(store: Path) -> View:
    """Reads a store: objects and refs by plain git, the timeline by plain SQLite."""
    if not is_whole(store):
        return View({}, read_timeline(store), {})
    return View(objects_of(store), read_timeline(store), refs(store))


def timeline_and_refs(store: Path, view: View, *, at_rest: bool = True, returned: bool = False) -> list[str]:
    """Where timeline, refs and commits disagree; unless the last command `returned`, its refs may still be under way."""
    objects, timeline, named = view
    known = timeline.commits
    found = [*timeline.wrong, *_names(timeline)]
    found += _refs(named, known, {} if at_rest or returned else _owed(timeline))
    for name, commit in sorted({*named.items(), *known.items()}):
        held, wrong = read_checkpoint(objects, commit)
        found += [f"{name}: {line}" for line in wrong]
        row = next((row for row in timeline.tables["checkpoint"] if _text(row["id"]) == name), None)
        if held is not None and row is not None and _text(row["commit_id"]) == commit:
            found += [f"{name}: {line}" for line in _row_and_commit(row, held)]
    # A timeline whose making was cut short may not say yet whose it is; the first checkpoint says it.
    whose = timeline.meta.get("store_id", "")
    if (whose or known) and whose != _store_id(store):
        found.append("the timeline names another store")
    return found + (_under_way(store, timeline) if at_rest else [])


def _refs(named: dict[str, str], known: dict[str, str], owed: dict[str, str | None]) -> list[str]:
    """Where refs and rows differ, but for the refs that are still to be written or removed."""
    settled = {name: commit for name, commit in named.items() if name not in owed}
    wanted = {name: commit for name, commit in known.items() if name not in owed}
    found = [f"row {name} has no ref" for name in sorted(wanted.keys() - settled.keys())]
    found += [f"ref {name} has no row" for name in sorted(settled.keys() - wanted.keys())]
    both = sorted(wanted.keys() & settled.keys())
    found += [f"{name}: row says {wanted[name]}, ref {settled[name]}" for name in both if wanted[name] != settled[name]]
    return found


def _owed(timeline: Timeline) -> dict[str, str | None]:
    """The refs that the last transactions decided about, which may or may not be done: the commit, None for one that goes."""
    fresh = {_text(row["id"]): _text(row["commit_id"]) for row in timeline.tables["fresh_ref"]}
    return fresh | {_text(row["id"]): None for row in timeline.tables["dead_ref"]}


def _names(timeline: Timeline) -> list[str]:
    """Names in the timeline that name nothing."""
    known = timeline.commits.keys() | {""}
    asked = [("position", timeline.meta.get("position", ""))]
    asked += [("parent", row["parent"] or "") for row in timeline.tables["checkpoint"]]
    asked += [(table, row["id"]) for table in ("move", "redo") for row in timeline.tables[table]]
    for row in timeline.tables["journal"]:
        try:
            plan = json.loads(zlib.decompress(row["plan"]))
            # While files are staged and nothing has changed, the checkpoint may still be on its way.
            asked += [("journal", plan["target"])] + [("journal", plan["safety"])] * (row["phase"] != "staging")
        except (ValueError, KeyError, zlib.error) as error:
            return [f"the journal cannot be read ({error!r})"]
    return [f"{what} names {name}, which is not there" for what, name in asked if _text(name) not in known]


def _under_way(store: Path, timeline: Timeline) -> list[str]:
    """What only a process at work may have, and a store at rest has not."""
    found = [f"a restore is under way: {row['phase']}" for row in timeline.tables["journal"]]
    pinned = timeline.tables["pin"]
    gone = [row["pid"] for row in pinned if not (_lives(row["pid"]) or _is_locked(store, row["pid"]))]
    return found + [f"pinned by process {number}, which is gone" for number in gone]


def _lives(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def _is_locked(store: Path, number: int) -> bool:
    """Whether some process holds a lock on the byte of that number in the file of pins, by the kernel's own list."""
    try:
        inode = (store / "pins").stat().st_ino
    except FileNotFoundError:
        return False
    held = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(words[-3].endswith(f":{inode}") and words[-2] == str(number) for words in held)


def _row_and_commit(row: dict[str, Any], held: Held) -> list[str]:
    """Where the row of a checkpoint and its commit say different things. Ancestry is the timeline's alone."""
    about = held.about
    said = {key: about[key] for key in ("id", "name", "description", "kind", "created_ns", "complete")}
    rows = {key: _text(row[key]) if isinstance(said[key], str) else row[key] for key in said}
    said |= {key: about[key] for key in ("git", "context", "metadata", "defaults")}
    rows |= {key: json.loads(row[key]) for key in ("git", "context", "metadata", "defaults")}
    # The list of sealed files has no column of its own.
    said["secrets"], rows["secrets"] = about.get("secrets"), rows["metadata"].pop("\0secrets", None)
    said |= {"files": held.trees["files"], "modes": held.trees["modes"]}
    rows |= {"files": row["files_tree"].hex(), "modes": row["modes_tree"].hex()}
    if row["state"] is not None:
        said["state"], rows["state"] = held.state, json.loads(row["state"])
    said["not_captured"] = [[miss["path"], miss["reason"], miss["detail"]] for miss in held.not_captured]
    if row["not_captured"] == b"@":  # it is in the commit alone, which must have one then
        rows["not_captured"] = said["not_captured"] or "a list in the commit"
    else:
        rows["not_captured"] = json.loads(zlib.decompress(row["not_captured"])) if row["not_captured"] else []
    return [f"{key}: the row says {rows[key]!r}, the commit {said[key]!r}" for key in said if said[key] != rows[key]]


def _store_id(store: Path) -> str | None:
    found = re.search(r"^\s*storeid\s*=\s*(\S+)", (store / "config").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else None
