"""
Kills a fork at every system call that changes something: the next command leaves a whole fork, or nothing of it.

    python tests/proofs/forks/fork_kills.py [--size N] [--seed N] [--build in-place|row-late]

`--size` is how many calls are tried, spread over all of them; 0 is every one. Half of the rounds remove a fork instead.
After each kill: the workspace is untouched; one more command; the directory is there whole and known, or not there; no
temporary and no store is left; both stores pass the judge; and the same fork can be made afterwards.
`--build` tries a known-bad build: files written straight into the place, or no row before the work.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import mulligan
from checker import judge
from gate import NO_GATE, gate_works, passed
from mulligan.forks import fork as forking
from mulligan.forks.record import Fork
from mulligan.forks.verbs import remove_fork
from tally import Tally, cannot, parser, workplace
from tree import put, snapshot

BUILDS = ("", "in-place", "row-late")


@contextmanager
def built(name: str) -> Iterator[None]:
    """Puts a fault into the package."""
    before = Fork.temporary, forking.remember
    if name == "in-place":
        Fork.temporary = property(lambda self: self.directory)
    elif name == "row-late":
        forking.remember = lambda store, fork: before[1](store, fork) if fork.phase != "making" else None
    try:
        yield
    finally:
        Fork.temporary, forking.remember = before


class Scene:
    """A workspace with a checkpoint, made anew for each kill."""

    def __init__(self, place: Path, build: str = "") -> None:
        self.home, self._build = place / "scene", build

    def reset(self, *, with_fork: bool) -> None:
        """Sets the stage."""
        shutil.rmtree(self.home, ignore_errors=True)
        project = self.home / "project"
        put(project, "src/a.py", "one\n")
        put(project, "src/deep/b", bytes(range(256)) * 300)
        put(project, ".env", "TOKEN=hush\n")
        (project / "link").symlink_to("src/a.py")
        (project / "closed").mkdir(mode=0o555)
        with self.open() as ws:
            ws.save("start")
            if with_fork:
                ws.fork("start", self.fork).close()

    def open(self) -> mulligan.Workspace:
        """Opens the workspace, as a new process does."""
        return mulligan.open(self.home / "project", store=self.home / "stores" / "own")

    @property
    def fork(self) -> Path:
        """Where the fork goes."""
        return self.home / "there" / "try"

    def make(self) -> None:
        """The operation: a fork."""
        with built(self._build), self.open() as ws:
            ws.fork("start", self.fork).close()

    def remove(self) -> None:
        """The other one."""
        with built(self._build), self.open() as ws:
            remove_fork(ws, self.fork)

    def findings(self, before: object, state: object) -> list[str]:
        """Runs the next command and returns what is wrong after it."""
        wrong = [] if snapshot(self.home / "project") == before else ["the workspace changed"]
        with self.open() as ws:
            ws.save("after", if_changed=True)
            known = [each.directory for each in ws.forks()]
            there = self.fork.exists()
            if there != (str(self.fork) in known):
                wrong.append(f"the directory is {'' if there else 'not '}there, and the timeline knows {known}")
            elif there and plain(self.fork) != state:
                wrong.append("the fork is not whole")
            beside = os.listdir(self.fork.parent) if self.fork.parent.is_dir() else []
            wrong += [f"left behind: {name}" for name in beside if name != "try"]
            stores = {str(self.home / "stores" / name) for name in os.listdir(self.home / "stores")}
            left = stores - {ws.store_path, *(each.store for each in ws.forks())}
            wrong += [f"a store was left behind: {path}" for path in sorted(left)]
            if not there:
                with suppress(mulligan.MulliganError):
                    ws.fork("start", self.fork).close()
                wrong += [] if self.fork.exists() else ["the fork cannot be made any more"]
            stores = [ws.store_path, *(each.store for each in ws.forks())]
        return wrong + [line for store in stores for line in judge(store, with_fsck=False)]


def plain(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """A directory without times and inodes."""
    return {path: (entry.kind, entry.mode, entry.content) for path, entry in snapshot(root).items()}


def main() -> int:
    """Sweeps."""
    options = parser(__doc__, 0)
    options.add_argument("--build", choices=BUILDS, default="")
    given = options.parse_args()
    if not gate_works():
        return cannot(NO_GATE)
    rng = random.Random(given.seed)
    with workplace(given.base) as place:
        os.environ["XDG_STATE_HOME"] = str(place / "state")
        scene = Scene(place, given.build)
        points = []
        for with_fork in (False, True):
            scene.reset(with_fork=with_fork)
            seen = passed(scene.remove if with_fork else scene.make, die_at=0)
            points += [(with_fork, number) for number in range(1, len(seen.calls) + 1)]
        chosen = rng.sample(points, min(given.size, len(points))) if given.size else points
        tally = Tally("fork-kills", len(chosen), enough=given.enough)
        for with_fork, number in chosen:
            if tally.over:
                break
            scene.reset(with_fork=with_fork)
            before, state = snapshot(scene.home / "project"), plain(scene.home / "project")
            passed(scene.remove if with_fork else scene.make, die_at=number)
            tally.broke(
                [
                    f"{'remove' if with_fork else 'fork'}, call {number}: {line}"
                    for line in scene.findings(before, state)
                ]
            )
            tally.did(kills=1)
        return tally.end()


if __name__ == "__main__":
    sys.exit(main())
