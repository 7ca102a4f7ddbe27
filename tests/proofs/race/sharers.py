"""
What shares a store without knowing of each other: forked children, containers, and names that nobody saves.

    python tests/proofs/race/sharers.py [--size N] [--seed N] [--scene NAME ...] [--build NAME]

`forks` saves while another thread forks, and asks whether the store is free afterwards. `containers` saves from a process
that sees other process numbers, and asks whether what a guard holds is still there. `names` saves again and again beside
ignored files that come and go, and asks `du` whether the store is within its budget. `--build` puts a build in place that
must be found out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import mulligan
from loose_builds import replaced
from mulligan.model.policy import Retention
from mulligan.safefs import lock, pins
from mulligan.settings import resolve
from mulligan.timeline.store import Store
from tally import Tally, cannot, parser, workplace
from tools import plain_environment

APART = ["unshare", "--pid", "--fork", "--mount-proc"]
_BUDGET = 700 << 10
_SAVES = 8


def forks(folder: Path, _rng: random.Random, _build: str) -> list[str]:
    """A save while another thread forks: when it is over, the next one gets the store at once."""
    project, over, children = folder / "project", threading.Event(), []
    fork = multiprocessing.get_context("fork")
    with mulligan.open(project, store=folder / "store") as ws:
        ws.save("first")
        for number in range(200):
            (project / f"file{number}").write_text(f"{number}\n" * 40)

        def keep_forking() -> None:
            while not over.is_set() and len(children) < 60:
                children.append(fork.Process(target=time.sleep, args=(60,), daemon=True))
                children[-1].start()
                time.sleep(0.002)

        thread = threading.Thread(target=keep_forking)
        thread.start()
        try:
            ws.save("while another thread forks")
        finally:
            over.set()
            thread.join()
        try:
            with mulligan.Workspace(ws.settings._replace(wait=0.2)) as other:
                other.save("afterwards")
        except mulligan.Busy as error:
            return [f"the lock outlived its save: {error}"]
        finally:
            for child in children:
                child.kill()
                child.join()
    return []


def containers(folder: Path, _rng: random.Random, build: str) -> list[str]:
    """Saves by processes to which the guard's number is nobody's: the guard's checkpoint stays."""
    project, store = folder / "project", folder / "store"
    with mulligan.open(project, store=store) as ws, ws.guard("held") as held:
        command = [*APART, sys.executable, __file__, "--act", os.fspath(folder), "--build", build]
        subprocess.run(command, env=plain_environment(), check=True)
        kept = {cp.id for cp in ws.log(limit=None)}
    return [] if held.id in kept else ["a container evicted what a guard holds"]


def save_often(folder: Path) -> None:
    """Saves more automatic checkpoints than are kept."""
    with mulligan.open(folder / "project", store=folder / "store") as ws:
        for number in range(_SAVES):
            (folder / "project" / "file").write_text(f"by a container, {number}")
            ws.save(kind="automatic")


def names(folder: Path, rng: random.Random, _build: str) -> list[str]:
    """Ignored files that come and go: their names count against the budget like everything else."""
    project, store = folder / "project", folder / "store"
    (project / ".gitignore").write_text("*.log\n")
    settings = resolve(project, store=store)._replace(retention=Retention(budget=_BUDGET))
    with mulligan.Workspace(settings) as ws:
        for number in range(40):
            (project / f"{rng.randbytes(100).hex()}.log").touch()
            (project / "file").write_text(str(number))
            ws.save(kind="step")
        done = subprocess.run(["du", "-s", "--block-size=1", store], capture_output=True, text=True, check=True)
    used = int(done.stdout.split()[0])
    return [f"the store takes {used} bytes, its budget is {_BUDGET}"] if used > _BUDGET else []


class _ByNumber(pins.Pin):
    """A pin that is the number of its process."""

    def __init__(self, directory: object) -> None:
        self.number, self._fd = os.getpid(), -1


def _pins_by_process() -> AbstractContextManager[None]:
    from mulligan.engine import guard

    return replaced(guard, Pin=_ByNumber)


SCENES: dict[str, Callable[[Path, random.Random, str], list[str]]] = {
    "forks": forks,
    "containers": containers,
    "names": names,
}
BUILDS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "good": nullcontext,
    "closes-only": lambda: replaced(lock, _release=lambda fd: None),
    "pins-by-process": _pins_by_process,
    "counts-packs": lambda: replaced(Store, used_bytes=lambda store: store.objects.disk_bytes()),
}


def why_not_apart() -> str:
    """Why no process can be started that sees other process numbers; empty if one can."""
    if not shutil.which(APART[0]):
        return "unshare is missing"
    done = subprocess.run([*APART, "true"], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def play(given: argparse.Namespace, scenes: list[str]) -> int:
    """Plays the scenes, one after the other."""
    tally = Tally(f"sharers, {given.build} build", given.size, enough=given.enough)
    with workplace(given.base) as place, BUILDS[given.build]():
        while not tally.over:
            name, seed = scenes[tally.tried % len(scenes)], given.seed + tally.tried
            folder = place / str(tally.tried)
            (folder / "project").mkdir(parents=True)
            found = SCENES[name](folder, random.Random(seed), given.build)
            tally.broke([f"{name}, seed {seed}: {line}" for line in found])
            tally.did(1, **{name: 1})
            shutil.rmtree(folder)
    return tally.end()


def main() -> int:
    """Plays what can be played here."""
    options = parser(__doc__, 30)
    options.add_argument("--scene", action="append", choices=SCENES)
    options.add_argument("--build", choices=BUILDS, default="good")
    options.add_argument("--act", default="", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.act:
        with BUILDS[given.build]():
            save_often(Path(given.act))
        return 0
    scenes = given.scene or list(SCENES)
    if "containers" in scenes and (reason := why_not_apart()):
        print(f"!!! NOT IN CONTAINERS: {reason}", flush=True)
        scenes.remove("containers")
        if not scenes:
            return cannot(reason)
    return play(given, scenes)


if __name__ == "__main__":
    sys.exit(main())
