"""
Cuts the power of real ext4 and xfs disks under `mulligan`, again and again, and looks at what they still have.

    python tests/proofs/power/power_cut.py [--size N] [--seed N] [--disk ext4|xfs] [--mode MODE] [--apart P] [--build NAME] …

Modes, for `--mode`:
    acknowledged  right after an operation was acknowledged, by the same process: nothing comes between
    inside        at a random instant inside an operation, by another process
    later         1 to 40 seconds after the acknowledgement, on many disks at a time, for it is mostly waiting
    nested        inside an operation, then inside the command that ends what was cut short, up to three deep

`--size` is the number of cuts. Operations are saves, restores with and without git, undo, redo, delete, gc, forget, doctor and
the first save into a new store. With `--apart`, the workspace and its store are on two disks in that part of the trials: then
nothing that one of them confirms helps the other. `--build` takes a known-bad build, which must be caught; `--subject` the first
checkpoint of a clean git repository alone (mulligan-adopting), restores of hundreds of files in a watched workspace
(mulligan-crowds), which do some of their work while the disk confirms another part, or shadow git, for comparison. Needs root, loop
mounts and mkfs of the kind.
Exit codes: 0 nothing was lost, 1 something was, 77 this machine cannot do it.
"""

from __future__ import annotations

import collections
import importlib
import itertools
import json
import os
import pkgutil
import random
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
sys.path.insert(0, str(Path(__file__).parent))

import disks
import workload
from bad_power_builds import BUILDS
from shadow_git import ShadowGit
from verdict import Verdict
from workload import Places

import mulligan
from tally import Tally, cannot, parser, workplace

MODES = ("acknowledged", "inside", "later", "nested")
_CORE = frozenset(
    {"engine", "opened", "workbench", "gitside", "settings", "state", "usergit", "restore", "timeline", "store", "diff"}
    | {"scan", "safefs", "model", "errors", "events"}
)
SUBJECTS = ("mulligan", "mulligan-adopting", "mulligan-crowds", "shadow-git", "shadow-git-fsync-all")
_DEEP = 3
_LONGEST_S = 60.0


class Mulligan(NamedTuple):
    """The package itself as a subject; or its first checkpoint of a git repository alone, or restores of many files alone."""

    build: str
    adopts: bool = False
    crowds: bool = False

    def prepare(self, places: Places) -> None:
        """A project with a history."""
        if self.adopts:
            workload.prepare_clean(places)
        else:
            workload.prepare(places, crowded=self.crowds)

    def load(self) -> None:
        """Imports all that the processes will need, once for all of them."""
        for found in pkgutil.walk_packages(mulligan.__path__, "mulligan."):
            if found.name.split(".")[1] in _CORE:
                importlib.import_module(found.name)

    def work(self, places: Places, rng: random.Random, given: dict[str, Any], alert: Callable[[str], None]) -> None:
        """Works until the cut, in this build."""
        BUILDS[self.build]()
        given["adopts"], given["crowds"] = self.adopts, self.crowds
        workload.work(places, rng, given, alert)

    def judge(self, places: Places, rng: random.Random) -> tuple[list[str], dict[str, int]]:
        """What is not as it must be, and some counts."""
        verdict = Verdict(places, rng)
        return verdict.run(), verdict.counts


class Bench:
    """The templates of disks, the subject, and how long its operations usually take."""

    def __init__(self, home: Path, kind: str, subject: Any) -> None:
        self.home, self.subject, self._kind = home, subject, kind
        disks.keep_mounts_to_ourselves()
        self.boots = disks.Boots(home)
        self.usual: dict[str, float] = collections.defaultdict(lambda: 0.02)
        # A history belongs to a place: every process sees its own disks here, in a mount namespace of its own.
        self.here = home / "here"
        self.here.mkdir()
        self._numbers = itertools.count()
        self._templates: dict[bool, Disk] = {}

    def _prepared(self, *, apart: bool) -> Disk:
        """A project with a history, safely on one disk, or on two: the workspace on the one and its store on the other."""
        folder = self._folder("template")
        disk = Disk(self, folder, apart=apart)
        for image in disk.images:
            disks.make(self._kind, image)
        with disk.mounted():
            for point in disk.points:
                (point / "project").mkdir()
            in_a_process(lambda: (disk.settle_down(), self.subject.prepare(disk.places)))
            for point in disk.points:
                disks.sync(point)
        for image in disk.images:
            disks.dig_holes(image)
        return disk

    def _folder(self, name: str) -> Path:
        folder = self.home / f"{name}{next(self._numbers)}"
        folder.mkdir()
        return folder

    def disk(self, *, apart: bool) -> Disk:
        """A new disk with the project on it, or two of them."""
        template = self._templates.get(apart) or self._templates.setdefault(apart, self._prepared(apart=apart))
        disk = Disk(self, self._folder("disk"), apart=apart)
        disk.places.log.write_bytes(template.places.log.read_bytes())
        for one, other in zip(template.images, disk.images, strict=True):
            disks.copy(one, other)
        return disk


class Disk:
    """One disk, or two that lose their power together, the process at work, and the cut."""

    def __init__(self, bench: Bench, folder: Path, *, apart: bool) -> None:
        self._bench, self._folder = bench, folder
        names = ("store", "project") if apart else ("both",)
        self.images = [folder / f"image-{name}" for name in names]
        self.points = [folder / f"point-{name}" for name in names]
        for point in self.points:
            point.mkdir()
        self.places = Places(bench.here, folder / "log")
        self._pid, self._alerts = 0, -1
        self.due = 0.0
        self.cut_at: list[float] = []

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """The disk with the machine on, for a while."""
        with ExitStack() as stack:
            for image, point in zip(self.images, self.points, strict=True):
                stack.enter_context(disks.mounted(image, point))
            yield

    def settle_down(self) -> None:
        """In the process that works or judges: its disks are where all the others were before."""
        disks.keep_mounts_to_ourselves()
        disks.let_go_below(self._bench.home, self.points)
        disks.bind(self.points[0], self._bench.here)
        disks.bind(self.points[-1] / "project", self._bench.here / "project")

    def start(self, seed: int, **given: Any) -> None:
        """Switches the machine on: mounts the disk and starts the process."""
        for image, point in zip(self.images, self.points, strict=True):
            disks.mount(image, point)
        self._alerts, alert = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            try:
                os.close(self._alerts)
                self.settle_down()
                given["cut"] = self._cut if given.pop("cuts") else None
                given["said"] = lambda: os.close(alert)
                self._bench.subject.work(self.places, random.Random(seed), given, lambda kind: _tell(alert, kind))
            finally:
                os._exit(0)
        os.close(alert)

    def alerted(self) -> str:
        """Waits for the last operation to begin, and returns which it is; empty when the process ended before."""
        ready, _, _ = select.select([self._alerts], [], [], _LONGEST_S)
        return os.read(self._alerts, 64).decode().strip() if ready else ""

    def worked(self) -> None:
        """Waits until everything was acknowledged, or the process ended."""
        select.select([self._alerts], [], [], _LONGEST_S)
        while os.read(self._alerts, 64):
            pass

    def ended(self) -> None:
        """Waits for the process, which cut the power itself or has nothing more to do."""
        os.waitpid(self._pid, 0)
        self._pid = 0

    def _cut(self) -> None:
        for point in self.points:
            disks.cut(point)

    def cut(self) -> None:
        """Cuts the power, and ends the process with it."""
        self.cut_at.append(time.monotonic())
        self._cut()
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            self.ended()

    def off(self) -> None:
        """Lets go of the disk after a cut; the machine will be started anew."""
        os.close(self._alerts)
        self._alerts = -1
        for image, point in zip(self.images, self.points, strict=True):
            disks.unmount(point, image)
        self._bench.boots.another()

    def judged(self, seed: int) -> tuple[list[str], dict[str, int]]:
        """Mounts the disk once more and lets a process of its own judge it."""
        answer = self._folder / "answer"

        def judge() -> None:
            self.settle_down()
            answer.write_text(json.dumps(self._bench.subject.judge(self.places, random.Random(seed))))

        with self.mounted():
            in_a_process(judge)
        for line in self.places.said():
            if "took" in line:
                self._bench.usual[line["done"]] += (line["took"] - self._bench.usual[line["done"]]) / 8
        found, counts = json.loads(answer.read_text()) if answer.exists() else (["corrupt: the judge died"], {})
        return [*found, *self._failures()], counts

    def _failures(self) -> list[str]:
        """What the process ended with, if that was before any cut, or in words that are not the engine's."""
        at = self.cut_at[0] if self.cut_at else float("inf")
        failed = [line for line in self.places.said() if "failed" in line]
        return [
            f"wrong: the process ended: {line['failed']}" for line in failed if line["at"] < at or not line["typed"]
        ]

    def throw_away(self) -> None:
        """Removes the disk."""
        shutil.rmtree(self._folder)


def _tell(handle: int, text: str) -> None:
    os.write(handle, text.encode() + b"\n")


def in_a_process(task: Callable[[], None]) -> None:
    """Does something in a process of its own, whose open files end with it."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            task()
            code = 0
        except BaseException as error:  # noqa: BLE001 - it ends here
            print(f"  {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    os.waitpid(pid, 0)


# -- the modes --------------------------------------------------------------------------------------


def right_after(disk: Disk, rng: random.Random) -> None:
    """The process itself cuts when its last operation is acknowledged."""
    disk.start(
        rng.getrandbits(64), count=rng.randrange(1, 7), synced=rng.random() < 0.5, cuts=True, stays=False, after=False
    )
    disk.ended()
    disk.cut_at.append(time.monotonic())
    disk.off()


def inside(disk: Disk, rng: random.Random, usual: dict[str, float], *, after: bool = False) -> None:
    """Somebody else cuts, at an instant in the last operation or shortly after it."""
    count = rng.randrange(1, 5)
    disk.start(rng.getrandbits(64), count=count, synced=rng.random() < 0.7, cuts=False, stays=True, after=after)
    kind = disk.alerted()
    if kind:
        time.sleep(usual[kind] * 1.2 * rng.random())
    disk.cut()
    disk.off()


def nested(disk: Disk, rng: random.Random, usual: dict[str, float]) -> None:
    """A cut, and then cuts in the commands that end what it left."""
    inside(disk, rng, usual)
    for _depth in range(rng.randrange(1, _DEEP)):
        inside(disk, rng, usual, after=True)


MODE: dict[str, Callable[[Disk, random.Random, dict[str, float]], None]] = {
    "acknowledged": lambda disk, rng, _: right_after(disk, rng),
    "inside": inside,
    "nested": nested,
}


def one_after_another(bench: Bench, given: Any, rng: random.Random, tally: Tally) -> None:
    """Cut, judge, next."""
    while not tally.over:
        disk = bench.disk(apart=rng.random() < given.apart)
        MODE[given.mode](disk, rng, bench.usual)
        conclude(disk, rng, tally)


def many_at_a_time(bench: Bench, given: Any, rng: random.Random, tally: Tally) -> None:
    """Each disk is cut some seconds after its process was done; meanwhile others are at work."""
    waiting: list[Disk] = []
    started = 0
    try:
        while not tally.over:
            while len(waiting) < given.abreast and started < tally.size:
                waiting.append(begin_waiting(bench, given, rng))
                started += 1
            waiting.sort(key=lambda each: each.due)
            disk = waiting.pop(0)
            time.sleep(max(0.0, disk.due - time.monotonic()))
            disk.cut()
            disk.off()
            conclude(disk, rng, tally)
    finally:
        for disk in waiting:
            disk.cut()
            disk.off()


def begin_waiting(bench: Bench, given: Any, rng: random.Random) -> Disk:
    """A disk with a process at work on it, to be cut some seconds after that has done its work."""
    disk = bench.disk(apart=rng.random() < given.apart)
    stays = rng.random() < 0.5
    disk.start(rng.getrandbits(64), count=rng.randrange(1, 6), synced=False, cuts=False, stays=stays, after=False)
    disk.worked()
    disk.due = time.monotonic() + rng.uniform(1.0, given.longest)
    return disk


def conclude(disk: Disk, rng: random.Random, tally: Tally) -> None:
    """Judges a disk that was cut, and throws it away."""
    found, counts = disk.judged(rng.getrandbits(64))
    disk.throw_away()
    kinds = collections.Counter(line.split(":")[0] for line in found)
    tally.broke([f"cut {tally.tried + 1}: {line}" for line in found])
    tally.did(max(1, len(disk.cut_at)), disks=1, bad_disks=int(bool(found)), **kinds, **counts)


def main() -> int:
    """Runs the cuts."""
    options = parser(__doc__, 100)
    options.add_argument("--disk", choices=disks.KINDS, default="ext4")
    options.add_argument("--mode", choices=MODES, default="acknowledged")
    options.add_argument("--build", choices=BUILDS, default="good")
    options.add_argument("--subject", choices=SUBJECTS, default="mulligan")
    options.add_argument("--apart", type=float, default=0.3, help="how often workspace and store are on two disks")
    options.add_argument("--longest", type=float, default=40.0, help="seconds until the cut, at the most (later)")
    options.add_argument("--abreast", type=int, default=64, help="how many disks wait at a time (later)")
    given = options.parse_args()
    if why := disks.why_not(given.disk):
        return cannot(f"{why}: THE POWER OF {given.disk} DISKS IS NOT CUT")
    subject: Any = ShadowGit(given.subject.endswith("all"))
    if given.subject.startswith("mulligan"):
        subject = Mulligan(given.build, given.subject == "mulligan-adopting", given.subject == "mulligan-crowds")
    who = given.subject if given.build == "good" else given.build
    tally = Tally(f"power cuts, {who}, {given.disk}, {given.mode}", given.size, enough=given.enough)
    subject.load()
    with workplace(given.base) as base:
        bench, rng = Bench(base, given.disk, subject), random.Random(given.seed)
        if given.subject == "mulligan-adopting":
            bench.usual["first"] = 0.1  # nobody learns it from cuts that come too early
        if given.subject == "mulligan-crowds":
            bench.usual.update(dict.fromkeys(("restore", "undo", "redo"), 0.2))
        if given.mode == "later":
            many_at_a_time(bench, given, rng, tally)
        else:
            one_after_another(bench, given, rng, tally)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
