"""
Lets real disks run full, and processes run out of what they may have, in every operation at random levels.

    python tests/proofs/power/full_disk.py [--size N] [--seed N] [--wall NAME] [--operation NAME] [--build NAME]

Walls, for `--wall`: bytes of an ext4 disk of 16 MB, bytes and inodes of a tmpfs, the largest file size, open files and
memory of the process. An operation either succeeds or ends with a typed error; then, with the wall still there, the
workspace is byte for byte what it was, every checkpoint can be read and commands that only read work. With the wall
gone the next command works, nothing is left over, and what was done can be taken back.
Needs root and mounts. Exit codes: 0 nothing broke, 1 something did, 77 this machine cannot do it.
"""

from __future__ import annotations

import collections
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
sys.path.insert(0, str(Path(__file__).parent.parent / "crash"))
sys.path.insert(0, str(Path(__file__).parent))

import disks
from aftermath import Aftermath, Ground
from operations import OPERATIONS
from walls import WALLS

import mulligan
from checker import judge, neither_old_nor_new, view_of
from tally import Tally, cannot, parser, workplace

#: What else an operation may say when that is what it ran out of.
KINDS: dict[str, tuple[type[BaseException], ...]] = {
    "bytes-ext4": (mulligan.NoRoom,),
    "bytes-tmpfs": (mulligan.NoRoom,),
    "inodes": (mulligan.NoRoom, mulligan.StoreError),
    # SQLite does not say what kind of failure it was.
    "file-size": (mulligan.NoRoom, mulligan.DurabilityLost),
    "descriptors": (mulligan.UserError, mulligan.StoreError),
    "memory": (mulligan.UserError, mulligan.StoreError),
}
#: The stages of these are not whole before they begin: two stores, and what a kill left, which the kills look after.
LEFT_OUT = frozenset({"adopt", "recovery-early", "recovery-late"})
OPERATED = {name: each for name, each in OPERATIONS.items() if name not in LEFT_OUT}
_GROWS, _SHRINKS = 1.5, 0.97


def forgets_the_wall() -> None:
    """A known-bad build: what does not fit is taken for written."""
    from mulligan.safefs import syscalls

    real = syscalls.calls.write

    def write(fd: int, data: bytes) -> int:
        try:
            return real(fd, data)
        except OSError:
            return len(data)

    syscalls.calls.write = write  # type: ignore[method-assign]


def leaves_half() -> None:
    """A known-bad build: what was staged before the disk was full stays there."""
    from mulligan.restore import stage

    assert callable(stage.free_of), "the room is asked for by another name: this fault would never be reached"
    stage.free_of = lambda _: None
    stage.Stager.clear = lambda _self, **_: True  # type: ignore[method-assign]


BUILDS: dict[str, Callable[[], None]] = {
    "good": lambda: None,
    "forgets-the-wall": forgets_the_wall,
    "leaves-half": leaves_half,
}


class Site:
    """One operation on one small disk, to be run into one wall again and again."""

    def __init__(self, base: Path, wall: str, name: str, build: str) -> None:
        self.wall, self.span = WALLS[wall]
        self.kinds, self.build = KINDS[wall], build
        self.base, self._image = base / f"{wall}-{name}", base / f"{wall}-{name}.image"
        self.point = self.base / "stage"
        self.point.mkdir(parents=True)
        self.wall.build(self._image, self.point)
        self.ground = Ground(self.base, name, OPERATED[name])
        self.answer = self.base / "answer"

    def close(self) -> None:
        """Gives the disk back."""
        disks.unmount(self.point, self._image if self._image.exists() else None)
        self._image.unlink(missing_ok=True)

    def trial(self, rng: random.Random) -> tuple[str, list[str]]:
        """Runs into the wall once; returns how it ended, and everything that is wrong."""
        self.ground.reset().close()
        self.answer.unlink(missing_ok=True)
        if self.wall.alone:
            found = self._in_a_process(rng)
        else:
            with self.wall.standing(self.point, rng, self.span):
                self._act()
                ended = self._ended()
                found = list(self._while_it_stands(ended))
        ended = self._ended()
        self.span *= _GROWS if ended and rng.random() < 0.3 else 1 if ended else _SHRINKS
        found += Aftermath(self.ground, rng, died=bool(ended)).wrong()
        return ended.partition(":")[0] or "succeeded", [f"{line} [{ended}]" for line in found]

    def _in_a_process(self, rng: random.Random) -> list[str]:
        """The limits of a process end with it."""
        seed, told = rng.getrandbits(64), self.base / "told"
        told.unlink(missing_ok=True)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                with self.wall.standing(self.point, random.Random(seed), self.span):
                    self._act()
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        if status or not self.answer.exists():
            return [f"the process died: {status}"]
        return list(self._while_it_stands(self._ended()))

    def _act(self) -> None:
        """The operation, and how it ended, in a file outside of the disk."""
        # Opened before the wall is met: to say how it ended nothing more is needed.
        handle = os.open(self.answer, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        BUILDS[self.build]()
        try:
            self.ground.act()
            os.write(handle, b'""')
        except mulligan.MulliganError as error:
            right = isinstance(error, self.kinds) and not isinstance(error, mulligan.StoreDamaged)
            os.write(handle, json.dumps(f"{type(error).__name__}: {'' if right else 'WRONG KIND '}{error}").encode())
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is not one of ours
            os.write(handle, json.dumps(f"UNTYPED {type(error).__name__}: {error}").encode())
        finally:
            os.close(handle)

    def _ended(self) -> str:
        return str(json.loads(self.answer.read_text())) if self.answer.exists() else "died: "

    def _while_it_stands(self, ended: str) -> Iterator[str]:
        """With the wall still there: the workspace is what it was, and everything saved can be read."""
        ground = self.ground
        if "WRONG KIND" in ended or ended.startswith("UNTYPED"):
            yield "not the right error"
        now = ground.state()
        # A process that may have nothing more cannot always end what it began; the next command does.
        if self.wall.alone and not neither_old_nor_new(now, ground.old, ground.new):
            pass
        elif now != (ground.old if ended else ground.new):
            yield f"the workspace is not {'as it was' if ended else 'new'}: {_differing(now, ground.old)}"
        if ground.operation.heals:
            return
        view = view_of(ground.store)
        held = view.checkpoints()
        for name, files in ground.known.items():
            if held.get(name) not in (files, ground.held_new.get(name)):
                yield f"checkpoint {name} cannot be read as it was"
        yield from judge(ground.store, ground.project, with_fsck=False, at_rest=False, view=view)
        if not ground.known:
            return  # the first of all: there is nothing to be read yet
        with ground.place.open() as ws:
            ws.status()
            if len(ws.log()) != len(held):
                yield "the log is not complete"


def _differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))


def run_into(base: Path, given: Any, tally: Tally) -> None:
    """Every wall and every operation, in turn, at as many levels as are wanted."""
    rng = random.Random(given.seed)
    disks.keep_mounts_to_ourselves()
    pairs = [(wall, name) for wall in given.wall or WALLS for name in given.operation or OPERATED]
    for number, (wall, name) in enumerate(pairs):
        levels = given.size // len(pairs) + (number < given.size % len(pairs))
        site = Site(base, wall, name, given.build) if levels else None
        for _level in range(levels):
            if tally.over or site is None:
                break
            try:
                ended, found = site.trial(rng)
            except Exception as error:  # noqa: BLE001 - a stage that cannot be judged is a finding
                ended, found = "judge failed", [f"{type(error).__name__}: {error}"]
            tally.broke([f"{wall}, {name}: {line}" for line in found])
            tally.did(1, **collections.Counter([wall, f"{wall} {ended}"]))
        if site is not None:
            site.close()


def main() -> int:
    """Runs the levels."""
    options = parser(__doc__, 200)
    options.add_argument("--wall", action="append", choices=WALLS)
    options.add_argument("--operation", action="append", choices=OPERATED)
    options.add_argument("--build", choices=BUILDS, default="good")
    given = options.parse_args()
    if why := disks.why_not("ext4"):
        return cannot(f"{why}: NO DISK RUNS FULL")
    tally = Tally("full disks", given.size, enough=given.enough)
    with workplace(given.base) as base:
        run_into(base, given, tally)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
