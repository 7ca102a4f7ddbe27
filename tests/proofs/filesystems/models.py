"""
The models of the engine on btrfs, xfs, tmpfs, overlayfs and a file system with whole-second times: what holds on ext4 must hold there.

    python tests/proofs/filesystems/models.py [--size N] [--seed N] [--disk KIND ...] [--scene NAME ...] [--build NAME]

A round is one scene on one file system. `stateful` and `watcher` are the models that run on ext4 too. `late-names` makes
a file in the root while a save runs: the next save must hold it. `others-packs` reads, in a process that has the store
open, what another process saved since. `edited-twice` and
`written-while-read` change a file within the second in which it was made: where stamps are whole seconds they do not tell.
`--build` puts a build in place that must be found out.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
sys.path.insert(0, str(Path(__file__).parent.parent / "watch"))
sys.path.insert(0, str(Path(__file__).parents[2] / "property"))

import differential
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from mounts import KINDS, disks, mounted, why_not
from test_stateful import WatchedTimeline

import mulligan
from loose_builds import replaced
from mulligan.safefs import clock
from mulligan.safefs.directory import Directory
from mulligan.scan import cache, read
from tally import Tally, cannot, parser, workplace
from tools import git, plain_environment

Scene = Callable[[Path, random.Random, str], list[str]]
_MANY = 3000
_SETTLES_S = 0.1
_SAVE = "import mulligan, sys\nwith mulligan.open(sys.argv[1], store=sys.argv[2]) as ws: print(ws.save('other').id)"


def late_names(folder: Path, rng: random.Random, _kind: str) -> list[str]:
    """A file is made in the root while a save reads the others; the next save must hold it."""
    project, store = folder / "project", folder / "store"
    (project / "many").mkdir(parents=True)
    for number in range(_MANY):
        (project / "many" / f"file{number}").write_text(f"{number}\n" * 40)
    with mulligan.open(project, store=store) as ws:
        writer = os.fork()
        if not writer:
            time.sleep(rng.uniform(0.02, 0.3))
            (project / "late").write_text("late\n")
            os._exit(0)
        ws.save("while a file is made")
        os.waitpid(writer, 0)
        cp = ws.save("afterwards")
        listed = git(f"--git-dir={store}", "-c", "safe.directory=*", "ls-tree", "--name-only", f"{cp.commit}:files")
    lost = b"late" not in listed.split()
    return [f"a file is missing from a checkpoint that says complete: {cp.complete}"] if lost else []


def others_packs(folder: Path, rng: random.Random, _kind: str) -> list[str]:
    """What other processes save can be read by one that has had the store open all the time."""
    project, store, wrong = folder / "project", folder / "store", []
    project.mkdir()

    def saved(text: str) -> str:
        (project / "file").write_text(text)
        return subprocess.run(
            [sys.executable, "-c", _SAVE, project, store],
            env=plain_environment(), capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip

    saved("first")
    with mulligan.open(project, store=store) as ws:
        for _ in range(3):
            text = rng.randbytes(20).hex()
            made = saved(text)
            time.sleep(_SETTLES_S)  # a directory that changed just now is listed more than once
            try:
                if ws.cat(made, "file") != text.encode():
                    wrong.append("another process's checkpoint holds something else")
            except mulligan.StoreDamaged as error:
                wrong.append(f"another process's checkpoint cannot be read: {error}")
    return wrong


def edited_twice(folder: Path, rng: random.Random, _kind: str) -> list[str]:
    """A file is saved, edited within the second in which it was made, and saved again: the edit is in the checkpoint."""
    project, store = folder / "project", folder / "store"
    project.mkdir()
    first, second = (rng.randbytes(20).hex() for _ in range(2))
    with mulligan.open(project, store=store) as ws:
        ws.save("empty")
        time.sleep(1.02 - time.time() % 1)  # what follows is over before the next second begins
        (project / "file").write_text(first)
        time.sleep(rng.uniform(0.05, 0.2))
        ws.save("once")
        with (project / "file").open("r+") as file:
            file.write(second)
        cp = ws.save("twice")
        if ws.cat(cp.id, "file") != second.encode():
            return ["an edit in the same second is not in the next checkpoint"]
    return []


def written_while_read(folder: Path, rng: random.Random, _kind: str) -> list[str]:
    """A long file that was just written is written again, in one call, while a save reads it: one of the two is saved."""
    project, store = folder / "project", folder / "store"
    project.mkdir()
    # As long as the engine reads at once: what a single call reads while another one writes can be a part of both.
    before, after = (rng.randbytes(1 << 16) * 120 for _ in range(2))
    with mulligan.open(project, store=store) as ws:
        ws.save("empty")
        time.sleep(1.02 - time.time() % 1)
        (project / "file").write_bytes(before)
        writer = os.fork()
        if not writer:
            fd = os.open(project / "file", os.O_WRONLY)
            ends = time.monotonic() + 0.3
            while time.monotonic() < ends:
                for text in (after, before):
                    os.pwrite(fd, text, 0)
            os._exit(0)
        cp = ws.save("while it is written")
        os.waitpid(writer, 0)
        listed = [row.path for row in cp.not_captured]
        torn = "file" not in listed and ws.cat(cp.id, "file") not in (before, after)
    return ["a file is torn in a checkpoint"] if torn else []


def watcher(folder: Path, rng: random.Random, kind: str) -> list[str]:
    """A watched look sees what a walk sees; an overlay does not announce its changes, and is walked."""
    try:
        differential.run(folder, rng.randrange(1 << 30), rounds=15, watched=kind != "overlay")
    except differential.Missed as difference:
        return [str(difference)]
    return []


def stateful(folder: Path, rng: random.Random, _kind: str) -> list[str]:
    """One random history of the model of the whole engine."""
    tempfile.tempdir = os.fspath(folder)
    chosen = settings(
        max_examples=1, stateful_step_count=25, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    WatchedTimeline._hypothesis_internal_use_seed = rng.randrange(1 << 30)
    try:
        run_state_machine_as_test(WatchedTimeline, settings=chosen)
    except AssertionError as error:
        return [f"the model disagrees: {error}"]
    finally:
        tempfile.tempdir = None
    return []


SCENES: dict[str, Scene] = {
    "late-names": late_names,
    "others-packs": others_packs,
    "edited-twice": edited_twice,
    "written-while-read": written_while_read,
    "watcher": watcher,
    "stateful": stateful,
}


@contextmanager
def reads_within_a_second() -> Iterator[None]:
    """Stamps are compared with the clock itself, and not with the beginning of the second that they are of."""

    def never(clock: int, _stamp: int, _fd: int) -> int:
        return clock

    with replaced(read, tick_began=never), replaced(clock, tick_began=lambda *_: 1 << 62):
        yield


@contextmanager
def trusts_whole_seconds() -> Iterator[None]:
    """A file that changed 40 ms ago is taken for one whose next change will show, whatever its stamps are like."""
    with reads_within_a_second(), replaced(cache, _YOUNG_COARSE=cache._YOUNG):
        yield


BUILDS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "good": nullcontext,
    # As `os.listdir` does it: a directory is rewound after it was read, and not before.
    "never-rewinds": lambda: replaced(
        Directory, names=lambda self: [os.fsencode(name) for name in os.listdir(self.fd)]
    ),
    "reads-within-a-second": reads_within_a_second,
    "trusts-whole-seconds": trusts_whole_seconds,
}


def apart(scene: Scene, folder: Path, rng: random.Random, kind: str) -> list[str]:
    """Plays a scene in a process of its own, so that nothing on the disk stays open; returns what it found."""
    with tempfile.TemporaryFile() as told:
        process = os.fork()
        if not process:
            try:
                found = scene(folder, rng, kind)
            except BaseException:  # noqa: BLE001 - whatever it was, it is what the round found
                found = [traceback.format_exc()]
            os.write(told.fileno(), "\0".join(found).encode("utf-8", "replace"))
            os._exit(0)
        ended = os.waitpid(process, 0)[1]
        told.seek(0)
        return [f"it ended with {ended}"] if ended else [line for line in told.read().decode().split("\0") if line]


def rounds(disk: Path, kind: str, given: argparse.Namespace, tally: Tally, most: int) -> None:
    """Plays scenes on one file system, one after the other."""
    scenes, done = given.scene or list(SCENES), 0
    while done < most and not tally.over:
        name, seed = scenes[done % len(scenes)], given.seed + done
        folder = disk / str(done)
        folder.mkdir()
        found = apart(SCENES[name], folder, random.Random(f"{kind} {name} {seed}"), kind)
        tally.broke([f"{kind}, {name}, seed {seed}: {line}" for line in found])
        tally.did(1, **{name.replace("-", "_"): 1})
        shutil.rmtree(folder, ignore_errors=True)
        done += 1


def main() -> int:
    """Plays the scenes on every file system that can be had."""
    options = parser(__doc__, 40)
    options.add_argument("--disk", action="append", choices=KINDS)
    options.add_argument("--scene", action="append", choices=SCENES)
    options.add_argument("--build", choices=BUILDS, default="good")
    given = options.parse_args()
    wanted = given.disk or KINDS
    missing = {kind: why_not(kind) for kind in wanted if why_not(kind)}
    if len(missing) == len(wanted):
        return cannot("; ".join(f"{kind}: {reason}" for kind, reason in missing.items()))
    for kind, reason in missing.items():
        print(f"!!! NOT ON {kind}: {reason}", flush=True)
    disks.keep_mounts_to_ourselves()
    there = [kind for kind in wanted if kind not in missing]
    tally = Tally("models on other file systems", given.size, enough=given.enough)
    with workplace(given.base), BUILDS[given.build]():
        for number, kind in enumerate(there):
            share = given.size // len(there) + (number < given.size % len(there))
            with mounted(kind) as disk:
                rounds(disk, kind, given, tally, share)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
