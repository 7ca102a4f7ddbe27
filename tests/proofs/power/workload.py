"""
A process at work on a disk whose power will be cut: it edits, saves, restores, undoes, tidies up, forgets and moves git.

It says what it is about to do and what was acknowledged in a file on another disk, one line each, so that a separate
process can judge afterwards. What it edits itself is not mulligan's to keep: a path that was edited and not synced is
called loose, until an acknowledged restore has changed it.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from disks import sync

import mulligan
from adopted import settle
from mulligan.model.policy import Retention
from mulligan.scan import from_git
from mulligan.settings import resolve
from scenes import state_of
from tools import git
from tree import put
from users_repository import make_dirty, move_on, new_repository

#: By path: kind, permission bits, and a hash of the bytes.
Marked = dict[str, list[Any]]
EXPECTED = (mulligan.NothingToUndo, mulligan.NothingToRedo)
SECRET = "d/secret"
_PATHS = ("a", "d/b", "d/deep/c", "n0", "n1", "n2", "x/y0", "x/y1", "file", "dir/deep/other", SECRET)
_WEIGHTS = {
    "save": 5,
    "restore": 5,
    "undo": 3,
    "redo": 1,
    "restore_git": 3,
    "delete": 1,
    "gc": 2,
    "forget": 1,
    "first": 1,
    "doctor": 1,
}
OPERATIONS = tuple(_WEIGHTS)
# How many files there are in the repository that is clean.
CLEAN = 40
# How many files are edited together, so that a restore of them does some of its work while the disk confirms another part.
CROWD = 330
_CROWD_WEIGHTS = {"restore": 6, "undo": 3, "redo": 1, "save": 1}
# The operation that is cut: more often one that changes the workspace.
_LAST = _WEIGHTS | {"restore": 10, "restore_git": 6, "undo": 6, "redo": 3}


def marked(state: dict[str, tuple[str, int, bytes]]) -> Marked:
    """A state with hashes instead of bytes; of directories and links the bits do not count, temporaries not at all."""
    return {
        path: [kind, mode if kind == "file" else 0, hashlib.sha1(content).hexdigest() if kind != "dir" else ""]
        for path, (kind, mode, content) in state.items()
        if not os.path.basename(path).startswith(".mulligan-")
    }


class Places(NamedTuple):
    """A mounted disk with a project, its stores and the user's repository, and the file that outlives it."""

    point: Path
    log: Path

    @property
    def project(self) -> Path:
        """The workspace."""
        return self.point / "project"

    @property
    def store(self) -> Path:
        """Its store."""
        return self.point / "stores" / "store"

    @property
    def second(self) -> Path:
        """Another store of the same workspace, made when the first save into it is."""
        return self.point / "stores" / "second"

    def open(self, store: Path | None = None) -> Any:
        """A workspace in which nothing expires: what was saved for safety must be found again."""
        settings = resolve(self.project, store=store or self.store)
        return mulligan.Workspace(settings._replace(retention=Retention(safety=10**9), wait=10.0))

    def head(self) -> str:
        """Where git stands, by its own file."""
        return (self.project / ".git" / "HEAD").read_text().strip()

    def said(self) -> list[dict[str, Any]]:
        """What was said so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def tell(self, **what: Any) -> None:
        """Says something for good."""
        handle = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, json.dumps(what).encode() + b"\n")
        os.close(handle)


def crowd(version: int) -> dict[str, bytes]:
    """Files that are edited together, some of them larger than a page."""
    return {
        f"m{number % 23}/f{number}": b"%d in version %d\n" % (number, version) * (1 + number % 90 * (1 + number % 5))
        for number in range(CROWD)
    }


def prepare(places: Places, *, crowded: bool = False) -> None:
    """A project that is a repository, in which an agent moved on; one checkpoint from before and one from after."""
    new_repository(places.project)
    make_dirty(places.project)
    for path, content in crowd(0).items() if crowded else ():
        put(places.project, path, content)
    for path in _PATHS:
        put(places.project, path, f"{path} in the beginning\n" * 20)
    places.store.parent.mkdir(mode=0o700)
    with places.open() as ws:
        for name, branch in (("one", "main"), ("two", "agent")):
            if branch == "agent":
                move_on(places.project)
            state = marked(state_of(places.project))
            saved = ws.save(name, git=True)
            assert places.head().endswith(f"/{branch}")
            index = staged(places.project)
            places.tell(done="prepared", saved={saved.id: state}, state=state, head=places.head(), staged=index)


def prepare_clean(places: Places) -> None:
    """A clean repository, packed, whose first checkpoint in another store begins with what git knows; one checkpoint from before."""
    project = places.project
    git("init", "-q", "-b", "main", cwd=project)
    for number in range(CLEAN):
        put(project, f"src{number % 4}/f{number}.py", f"{random.Random(number).randbytes(9000).hex()}\n{number}\n")
    settle(places.point)
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "clean", cwd=project)
    git("repack", "-a", "-d", "-f", "-q", cwd=project)
    settle(places.point)
    places.store.parent.mkdir(mode=0o700)
    with places.open() as ws:
        state = marked(state_of(project))
        saved = ws.save("one", git=True)
        places.tell(done="prepared", saved={saved.id: state}, state=state, head=places.head(), staged=staged(project))


def staged(project: Path) -> str:
    """A hash of what is staged, by git's own word."""
    return hashlib.sha1(git("ls-files", "--stage", cwd=project, check=False)).hexdigest()


class Worker:
    """One process at work; `alert` is called when the last of its operations begins, `done` when it was acknowledged."""

    def __init__(self, places: Places, rng: random.Random, *, synced: bool) -> None:
        self.places, self.rng, self.synced = places, rng, synced
        self.ws = places.open()
        self.known: dict[str, Marked] = {}
        self.loose: set[str] = set()
        self.number = rng.randrange(10**9)
        for line in places.said():
            self.known |= line.get("saved", {})
        self.one = next(iter(self.known))
        self.kept = set(self.known)

    def adopt(self, alert: Callable[[str], None], done: Callable[[], None]) -> None:
        """Makes the first checkpoint in another store, of a repository so small that nobody else would ask git about it."""
        from_git.LEAST = 1
        self.edit()
        self.operate("first", alert)
        done()

    def crowd(self, count: int, alert: Callable[[str], None], done: Callable[[], None]) -> None:
        """Edits hundreds of files at a time, in a watched workspace, and goes back and forth."""
        with self.ws.watch():
            for number in range(count):
                self.edit_crowd()
                kind = self.rng.choices([*_CROWD_WEIGHTS], [*_CROWD_WEIGHTS.values()])[0]
                self.operate(kind, alert if number == count - 1 else None)
            done()

    def live(self, count: int, alert: Callable[[str], None], done: Callable[[], None]) -> None:
        """Does so many operations."""
        for number in range(count):
            self.edit()
            last = number == count - 1
            kind = self.rng.choices(OPERATIONS, list((_LAST if last else _WEIGHTS).values()))[0]
            self.operate(kind, alert if last else None)
            if self.rng.random() < 0.2:
                self.ws.close()
        done()

    def resume(self, alert: Callable[[str], None], done: Callable[[], None]) -> None:
        """The command after a cut, which ends what was cut short."""
        kind = self.rng.choice(("save", "save", "gc", "doctor"))
        self.operate(kind, alert, after=True)
        done()

    def edit(self) -> None:
        """What an agent does between two commands: writes, deletes, makes links and directories."""
        project, rng = self.places.project, self.rng
        for path in rng.sample(_PATHS, rng.randrange(1, 4)):
            self.number += 1
            place, roll = project / path, rng.random()
            if roll < 0.1:
                place.unlink(missing_ok=True)
            elif roll < 0.15 and path == "x/y0":
                shutil.rmtree(place.parent, ignore_errors=True)
                self.loose |= {"x", "x/y0", "x/y1"}
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                body = (
                    rng.randbytes(150_000)
                    if roll < 0.25
                    else f"{path} {self.number}\n".encode() * rng.randrange(1, 400)
                )
                place.write_bytes(body)
                place.chmod(rng.choice((0o644, 0o644, 0o755, 0o600)))
            self.loose |= {path, *map(str, Path(path).parents)}
        if rng.random() < 0.3:
            link = project / "link"
            link.unlink(missing_ok=True)
            link.symlink_to(f"to-{self.number}")
            self.loose.add("link")
        if self.synced:
            sync(project)
            self.loose.clear()

    def edit_crowd(self) -> None:
        """Writes all of them anew."""
        self.number += 1
        for path, content in crowd(self.number).items():
            put(self.places.project, path, content)
            self.loose |= {path, *map(str, Path(path).parents)}
        if self.synced:
            sync(self.places.project)
            self.loose.clear()

    def operate(self, kind: str, alert: Callable[[str], None] | None, *, after: bool = False) -> None:
        """Does one thing and says so before and after."""
        old, target = marked(state_of(self.places.project)), self.target(kind)
        self.places.tell(
            doing=kind,
            old=old,
            new=target[1] if target else None,
            head=self.places.head(),
            loose=sorted(self.loose),
            after=after,
        )
        if alert is not None:
            alert(kind)
        began, kept = time.monotonic(), set(self.kept)
        try:
            said = getattr(self, kind)(target[0] if target else "", old)
        except EXPECTED:
            said = {}
        took = time.monotonic() - began
        new = marked(state_of(self.places.project))
        self.loose -= {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}
        self.kept = (kept | set(said.get("saved", {}))) - {said.get("deleted", "")}
        self.known |= said.get("saved", {})
        self.places.tell(
            done=kind,
            state=new,
            head=self.places.head(),
            loose=sorted(self.loose),
            took=took,
            at=time.monotonic(),
            **said,
        )

    def target(self, kind: str) -> tuple[str, Marked] | None:
        """What a restore goes to."""
        if kind == "restore":
            name = self.rng.choice(sorted(self.kept))
            return name, self.known[name]
        return (self.one, self.known[self.one]) if kind == "restore_git" else None

    # -- what is done: each returns what was acknowledged ---------------------------------------------

    def save(self, _target: str, old: Marked) -> dict[str, Any]:
        """Saves."""
        return {"saved": {self.ws.save(git=self.rng.random() < 0.3).id: old}}

    def restore(self, target: str, old: Marked) -> dict[str, Any]:
        """Goes back to some checkpoint; what was unsaved is in another one then."""
        return {"safety": {self.ws.restore(target).undo: old}}

    def restore_git(self, target: str, old: Marked) -> dict[str, Any]:
        """Goes back with git."""
        return {"safety": {self.ws.restore(target, git=True).undo: old}}

    def undo(self, _target: str, old: Marked) -> dict[str, Any]:
        """Takes the last operation back."""
        return {"safety": {self.ws.undo().undo: old}}

    def redo(self, _target: str, old: Marked) -> dict[str, Any]:
        """Does it again."""
        return {"safety": {self.ws.redo().undo: old}}

    def delete(self, _target: str, _old: Marked) -> dict[str, Any]:
        """Deletes a checkpoint."""
        name = self.rng.choice(sorted(self.kept))
        if name == self.one:
            return {}
        self.places.tell(deleting=name)
        self.ws.delete(name)
        self.kept.discard(name)
        return {"deleted": name}

    def gc(self, _target: str, _old: Marked) -> dict[str, Any]:
        """Frees the disk."""
        self.ws.prune()
        return {}

    def forget(self, _target: str, _old: Marked) -> dict[str, Any]:
        """Removes a path from all checkpoints."""
        self.ws.forget(SECRET)
        for state in self.known.values():
            state.pop(SECRET, None)
        return {"forgot": SECRET}

    def first(self, _target: str, old: Marked) -> dict[str, Any]:
        """Saves into a store that is not there yet, or was made so."""
        with self.places.open(self.places.second) as ws:
            return {"second": {ws.save().id: old}}

    def doctor(self, _target: str, _old: Marked) -> dict[str, Any]:
        """Looks after the store; it must have nothing to do."""
        report = self.ws.doctor()
        assert report.ok, report.problems
        return {}


def work(places: Places, rng: random.Random, given: dict[str, Any], alert: Callable[[str], None]) -> None:
    """
    The life of the process: ends with the cut when that is its own affair, and else waits for it.

    `given`: how many operations (`count`), whether edits are `synced`, how it cuts the power itself, right after the last
    acknowledgement (`cut`), whether it is the command `after` a cut, whether it `adopts` what git knows, or edits files in `crowds`, and whether it `stays`, its files open,
    or ends; `said` is called when all is done.
    """
    try:
        worker = Worker(places, rng, synced=given["synced"])

        def done() -> None:
            if given["cut"]:
                given["cut"]()
            elif not given["stays"]:
                worker.ws.close()

        if given["after"]:
            worker.resume(alert, done)
        elif given["adopts"]:
            worker.adopt(alert, done)
        elif given["crowds"]:
            worker.crowd(given["count"], alert, done)
        else:
            worker.live(given["count"], alert, done)
        given["said"]()
        if given["stays"]:
            time.sleep(600)  # it is killed after the cut
    except mulligan.MulliganError as error:
        places.tell(failed=f"{type(error).__name__}: {error}", typed=True, at=time.monotonic())
    except OSError as error:
        # The agent's own edits end so too; only what the engine was doing is of interest.
        ours = any("mulligan/src" in name or "/mulligan/" in name for name in _files_of(error))
        places.tell(failed=f"{type(error).__name__}: {error}", typed=not ours, at=time.monotonic())
    except BaseException as error:  # noqa: BLE001 - a worker ends here, whatever it was
        places.tell(failed=f"{type(error).__name__}: {error}", typed=False, at=time.monotonic())


def _files_of(error: BaseException) -> list[str]:
    found, here = [], error.__traceback__
    while here is not None:
        found.append(here.tb_frame.f_code.co_filename)
        here = here.tb_next
    return found
