"""
Files are written in place, with their times put back, right before a restore moves them away: no such byte may be lost.

`rsync --inplace -t` and `touch -r` do that. Inode, size and modification time are the same afterwards, and the restore's own
rename changes the one time that cannot be put back, so only the bytes tell.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import mulligan
from faults import Counting
from loose_builds import replaced
from mulligan.restore.apply import Executor
from mulligan.safefs import syscalls
from tally import Tally, parser, workplace

# Both ways in which a restore takes a file from its place: replaced, and removed.
_MOVES = ("exchange", "rename_new")


class Intruder(Counting):
    """Writes to a file in place, and puts its times back, right before the restore moves a file for the n-th time."""

    def __init__(self, number: int, place: Path, content: bytes) -> None:
        super().__init__()
        self.number, self.place, self.content, self.wrote = number, place, content, False

    def meet(self, name: str) -> None:
        """Counts, and writes when it is time."""
        super().meet(name)
        if self.wrote or name not in _MOVES or sum(self.seen.count(each) for each in _MOVES) != self.number:
            return
        before = self.place.stat()
        with self.place.open("r+b") as file:
            file.write(self.content)
        os.utime(self.place, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.wrote = True


def played(folder: Path, rng: random.Random) -> list[str]:
    """One restore with one intruder; returns what was lost."""
    project = folder / "project"
    project.mkdir()
    kept = [f"kept{number}" for number in range(rng.randint(1, 4))]
    for name in kept:
        (project / name).write_bytes(b"saved " + rng.randbytes(8))
    with mulligan.open(project, store=folder / "store") as ws:
        ws.save("base")
        names = [*kept, *(f"new{number}" for number in range(rng.randint(0, 3)))]
        for name in names:
            (project / name).write_bytes(b"edit" + rng.randbytes(rng.choice((4, 500, 70_000, 1 << 21))))
        chosen = rng.choice(names)
        # The restore removes the new files first, then it replaces the others.
        order = [*sorted(set(names) - set(kept)), *sorted(kept)]
        content = b"mine" + rng.randbytes((project / chosen).stat().st_size - 4)
        intruder = Intruder(order.index(chosen) + 1, project / chosen, content)
        with syscalls.using(intruder):
            try:
                report = ws.restore("base")
            except mulligan.PlanStale:
                report = None
        if not intruder.wrote:
            return ["the intruder never came"]
        there = {path.read_bytes() for path in project.iterdir()}
        saved = {ws.cat(each, chosen) for each in ws.log() if _has(ws, each, chosen)}
        if content not in there | saved:
            return [f"{chosen} ({len(content)} bytes) is lost; the report says {report}"]
    return []


def _has(ws: mulligan.Workspace, checkpoint: mulligan.Checkpoint, path: str) -> bool:
    try:
        ws.cat(checkpoint, path)
    except mulligan.MulliganError:
        return False
    return True


@contextmanager
def by_inode_and_size() -> Iterator[None]:
    """What a restore displaced is taken for what the plan expected when its inode and its size are."""

    def judged(self: Executor, action, stage, temporary) -> bool:  # type: ignore[no-untyped-def]
        seen, found = self._memory_of(action.path)[0], stage.stat(temporary)
        return seen is not None and (found.st_ino, found.st_size) == (seen.ino, seen.size)

    with replaced(Executor, _is_displaced=judged):
        yield


BUILDS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "good": nullcontext,
    "judges-by-inode-and-size": by_inode_and_size,
}


def main() -> int:
    """Plays as many restores as it is told to."""
    options = parser(__doc__, 40)
    options.add_argument("--build", choices=BUILDS, default="good")
    given = options.parse_args()
    tally = Tally("writes in place before an exchange", given.size, enough=given.enough)
    with workplace(given.base) as base, BUILDS[given.build]():
        while not tally.over:
            folder = base / str(tally.tried)
            folder.mkdir()
            found = played(folder, random.Random(f"displaced {given.seed} {tally.tried}"))
            tally.broke([f"seed {given.seed}, round {tally.tried}: {line}" for line in found])
            tally.did(1)
            shutil.rmtree(folder, ignore_errors=True)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
