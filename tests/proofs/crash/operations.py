"""
Every operation that writes, each with a stage that can be set up again and again in a few milliseconds.

For the sweeps that let a call of an operation fail. A stage is made once, by honest calls, and copied from then on; the
workspace's own directory stays the same one, because a history belongs to it.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from places import Place

from adopted import refresh
from check_checkpoints import read_checkpoint
from checker import objects_of, rows
from faults import Killed, KilledAt
from mulligan import engine
from mulligan.safefs import syscalls
from mulligan.scan import from_git, read
from mulligan.timeline import pruning
from scenes import MID, NEW, OLD, State, file, folder, state_of, write_state
from seals import reseal
from tools import git
from tree import put, wipe
from users_repository import make_dirty, move_on, new_repository

#: Rules and what they hide: a rule that cannot be read must not widen what is captured without a word.
HIDING: State = {".gitignore": file("*.log\n"), "sub": folder(), "sub/.gitignore": file("x\n"), "sub/kept": file("k")}
HIDDEN: State = {"noise.log": file("noise"), "sub/x": file("hidden")}
# A file need not be of real size to take the way of the large ones.
read.STREAM_FROM = 1 << 20


@contextmanager
def lowered(module: Any, **values: Any) -> Iterator[None]:
    """Gives some constants of a module other values for a while."""
    before = {name: getattr(module, name) for name in values}
    for name, value in values.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def noise(seed: int, size: int) -> bytes:
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(size)


class Operation(NamedTuple):
    """One verb in one situation."""

    prepare: Callable[[Place], None]
    act: Callable[[Any, Place], Any]
    lacking: tuple[str, ...] = ()  # calls that this file system does not have
    again: bool = True  # whether the same verb does the same once more, after a save
    git: bool = False  # whether the user's repository moves
    begins: State | None = None  # where a restore was cut short: the workspace before that
    heals: bool = False  # whether the stage is damaged, so that this verb itself is the next command
    talks: bool = False  # whether a conversation goes back with the files
    seals: bool = False  # whether secrets are saved, sealed, and go back with the files


def _saved(place: Place, *states: tuple[str, State]) -> None:
    with place.open() as ws:
        for name, state in states:
            write_state(place.project, state)
            ws.save(name)


def _unsaved(place: Place) -> None:
    _saved(place, ("new", NEW), ("mid", MID))
    write_state(place.project, OLD)


def _first(place: Place) -> None:
    write_state(place.project, OLD | HIDING | HIDDEN)


def _clean(place: Place) -> None:
    new_repository(place.project)
    for number in range(24):
        put(place.project, f"d{number % 4}/f{number}.py", noise(number // 2, 600).hex() + f"\n{number}\n" * 9)
    git("add", "-A", cwd=place.project)
    git("commit", "-q", "-m", "clean", cwd=place.project)
    git("repack", "-a", "-d", "-f", "-q", cwd=place.project)


def _save_from_git(ws: Any, place: Place) -> None:
    # The scene was copied: git must see the files as they are now, and none of them may be too young for it.
    ready = time.monotonic() + 0.07
    while time.monotonic() < ready:
        pass  # without a call that could be the one to be killed at
    refresh(place.project)
    with lowered(from_git, LEAST=1):
        ws.save("now")


def _second(place: Place) -> None:
    _saved(place, ("new", NEW))
    write_state(place.project, OLD | HIDING | HIDDEN)


def _many(place: Place) -> None:
    _saved(place, ("new", NEW))
    for number in range(60):
        put(place.project, f"d{number % 6}/f{number}", str(number) * 50)


def _streamed(place: Place) -> None:
    _saved(place, ("new", NEW))
    write_state(place.project, OLD)
    put(place.project, "huge", random.Random(1).randbytes(5 << 18))


def _streamed_back(place: Place) -> None:
    _streamed(place)
    with place.open() as ws:
        ws.save("huge")
    write_state(place.project, OLD)


def _crowded(place: Place) -> None:
    """As many packs as there may be: the next save joins them."""
    with place.open() as ws:
        number = 0
        while not number or len(list((place.store / "objects/pack").glob("*.pack"))) < pruning.MANY_PACKS:
            number += 1
            write_state(place.project, {"f": file(str(number))})
            ws.save(f"n{number}")
    write_state(place.project, OLD)


def _undone(place: Place) -> None:
    _unsaved(place)
    with place.open() as ws:
        ws.undo()


def _deleted(place: Place) -> None:
    _unsaved(place)
    with place.open() as ws:
        for number in range(4):
            put(place.project, "modified", f"version {number}\n" * 300)
            ws.save(f"v{number}")
        ws.delete("new")
        ws.delete("v1")


def _secret_captured(place: Place) -> None:
    write_state(place.project, {"a": file("a"), "d": folder(), "d/secret": file("precious " * 30)})
    with place.open() as ws:
        ws.save("one")
        put(place.project, "a", "b")
        ws.save("two")


def _with_repository(place: Place) -> None:
    new_repository(place.project)
    make_dirty(place.project)


def _moved_on(place: Place) -> None:
    _with_repository(place)
    with place.open() as ws:
        ws.save("new", git=True)
    move_on(place.project)
    put(place.project, "unsaved/work", "mine")


def _moved_back(place: Place) -> None:
    _moved_on(place)
    with place.open() as ws:
        ws.restore("new", git=True)


def _adoptable(place: Place) -> None:
    _unsaved(place)
    place.store.rename(place.home / "elsewhere")
    write_state(place.project, OLD)
    former = place.home / "former"
    former.mkdir()
    _rename_in_timeline(place.home / "elsewhere", str(former))
    former.rmdir()


def _replaced(place: Place) -> None:
    """Another directory with the same files stands where the history was made."""
    _unsaved(place)
    place.project.rename(place.home / "first")
    shutil.copytree(place.home / "first", place.project, symlinks=True)
    shutil.rmtree(place.home / "first")
    if "user.mulligan.workspace" in os.listxattr(place.project):
        os.removexattr(place.project, "user.mulligan.workspace")


def _adoptable_and_saved(place: Place) -> None:
    """The history stayed in the old place, and something was saved in the new one."""
    _adoptable(place)
    with place.open() as ws:
        ws.save("since")


def _rename_in_timeline(store: Path, workspace: str) -> None:
    import sqlite3

    connection = sqlite3.connect(store / "timeline.db")
    connection.execute("UPDATE meta SET value=? WHERE key='workspace'", (workspace,))
    connection.commit()
    connection.close()
    reseal(store)


def _cut_short(phase: str) -> Callable[[Place], None]:
    """A restore that was killed in the middle of a phase."""

    def prepare(place: Place) -> None:
        _unsaved(place)
        kept = place.home / "kept"
        shutil.copytree(place.store, kept)
        reached = [number for number in range(20, 400, 7) if _killed_at(place, kept, number) == phase]
        assert _killed_at(place, kept, reached[len(reached) // 2]) == phase
        shutil.rmtree(kept)

    return prepare


def _killed_at(place: Place, kept: Path, number: int) -> str:
    """Kills a restore before a call; returns the phase it was in."""
    write_state(place.project, OLD)
    shutil.rmtree(place.store)
    shutil.copytree(kept, place.store)
    ws = place.open()
    try:
        with syscalls.using(KilledAt(number)):
            ws.restore("new")
    except Killed:
        pass
    ws.close()
    with place.open() as again:
        return (again.pending() or {}).get("phase", "")


def _without_indexes(place: Place) -> None:
    _unsaved(place)
    for path in (place.store / "objects/pack").glob("*.idx"):
        path.unlink()
    next((place.store / "refs/checkpoints").iterdir()).unlink()


def _without_timeline(place: Place) -> None:
    _unsaved(place)
    for path in place.store.glob("timeline.db*"):
        path.unlink()


def _damaged_record(place: Place) -> None:
    """A value in the timeline is not what was written."""
    import sqlite3

    _unsaved(place)
    connection = sqlite3.connect(place.store / "timeline.db")
    connection.execute("UPDATE checkpoint SET name='nex' WHERE name='new'")
    connection.commit()
    connection.close()


def _damaged_pack(place: Place) -> None:
    """A file that the workspace still holds is damaged in its pack."""
    from mulligan.model.objects import BLOB, object_id
    from stores import opened

    _unsaved(place)
    oid = object_id(BLOB, b"same")
    with opened(place.store) as store:
        (pack,) = store.locations(oid)
        at = pack.index.offset(pack.index.find(oid)) + 3
    path = place.store / "objects/pack" / f"{pack.name.decode()}.pack"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def _tagged(place: Place) -> None:
    with place.open() as ws:
        for number in range(5):
            write_state(place.project, {"f": file(str(number))})
            ws.save(f"n{number}", metadata={"m": 1})
    write_state(place.project, OLD)


def _with_state(place: Place) -> None:
    with place.open() as ws:
        write_state(place.project, NEW)
        ws.save("new", state={"history": ["x"] * 9000, "odd/key": 1})
    write_state(place.project, OLD)


def _attributes(place: Place) -> None:
    _unsaved(place)
    try:
        os.setxattr(place.project / "modified", "user.note", b"1")
        os.chown(place.project / "bits", 12345, 12345)
    except OSError:
        pass  # not root, or no such attributes here: the other calls are tried all the same


def _another_project(place: Place) -> None:
    _saved(place, ("new", NEW))
    write_state(place.project, OLD)
    for path in ("copy/a", "copy/d/b"):
        put(place.home, path, path)


def _committed(place: Place) -> None:
    new_repository(place.project)
    git("gc", "-q", cwd=place.project)
    put(place.project, "loose", "l")
    git("add", "-A", cwd=place.project)
    git("commit", "-q", "-m", "loose", cwd=place.project)


PLAIN = ("exchange", "rename_new")
OPERATIONS: dict[str, Operation] = {
    "save-first": Operation(_first, lambda ws, _: ws.save("now")),
    "save-second": Operation(_second, lambda ws, _: ws.save("now", state={"n": 1}, metadata={"m": 1})),
    "save-many": Operation(_many, lambda ws, _: ws.save("now")),
    "save-streamed": Operation(_streamed, lambda ws, _: ws.save("now")),
    "save-git": Operation(_with_repository, lambda ws, _: ws.save("now", git=True)),
    "save-adopting": Operation(_clean, _save_from_git),
    "save-joining": Operation(_crowded, lambda ws, _: ws.save("now")),
    "import-commit": Operation(_committed, lambda ws, _: ws.import_commit(_head(ws), name="now")),
    "import-directory": Operation(_another_project, lambda ws, place: ws.import_directory(place.home / "copy")),
    "restore": Operation(_unsaved, lambda ws, _: ws.restore("new")),
    "restore-some": Operation(_unsaved, lambda ws, _: ws.restore("new", paths=["modified", "file_to_dir"])),
    "restore-plain": Operation(_unsaved, lambda ws, _: ws.restore("new"), lacking=PLAIN),
    "restore-attributes": Operation(_attributes, lambda ws, _: ws.restore("new")),
    "restore-streamed": Operation(_streamed_back, lambda ws, _: ws.restore("huge")),
    "restore-git": Operation(_moved_on, lambda ws, _: ws.restore("new", git=True), git=True),
    "undo": Operation(_unsaved, lambda ws, _: ws.undo()),
    "undo-git": Operation(_moved_back, lambda ws, _: ws.undo(), git=True, again=False),
    "redo": Operation(_undone, lambda ws, _: ws.redo(), again=False),
    "delete": Operation(_unsaved, lambda ws, _: ws.delete("new"), again=False),
    "gc": Operation(_deleted, lambda ws, _: ws.prune()),
    "forget": Operation(_secret_captured, lambda ws, _: ws.forget("d/secret")),
    "doctor-index": Operation(_without_indexes, lambda ws, _: ws.doctor(), heals=True),
    "doctor-timeline": Operation(_without_timeline, lambda ws, _: ws.doctor(), heals=True),
    "doctor-record": Operation(_damaged_record, lambda ws, _: ws.doctor(), heals=True),
    "doctor-pack": Operation(_damaged_pack, lambda ws, _: ws.doctor(), heals=True),
    "trim": Operation(_tagged, lambda ws, _: ws.trim(1, match={"m": 1}), again=False),
    "restore-all": Operation(_with_state, lambda ws, _: ws.restore("new", what="all")),
    "adopt": Operation(_adoptable, lambda ws, place: ws.adopt(_found(place)), heals=True, again=False),
    "recognise": Operation(_replaced, lambda ws, _: engine.doctor.recognise(ws.bench)),
    "adopt-joining": Operation(
        _adoptable_and_saved, lambda ws, place: ws.adopt(_found(place)), heals=True, again=False
    ),
    "recovery-early": Operation(_cut_short("staging"), lambda ws, _: ws.save("now"), begins=OLD),
    "recovery-late": Operation(_cut_short("applying"), lambda ws, _: ws.save("now"), again=False, begins=OLD),
}


def _found(place: Place) -> Path:
    """What to name for adoption: the store, and once that was moved, the directory it was made for."""
    elsewhere = place.home / "elsewhere"
    return elsewhere if elsewhere.exists() else place.home / "former"


def _head(ws: Any) -> str:
    """The newest commit, without starting git: its calls would count as ours."""
    return Path(ws.root, ".git/refs/heads/main").read_text(encoding="ascii").strip()


class Stage:
    """One operation, ready to be set up again and again; `known` is what its checkpoints held in the beginning."""

    def __init__(self, base: Path, operation: Operation) -> None:
        self.operation = operation
        self.place = Place(base / "stage")
        self._template = base / "template"
        for path in (self.place.home, self._template):
            shutil.rmtree(path, ignore_errors=True)
        self.place.project.mkdir(parents=True)
        operation.prepare(self.place)
        shutil.copytree(self.place.home, self._template, symlinks=True)
        self.old = operation.begins or state_of(self.place.project)
        self.known = {} if operation.heals else held(self.place.store)

    def reset(self) -> Any:
        """Puts everything back to the beginning and returns the workspace."""
        for path in self.place.home.iterdir():
            if path != self.place.project:
                shutil.rmtree(path)
        for path in self._template.iterdir():
            if path.name != "project":
                shutil.copytree(path, self.place.home / path.name, symlinks=True)
        wipe(self.place.project)
        shutil.copytree(self._template / "project", self.place.project, symlinks=True, dirs_exist_ok=True)
        for path in self._template.rglob("*") if os.geteuid() == 0 else ():
            status = path.lstat()
            if status.st_uid:
                os.chown(self.place.home / path.relative_to(self._template), status.st_uid, status.st_gid)
        return self.place.open()


def held(store: Path) -> dict[str, State]:
    """By id: the workspace that each checkpoint holds, as plain git shows it; an empty one where it cannot be read."""
    if not (store / "HEAD").exists():
        return {}
    objects = objects_of(store)
    found = {name: read_checkpoint(objects, commit)[0] for name, commit in rows(store).items()}
    return {name: one.files if one is not None else {} for name, one in found.items()}
