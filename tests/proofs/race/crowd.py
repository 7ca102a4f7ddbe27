"""
Many processes save one workspace at once: nothing acknowledged is lost or there twice, and history is one line.

    python tests/proofs/race/crowd.py [--size CHECKPOINTS] [--workers N] [--build NAME]

Each worker writes a number into its own file, saves, and notes the id with the time before and after; `Busy` is an answer,
and it tries again. Afterwards plain SQLite and plain git tell the history, and it must explain everything that was noted:
each acknowledged checkpoint is there once and nothing else is; each has one before it, up to the first; one that ended
before another began stands before it; each holds its worker's number, and along the line no number of anybody ever falls,
so every save saw all that was acknowledged before it began. `--build` runs a build that must be caught.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from swapper import forked

import mulligan
from check_timeline import View, view_of
from checker import judge
from loose_builds import replaced
from mulligan.scan.scanner import Scanner
from mulligan.settings import resolve
from mulligan.timeline import pruning
from mulligan.timeline import store as timeline_store
from tally import Tally, parser, workplace

_PER_STORE = 400


class Noted(NamedTuple):
    """One acknowledged save: what a worker knows of it."""

    id: str
    worker: int
    number: int
    began: int
    ended: int


def work(root: Path, store: Path, worker: int, count: int, out: Path) -> None:
    """One worker: writes, saves and notes."""
    busy, waits = 0, []
    with (
        open(out, "w", encoding="utf-8") as file,
        mulligan.Workspace(resolve(root, store=store)._replace(wait=2.0)) as ws,
    ):
        for number in range(1, count + 1):
            place, scratch = root / f"w{worker}", root.parent / f"scratch{worker}"
            scratch.write_text(f"{number}")
            scratch.rename(place)
            while True:
                began = time.monotonic_ns()
                try:
                    cp = ws.save(f"{worker} {number}")
                except mulligan.Busy:
                    busy += 1
                    continue
                ended = time.monotonic_ns()
                break
            waits.append((ended - began) // 1_000_000)
            print(json.dumps(Noted(cp.id, worker, number, began, ended)), file=file)
        print(json.dumps({"busy": busy, "waits": waits}), file=file)


# -- the judge ------------------------------------------------------------------------------------------------


def line_of(view: View) -> tuple[list[str], list[str]]:
    """The checkpoints from the first to the last, and what is wrong with their being one line."""
    rows = {row["id"]: row["parent"] or "" for row in view.timeline.tables["checkpoint"]}
    after: dict[str, list[str]] = {}
    for name, parent in rows.items():
        after.setdefault(parent, []).append(name)
    wrong = [
        f"{len(names)} checkpoints come after {parent or 'nothing'}"
        for parent, names in after.items()
        if len(names) > 1
    ]
    line, at = [], ""
    while len(after.get(at, [])) == 1:
        at = after[at][0]
        line.append(at)
    return line, wrong + ([] if len(line) == len(rows) else [f"{len(rows) - len(line)} checkpoints are not in line"])


def history(view: View, noted: list[Noted]) -> list[str]:
    """Where history does not explain what the workers noted."""
    line, wrong = line_of(view)
    at = {name: place for place, name in enumerate(line)}
    count = Counter(note.id for note in noted)
    wrong += [f"{name} was acknowledged {times} times" for name, times in count.items() if times > 1]
    wrong += [f"{name} was acknowledged and is not there" for name in count if name not in at]
    wrong += [f"{name} is there and nobody saved it" for name in at if name not in count]
    wrong += [f"{name} has no reference" for name in at if name not in view.refs]
    known = sorted((note for note in noted if note.id in at), key=lambda note: at[note.id])
    latest_beginning = 0
    for note in known:
        if note.ended < latest_beginning:
            wrong.append(f"{note.id} ended before one began that stands before it")
        latest_beginning = max(latest_beginning, note.began)
    return wrong + states(view, known)


def states(view: View, known: list[Noted]) -> list[str]:
    """Where a checkpoint does not hold its worker's number, or numbers fall along the line."""
    wrong: list[str] = []
    held, last = view.checkpoints(), dict[str, int]()
    for note in known:
        numbers = {path: int(entry[2]) for path, entry in held[note.id].items() if path.startswith("w")}
        if numbers.get(f"w{note.worker}") != note.number:
            wrong.append(f"{note.id} holds {numbers.get(f'w{note.worker}')} of worker {note.worker}, not {note.number}")
        fell = [path for path in last.keys() | numbers.keys() if numbers.get(path, -1) < last.get(path, 0)]
        wrong += [f"{note.id}: {path} falls from {last[path]} to {numbers.get(path)}" for path in fell]
        last |= numbers
    return wrong


# -- builds and rounds ----------------------------------------------------------------------------------------------


@contextmanager
def unlocked() -> Iterator[None]:
    """A build whose processes do not wait for each other."""
    with replaced(timeline_store, exclusive=lambda *_args, **_more: nullcontext()):
        yield


@contextmanager
def stale() -> Iterator[None]:
    """A build that keeps its first look at the workspace instead of looking again."""
    real, first = Scanner.scan, {}

    def scan(self: Any, *args: Any, **more: Any) -> Any:
        found = real(self, *args, **more)
        return first.setdefault(id(self), found)

    with replaced(Scanner, scan=scan):
        yield


@contextmanager
def credulous() -> Iterator[None]:
    """A build that frees disk by what was needed when it looked, and asks nobody again."""
    with replaced(pruning, reach=lambda *_: []):
        yield


@contextmanager
def real() -> Iterator[None]:
    """The build as it is."""
    yield


BUILDS = {"real": real, "unlocked": unlocked, "stale": stale, "credulous": credulous}


def episode(place: Path, count: int, given: Any, tally: Tally) -> list[int]:
    """Some hundred checkpoints in a new store, judged; returns the waits."""
    root, store = place / "project", place / "store"
    root.mkdir(parents=True)
    shares = [len(range(worker, count, given.workers)) for worker in range(given.workers)]
    outs = [place / f"noted{worker}" for worker in range(given.workers)]

    def act(worker: int) -> None:
        with BUILDS[given.build]():
            work(root, store, worker, shares[worker], outs[worker])

    pids = [forked(lambda worker=worker: act(worker)) for worker in range(given.workers)]
    codes = [os.waitpid(pid, 0)[1] for pid in pids]
    tally.broke([f"worker {worker} ended with {code}" for worker, code in enumerate(codes) if code])
    noted, waits = [], []
    for out in outs:
        for line in map(json.loads, out.read_text(encoding="utf-8").splitlines() if out.exists() else []):
            if isinstance(line, list):
                noted.append(Noted(*line))
            else:
                tally.counts["busy"] += line["busy"]
                waits += line["waits"]
    view = view_of(store)
    tally.broke(history(view, noted))
    tally.broke(judge(store, root, with_fsck=False, view=view))
    tally.did(len(noted), stores=1)
    return waits


def main() -> int:
    """Runs crowds until so many checkpoints were saved."""
    options = parser(__doc__, 200)
    options.add_argument("--workers", type=int, default=8)
    options.add_argument("--build", choices=BUILDS, default="real")
    given = options.parse_args()
    tally = Tally(f"{given.workers} processes, {given.build} build", given.size, enough=given.enough)
    waits: list[int] = []
    with workplace(given.base) as place:
        while not tally.over:
            count = min(_PER_STORE, given.size - tally.tried)
            waits += episode(place / "episode", max(count, given.workers), given, tally)
            shutil.rmtree(place / "episode")
    waits.sort()
    for name, share in (("median", 0.5), ("p99", 0.99), ("longest", 1.0)):
        tally.counts[f"save_{name}_ms"] = waits[min(len(waits) - 1, int(len(waits) * share))] if waits else 0
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
