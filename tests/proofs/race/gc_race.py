"""
Frees disk while others save, restore, read and check the same store: nothing that a checkpoint needs is deleted.

    python tests/proofs/race/gc_race.py [--size RUNS] [--kills] [--build NAME]

Seven processes at once: two that save, and delete what they saved to be deleted; one that restores its own directory and
undoes that; one that reads checkpoints and compares; one that checks the store; one that does nothing but free disk; and one
that frees it bit by bit, as a watcher does. Each run of the last but one is counted, while the others are at work. Every checkpoint says in its name what it holds, so that
whoever finds one can tell whether its bytes are right; what was acknowledged and not deleted must be found again by plain
git. With `--kills` one process after the other is killed at a random moment and started anew.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from crowd import BUILDS
from swapper import forked

import mulligan
from check_timeline import view_of
from checker import judge
from mulligan.model.policy import Retention
from mulligan.settings import resolve
from mulligan.store import gc
from mulligan.timeline import pruning
from tally import Tally, parser, workplace
from tree import put

#: What another process may do to a command without anything being wrong.
EXPECTED = (mulligan.Busy, mulligan.PlanStale, mulligan.NothingToUndo, mulligan.NothingToRedo)
_RUNS_PER_STORE = 120
_RECENT = 25
#: Between two commands, at most: so that everybody gets the store now and then.
_PAUSE_S = 0.03
#: And before all of it is freed at once, so that there is something to be freed bit by bit.
_GC_PAUSE_S = 0.15
_NAMES = "abc"
# Little is worth it, and little is done at a time.
pruning._GROWN = 1
gc.PORTION = 4000
_DAMAGE = frozenset({"timeline", "checkpoint", "damaged pack", "damaged index"})


def content(where: str, version: int) -> bytes:
    """The bytes of a version, which can be made again from its number alone."""
    body = f"{where} {version}\n" * (1 + version % 300)
    return body.encode() + hashlib.sha1(body.encode()).hexdigest().encode()


class Worker:
    """One process, with a directory of its own in the workspace."""

    def __init__(self, home: Path, role: str, seed: int, runs: mmap.mmap, *, kills: bool) -> None:
        self.home, self.role, self.rng, self.runs, self.kills = home, role, random.Random(seed), runs, kills
        settings = resolve(home / "project", store=home / "store")
        self.ws = mulligan.Workspace(settings._replace(retention=Retention(safety=10**9), wait=20.0))
        self.said = os.open(home / "said", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.mine: list[str] = []

    def tell(self, *words: object) -> None:
        """Says something that outlives this process."""
        os.write(self.said, (" ".join(map(str, words)) + "\n").encode())

    def live(self) -> None:
        """Works until it is killed; what is not expected is a finding."""
        act: Callable[[], None] = getattr(self, self.role.rstrip("0123456789"))
        while True:
            time.sleep(self.rng.random() * _PAUSE_S)
            try:
                act()
                self.tell("did", self.role)
            except EXPECTED as error:
                self.tell("expected", type(error).__name__)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not happen
                self.tell("BROKEN", self.role, type(error).__name__, str(error).replace("\n", " "))

    def edit(self) -> int:
        """A new version of everything in its own directory."""
        version = time.monotonic_ns() >> 10
        for name in _NAMES:
            put(self.home / "project", f"{self.role}/{name}", content(f"{self.role}/{name}", version))
        return version

    def saver(self) -> None:
        """Saves to keep, or to delete a little later."""
        version = self.edit()
        kind = self.rng.choice(("keep", "drop"))
        cp = self.ws.save(f"{kind} {self.role} {version}")
        self.tell("saved", cp.id, kind)
        if kind == "drop":
            self.mine.append(cp.id)
        if len(self.mine) > 3:
            gone = self.mine.pop(self.rng.randrange(len(self.mine)))
            self.tell("deleting", gone)
            with suppress(mulligan.UnknownCheckpoint):
                self.ws.delete(gone)
            self.tell("deleted", gone)

    def restorer(self) -> None:
        """Goes back in its own directory, and forward again."""
        versions = [self.edit()]
        first = self.ws.save(f"keep {self.role} {versions[0]}")
        self.tell("saved", first.id, "keep")
        versions.append(self.edit())
        self.ws.restore(first, paths=[self.role])
        self.expect(versions[0])

    def expect(self, version: int) -> None:
        """Its own directory must be what it should be: nobody else writes there."""
        for name in _NAMES:
            wanted = content(f"{self.role}/{name}", version)
            if (self.home / "project" / self.role / name).read_bytes() != wanted:
                self.tell("BROKEN", self.role, f"{name} is not version {version} after a restore")

    def reader(self) -> None:
        """Reads a checkpoint as its name says."""
        cp = self.rng.choice(self.ws.log(limit=_RECENT))
        kind, _, about = cp.name.partition(" ")
        who, _, version = about.partition(" ")
        if kind not in {"keep", "drop"}:
            return
        for name in _NAMES:
            try:
                found = self.ws.cat(cp, f"{who}/{name}")
            except mulligan.UnknownCheckpoint:
                if kind == "keep":
                    raise
                return
            if found != content(f"{who}/{name}", int(version)):
                self.tell("BROKEN", f"{cp.id} {cp.name}: {name} has other bytes")

    def checker(self) -> None:
        """Looks at the whole store."""
        for problem in self.ws.check().problems:
            # What a kill left of a pack or owes of the references is the next writer's to end, and no damage.
            if problem.kind in _DAMAGE or not self.kills:
                self.tell("BROKEN check", problem.to_dict())
        with suppress(mulligan.UnknownCheckpoint):
            self.ws.diff(*[cp.id for cp in self.ws.log(limit=2)])

    def tidier(self) -> None:
        """Frees disk in small portions, and lets others go first after any of them."""
        for _ in range(self.rng.randrange(40)):
            if not self.ws.tidy():
                return
        self.tell("did", "left-off")

    def gc(self) -> None:
        """Frees disk."""
        time.sleep(self.rng.random() * _GC_PAUSE_S)
        try:
            self.ws.prune()
        finally:
            self.runs[:8] = (int.from_bytes(self.runs[:8], "little") + 1).to_bytes(8, "little")


ROLES = ("saver1", "saver2", "restorer", "reader", "checker", "tidier", "gc")


def episode(home: Path, given: Any, rng: random.Random, count: int, tally: Tally) -> None:
    """Lets them work until disk was freed so often, and judges what is left."""
    put(home / "project", "base", "base")
    with mulligan.open(home / "project", store=home / "store") as ws:
        ws.save("base")
    runs = mmap.mmap(-1, 8)

    def start(role: str) -> int:
        seed = rng.getrandbits(60)

        def act() -> None:
            with BUILDS[given.build]():
                Worker(home, role, seed, runs, kills=given.kills).live()

        return forked(act)

    working = {role: start(role) for role in ROLES}
    kills = 0
    try:
        while int.from_bytes(runs[:8], "little") < count and not tally.over:
            time.sleep(rng.random() * 0.3)
            if given.kills:
                role = rng.choice(ROLES)
                os.kill(working[role], signal.SIGKILL)
                os.waitpid(working[role], 0)
                kills += 1
                working[role] = start(role)
    finally:
        for pid in working.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    tally.did(int.from_bytes(runs[:8], "little"), kills=kills, stores=1)
    aftermath(home, tally)


def aftermath(home: Path, tally: Tally) -> None:
    """What was said, and what is there."""
    saved, gone = {}, set()
    for line in (home / "said").read_text(errors="replace").splitlines():
        words = line.split()
        if words[0] == "saved":
            saved[words[1]] = words[2]
        elif words[0] == "deleting":
            gone.add(words[1])
        elif words[0] in {"did", "expected"}:
            tally.counts[words[1].rstrip("0123456789")] += 1
        elif words[0] == "BROKEN":
            tally.broke(line)
    with mulligan.open(home / "project", store=home / "store") as ws:
        ws.save("end")  # ends what the last kill cut short
    view = view_of(home / "store")
    held = view.checkpoints()
    tally.counts["acknowledged"] += len(saved)
    tally.broke([f"{name} was acknowledged and is gone" for name in saved if name not in held and name not in gone])
    for row in view.timeline.tables["checkpoint"]:
        words = str(row["name"]).split()
        if len(words) == 3:
            wanted = {f"{words[1]}/{name}": content(f"{words[1]}/{name}", int(words[2])) for name in _NAMES}
            files = held.get(row["id"], {})
            wrong = [path for path, data in wanted.items() if files.get(path, ("", 0, b""))[2] != data]
            tally.broke([f"{row['id']} {row['name']}: {path} has other bytes, or none" for path in wrong])
    tally.broke(judge(home / "store", home / "project", with_fsck=False, view=view))


def main() -> int:
    """Runs it until disk was freed so often."""
    options = parser(__doc__, 60)
    options.add_argument("--build", choices=BUILDS, default="real")
    options.add_argument("--kills", action="store_true")
    given = options.parse_args()
    rng = random.Random(given.seed)
    tally = Tally(
        f"freeing disk, {given.build} build{', with kills' if given.kills else ''}", given.size, enough=given.enough
    )
    with workplace(given.base) as place:
        number = 0
        while not tally.over:
            number += 1
            home = place / f"e{number}"
            episode(home, given, rng, min(_RUNS_PER_STORE, given.size - tally.tried), tally)
            shutil.rmtree(home)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
