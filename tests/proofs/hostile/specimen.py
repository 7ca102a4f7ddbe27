"""
A small store that has everything a store can have, to be damaged again and again.

Kinds of checkpoints, state in the timeline and beside it, permission bits, links, what was not captured, where git stood,
deltas in a joined pack, small packs beside it, refs packed and loose, something to undo and to redo, a note, a cache.
What every checkpoint holds is read by plain git, once, while all is well.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import mulligan
from check_checkpoints import read_checkpoint
from checker import judge, objects_of, rows
from mulligan.safefs.directory import Directory
from mulligan.store.gc import pack_refs
from scenes import State
from tools import git
from tree import put, wipe

_LINES = "".join(f"line {number} of a file that changes a little\n" for number in range(40))


class Reading(NamedTuple):
    """One file of one checkpoint, and what it must hold."""

    checkpoint: str
    path: str
    content: bytes


class Specimen:
    """The store and its workspace as they are when nothing is wrong."""

    def __init__(self, base: Path) -> None:
        self.project = base / "project"
        self.store = base / "store"
        _fill(self.project, self.store)
        assert judge(self.store, self.project) == []
        self.template = base / "template"
        shutil.copytree(self.project, self.template, symlinks=True)
        objects = objects_of(self.store)
        held = {name: read_checkpoint(objects, commit)[0] for name, commit in rows(self.store).items()}
        self.holds: dict[str, State] = {name: one.files for name, one in held.items() if one is not None}
        with mulligan.open(self.project, store=self.store) as ws:
            self.log = {cp.id: cp.to_dict() for cp in ws.log()}
            self.position = ws.position()
            self.plans = {name: ws.plan(name).actions for name in self.log}
            self.status = {key: value for key, value in ws.status().items() if key in ("unsaved", "files", "complete")}
        assert self.holds.keys() == self.log.keys()
        self.readings = list(self._readings())
        self.files = files_of(self.store)

    def first_readings(self) -> list[int]:
        """One of each checkpoint."""
        first = {reading.checkpoint: number for number, reading in reversed(list(enumerate(self.readings)))}
        return sorted(first.values())

    def _readings(self) -> Iterator[Reading]:
        """Every content once, and every checkpoint at least once."""
        seen: set[bytes] = set()
        for name, state in self.holds.items():
            files = [(path, entry[2]) for path, entry in sorted(state.items()) if entry[0] != "dir"]
            fresh = [(path, content) for path, content in files if content not in seen] or files[:1]
            seen.update(content for _, content in fresh)
            yield from (Reading(name, path, content) for path, content in fresh)

    def put_back_workspace(self) -> None:
        """Makes the workspace what it was; the directory itself stays the same one."""
        wipe(self.project)
        shutil.copytree(self.template, self.project, symlinks=True, dirs_exist_ok=True)


def files_of(store: Path) -> dict[str, bytes]:
    """Every file of a store, by its path."""
    return {
        os.path.relpath(path, store): path.read_bytes()
        for path in sorted(store.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
    }


def _fill(project: Path, store: Path) -> None:
    put(project, "tracked", "t\n")
    git("init", "-q", "-b", "main", cwd=project)
    git("add", "tracked", cwd=project)
    git("commit", "-q", "-m", "c", cwd=project)
    put(project, ".gitignore", "*.log\n")
    put(project, "noise.log", "noise")
    put(project, ".env", "TOKEN=1")
    put(project, "bin/run", "#!/bin/sh\n", perm=0o755)
    put(project, "odd", "bits", perm=0o640)
    (project / "link").symlink_to("odd")
    with mulligan.open(project, store=store) as ws:
        for number, kind in enumerate(["manual", "step", "feature", "session"]):
            put(project, "src/changes.txt", _LINES.replace("line 7 ", f"line seven in version {number} "))
            put(project, f"src/n{number}", os.urandom(40))
            ws.save(f"cp{number}", kind=kind, description="d" * number, state={"turn": number}, git=number == 2)
        ws.delete("cp0")
        ws.prune()
        with Directory.open(store) as directory:
            pack_refs(directory)
        put(project, "src/changes.txt", _LINES.upper())
        ws.save(
            "é\n",
            kind="automatic",
            state={"history": ["word"] * 5000, "odd/key": 1},
            metadata={"m": [1, None]},
            context={"c": "x"},
        )
        put(project, "src/unsaved", "u")
        ws.restore("cp1")
        ws.undo()
        ws.update_note("n", lambda _: {"k": 1})


class Bench:
    """A copy of the store that is damaged, looked at, and put right again."""

    def __init__(self, specimen: Specimen, store: Path) -> None:
        self.specimen, self.store = specimen, store
        shutil.copytree(specimen.store, store)
        self._directories = sorted(path for path in [store, *store.rglob("*")] if path.is_dir())

    def open(self) -> Any:
        """The workspace with the damaged store, as a new process would have it."""
        return mulligan.open(self.specimen.project, store=self.store)

    def damage(self, changed: dict[str, bytes | None]) -> None:
        """Puts other bytes into files, or removes them."""
        for path, data in changed.items():
            if data is None:
                (self.store / path).unlink()
            else:
                _write(self.store / path, data)

    def put_right(self, changed: dict[str, bytes | None], *, thoroughly: bool = False) -> None:
        """Makes the copy what it was: the damaged files, those of SQLite, and, if anything may have changed, all."""
        files = self.specimen.files
        if thoroughly:
            shutil.rmtree(self.store)
            shutil.copytree(self.specimen.store, self.store)
            return
        for name in ("timeline.db-wal", "timeline.db-shm", "timeline.db-journal"):
            if name not in files:
                with suppress(FileNotFoundError):
                    (self.store / name).unlink()
        for path in {*changed, *(path for path in files if path.startswith("timeline.db"))}:
            _write(self.store / path, files[path])


def _write(path: Path, data: bytes) -> None:
    # The same inode where there is one: what does not change costs nothing to put back.
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(fd, data)
    os.close(fd)


# -- what plain SQLite sees -------------------------------------------------------------------------


def logical(database: bytes) -> Any:
    """All that SQLite reads of a database: tables, rows, numbers, and what it finds wrong; an error's text where it fails."""
    raw = bytearray(database)
    # The first says how the file may be written, where 0, 1 and 2 are all the same to SQLite, the second how it is read.
    if raw[18] > 2 or raw[19] != 2:
        return "not to be written, or not in WAL mode"
    raw[18:20] = b"\1\1"  # a database in memory has no log
    connection = sqlite3.connect(":memory:")
    connection.text_factory = bytes
    try:
        connection.deserialize(bytes(raw))
        ask = connection.execute
        schema = ask("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        tables = [row[1].decode() for row in schema if row[0] == b"table"]
        # From the tables and not from an index that happens to hold all that is asked for.
        rows = {table: ask(f"SELECT * FROM {table} NOT INDEXED").fetchall() for table in tables}
        return (
            [ask(f"PRAGMA {name}").fetchone() for name in ("user_version", "encoding", "page_size", "auto_vacuum")],
            schema, rows, ask("PRAGMA integrity_check").fetchall(),
        )  # fmt: skip
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return str(error)
    finally:
        connection.close()
