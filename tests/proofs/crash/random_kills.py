"""
Kills processes at random instants while several of them work on one workspace, and looks at what is left.

    python tests/proofs/crash/random_kills.py [--size N] [--seed N] [--workers N] [--history N] [--renew N]
        [--life S] [--build NAME]

Each round forks some workers, which edit, save, restore, undo, redo, delete, tidy up and read, all at once and in one
workspace, and say what was acknowledged in a file that outlives them. After a random time all of them are killed, or one
first and the others, which meet what it left, a little later. `--size` is the number of kills. After each round:
every acknowledged checkpoint is there, unless it was being deleted; each file in the workspace and in any checkpoint is one
that somebody wrote, whole; the last thing that each worker wrote is in the workspace or in a checkpoint; the next
command works without help, and its time is taken; the judge finds nothing, before and after it.
`--history` begins with a history of so many checkpoints; `--renew` starts afresh after so many rounds; on a busy machine a longer
`--life` gives the workers time to be in the middle of something; `--build` lets them be a known-bad build, which must be
caught.
Exit codes: 0 nothing was lost, 1 something was.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from bad_kill_builds import BUILDS
from places import Place

import mulligan
from checker import View, judge, view_of
from mulligan.model.policy import Retention
from mulligan.timeline import pruning
from tally import Tally, parser, workplace
from tree import put, snapshot

#: What another process may do to a command without anything being wrong.
EXPECTED = (
    mulligan.Busy,
    mulligan.PlanStale,
    mulligan.NothingToUndo,
    mulligan.NothingToRedo,
    mulligan.UnknownCheckpoint,
)
BASE = "base"
_LIFE_S = 0.12
_JUDGED_WHOLE = 300


def content(path: str, version: int) -> bytes:
    """The bytes of one version of a file, which say themselves whether they are whole."""
    body = f"{path} {version}\n" * (1 + version % 40)
    return f"{body}{hashlib.sha1(body.encode()).hexdigest()}\n".encode()


def version_of(data: bytes) -> tuple[str, int] | None:
    """Which file and version some bytes are; None when they are no whole one."""
    body, _, last = data.removesuffix(b"\n").rpartition(b"\n")
    if hashlib.sha1(body + b"\n").hexdigest().encode() != last:
        return None
    path, number = body.split(b"\n", 1)[0].decode().split()
    return path, int(number)


def opened(place: Place) -> Any:
    """A workspace in which nothing expires: what was saved for safety must be found again."""
    return place.open(retention=Retention(safety=10**9), wait=10.0)


# -- a worker ---------------------------------------------------------------------------------------


class Worker:
    """One process at work until it is killed."""

    def __init__(self, places: Place, number: int, rng: random.Random) -> None:
        self.places, self.number, self.rng = places, number, rng
        self.ws = opened(places)
        self.said = os.open(places.said, os.O_WRONLY | os.O_APPEND)
        self.doing: tuple[Callable[[], None], ...] = (
            *[self.save] * 5,
            *[self.restore] * 3,
            *(self.undo, self.undo, self.redo, self.delete, self.tidy, self.look),
        )

    def tell(self, *words: object) -> None:
        """Says something for good: what was written outlives this process."""
        os.write(self.said, (" ".join(map(str, words)) + "\n").encode())

    def live(self) -> None:
        """Works on and on."""
        while True:
            self.edit()
            with suppress(*EXPECTED):
                self.rng.choice(self.doing)()

    def edit(self) -> None:
        """Writes a new version of one of its files, in one step."""
        path = f"w{self.number}/{self.rng.choice('abc')}"
        version = time.monotonic_ns()
        scratch = put(self.places.home, f"scratch/{self.number}", content(path, version))
        for _attempt in range(50):
            with suppress(FileNotFoundError, NotADirectoryError, FileExistsError):
                (self.places.project / path).parent.mkdir(exist_ok=True)
                scratch.rename(self.places.project / path)
                self.tell("wrote", path, version)
                return

    def save(self) -> None:
        """Saves; some checkpoints are there to be deleted again."""
        name = self.rng.choice(("keep", "keep", "drop"))
        self.tell("saved", self.ws.save(name).id, name)

    def restore(self) -> None:
        """Goes back to some checkpoint."""
        self.ws.restore(self.rng.choice(self.ws.log(limit=30)))
        self.tell("restored")

    def undo(self) -> None:
        """Takes something back, whoever did it."""
        self.ws.undo()
        self.tell("undone")

    def redo(self) -> None:
        """Does it again."""
        self.ws.redo()
        self.tell("redone")

    def delete(self) -> None:
        """Deletes a checkpoint whose every file some other one holds that stays."""
        kept = {version for cp in self.ws.log(limit=40) if cp.name == "keep" for version in self.held(cp)}
        for cp in self.ws.log(limit=40):
            if cp.name == "drop" and set(self.held(cp)) <= kept:
                self.tell("deleting", cp.id)
                self.ws.delete(cp)
                self.tell("deleted", cp.id)
                return

    def held(self, cp: Any) -> Iterator[bytes]:
        """The files of a checkpoint."""
        for path in {path for number in range(9) for path in (f"w{number}/{name}" for name in "abc")}:
            with suppress(mulligan.UnknownPath, mulligan.UnknownCheckpoint):
                yield self.ws.cat(cp, path)

    def tidy(self) -> None:
        """Frees the disk, at once or bit by bit."""
        if self.rng.random() < 0.5:
            self.ws.prune()
        else:
            pruning._GROWN = 1
            while self.ws.tidy():
                pass
        self.tell("pruned")

    def look(self) -> None:
        """Reads."""
        self.ws.status()
        self.ws.diff()


def start(places: Place, number: int, seed: int, build: str) -> int:
    """Starts a worker and returns its process; one that ends by itself says why, and that is a finding."""
    pid = os.fork()
    if pid:
        return pid
    try:
        with BUILDS[build]():
            Worker(places, number, random.Random(seed)).live()
    except BaseException as error:  # noqa: BLE001 - a worker ends here, whatever it was
        handle = os.open(places.said, os.O_WRONLY | os.O_APPEND)
        os.write(handle, f"failed {type(error).__name__}: {error}\n".replace("\n", " ").encode() + b"\n")
    finally:
        os._exit(1)
    return 0


# -- the supervisor ---------------------------------------------------------------------------------


def round_of(places: Place, workers: int, rng: random.Random, life: float, build: str = "good") -> int:
    """Lets some workers live for a while and kills them; returns how many were killed."""
    pids = [start(places, number, rng.getrandbits(64), build) for number in range(workers)]
    time.sleep(rng.random() * life)
    rng.shuffle(pids)
    waves = [pids] if rng.random() < 0.5 else [pids[:1], pids[1:]]
    killed = 0
    for wave in waves:
        for pid in wave:
            os.kill(pid, signal.SIGKILL)
        for pid in wave:
            killed += os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        time.sleep(rng.random() * life if len(waves) > 1 and wave is waves[0] else 0)
    return killed


class Said(NamedTuple):
    """What the workers said before they died."""

    saved: set[str]
    deleting: set[str]
    deleted: set[str]
    wrote: dict[str, int]
    failed: list[str]


def heard(places: Place) -> Said:
    """Reads what was said; a line that was cut off counts as unsaid."""
    said = Said(set(), set(), set(), {}, [])
    for line in places.said.read_text().splitlines(keepends=True):
        words = line.split()
        if not line.endswith("\n"):
            continue
        if words[0] in {"saved", "deleting", "deleted"}:
            getattr(said, words[0]).add(words[1])
        elif words[0] == "wrote":
            said.wrote[words[1]] = max(said.wrote.get(words[1], 0), int(words[2]))
        elif words[0] == "failed":
            said.failed.append(line.strip())
    return said


def lost(places: Place, view: View) -> Iterator[str]:
    """Whatever was acknowledged and is not there, or is there and not whole."""
    said, here = heard(places), view.timeline.commits
    yield from (f"a worker {line}" for line in said.failed)
    yield from (f"checkpoint {name} was acknowledged and is gone" for name in said.saved - said.deleting - here.keys())
    yield from (f"checkpoint {name} was deleted and is there" for name in said.deleted & here.keys())
    newest: dict[str, int] = {}
    whole: dict[bytes, tuple[str, int] | None] = {}
    states = [*view.checkpoints().items(), ("the workspace", on_disk(places.project))]
    for where, files in states:
        for path, (kind, _mode, data) in files.items():
            if kind != "file" or path == BASE or ".mulligan-" in path:
                continue
            if data not in whole:
                whole[data] = version_of(data)
            found = whole[data]
            if found is None or (found[0] != path and ".kept-" not in path):
                yield f"{path} in {where} is nothing that anybody wrote: {data[:60]!r}"
            else:
                newest[found[0]] = max(newest.get(found[0], 0), found[1])
    for path, version in said.wrote.items():
        if newest.get(path, 0) < version:
            yield f"the last version of {path} is nowhere"


def on_disk(project: Path) -> dict[str, tuple[str, int, bytes]]:
    """The workspace as it is."""
    return {path: (entry.kind, entry.mode, entry.content) for path, entry in snapshot(project).items()}


def first_command(places: Place) -> tuple[float, bool]:
    """A read and a write, without help; how long they took, and whether a restore had to be ended."""
    began = time.perf_counter()
    with opened(places) as ws:
        ws.log(limit=10)
        ws.status()
        ws.save("keep")
        recovered = bool(ws.last_recovery)
    return time.perf_counter() - began, recovered


def wrong_after(places: Place, rng: random.Random, tally: Tally, seconds: list[float], *, thorough: bool) -> list[str]:
    """Everything that is not as it must be after a round."""
    try:
        found = []
        if thorough and (places.store / "timeline.db").exists():
            at_once = judge(places.store, with_fsck=False, at_rest=False)
            found += [f"at that instant: {line}" for line in at_once]
        took, recovered = first_command(places)
        seconds.append(took)
        tally.counts["restores_ended"] += recovered
        if thorough:
            view = view_of(places.store)
            fsck = not rng.randrange(10)
            found += [*judge(places.store, places.project, with_fsck=fsck, view=view), *lost(places, view)]
        return found
    except Exception as error:  # noqa: BLE001 - whatever it is, the next command must not end so
        return [f"the next command: {type(error).__name__}: {error}"]


def fresh(home: Path, history: int) -> Place:
    """A new workspace, with a history if one is wanted."""
    shutil.rmtree(home, ignore_errors=True)
    places = Place(home)
    put(places.project, BASE, "base")
    put(home, "said")
    with opened(places) as ws:
        for number in range(max(1, history)):
            put(places.project, BASE, str(number))
            ws.save("keep" if number else BASE)
            if number % 500 == 499:
                print(f"  {number + 1} checkpoints made", file=sys.stderr, flush=True)
    return places


def kill_on(base: Path, given: Any, tally: Tally) -> None:
    """Kills until it is enough."""
    rng, seconds, rounds = random.Random(given.seed), [], 0
    places, saves = fresh(base / "home0", given.history), 0
    while not tally.over:
        rounds += 1
        killed = round_of(places, 1 + rng.randrange(given.workers), rng, given.life, given.build)
        thorough = not given.history or rounds % _JUDGED_WHOLE == 0
        wrong = wrong_after(places, rng, tally, seconds, thorough=thorough)
        tally.broke([f"round {rounds}: {line}" for line in wrong])
        tally.did(killed)
        if wrong or tally.over or (rounds % given.renew == 0 and not given.history):
            saves += len(heard(places).saved)
            shutil.rmtree(places.home)
            places = fresh(base / f"home{rounds}", given.history if wrong and not tally.over else 0)
    tally.counts.update(rounds=rounds, acknowledged_saves=saves)
    seconds.sort()
    for name, at in (("median", 0.5), ("p99", 0.99), ("most", 1)):
        tally.counts[f"next_command_{name}_ms"] = int(seconds[min(len(seconds) - 1, int(len(seconds) * at))] * 1000)


def main() -> int:
    """Runs the kills."""
    options = parser(__doc__, 300)
    options.add_argument("--workers", type=int, default=3)
    options.add_argument("--history", type=int, default=0)
    options.add_argument("--renew", type=int, default=60)
    options.add_argument("--life", type=float, default=_LIFE_S, help=f"seconds to live at most (default: {_LIFE_S})")
    options.add_argument("--build", choices=BUILDS, default="good")
    given = options.parse_args()
    tally = Tally("random kills", given.size, enough=given.enough)
    with workplace(given.base) as base:
        kill_on(base, given, tally)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
