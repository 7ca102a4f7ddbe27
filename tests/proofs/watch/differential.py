"""
The watcher against a scan that knows nothing: after every few random edits both look, and must see the same.

    python tests/proofs/watch/differential.py [--size N] [--seed N] [--rounds N] [--build NAME]

The workspace is watched all the time; in between it is saved, compared, restored and undone. `--build` puts one of the
watchers in place that must be found out (`bad_watchers`).
"""

from __future__ import annotations

import random
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
sys.path.insert(0, str(Path(__file__).parent))

import mulligan
from bad_watchers import BUILDS, using
from edits import LIMIT, Tree
from mulligan.errors import MulliganError
from mulligan.model.checkpoint import IGNORED, NEWLY_IGNORED
from mulligan.model.policy import CapturePolicy
from mulligan.scan.cache import Cache
from mulligan.scan.scanner import Scanner
from mulligan.scan.trees import Scan
from scans import misjudged, settings_for
from tally import Tally, parser, workplace


class Missed(AssertionError):
    """The watcher saw something else than the scan."""


def seen(scan: Scan) -> dict[str, object]:
    """What must be the same."""
    missed = sorted((path, IGNORED if m.reason == NEWLY_IGNORED else m.reason) for path, m in scan.missed.items())
    return {"missed": missed, "files": scan.files, "tree": scan.tree, "modes": scan.modes}


class Differential:
    """One watched workspace, edited at random."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.name = f"seed {seed}"
        self.tree = Tree(folder / "project", self.rng)
        self.tree.ways += self.tree.more_ways
        self.settings = settings_for(self.tree.root, CapturePolicy(max_file_size=LIMIT, secrets="skip"))
        self.ws = mulligan.Workspace(self.settings)
        self.other = mulligan.Workspace(self.settings)
        self.ws.save("first")
        self.watching = self.ws.watch()
        self.compared = 0
        self.done: list[str] = []

    def close(self) -> None:
        """Lets go."""
        self.ws.close()
        self.other.close()

    def round(self) -> None:
        """Some edits, something else that happens to a workspace, and the comparison."""
        for _ in range(self.rng.randrange(1, 5)):
            self.done.append(self.tree.step())
        happens = self.rng.random()
        self.done.append(f"{happens:.2f} |")
        try:
            if happens < 0.35:
                self.ws.save()
            elif happens < 0.45:
                self.ws.undo()
            elif happens < 0.55:
                self.ws.restore(self.rng.choice([*self.ws.log(), "@"]))
            elif happens < 0.6:
                self.other.save("by another process")
            elif happens < 0.63:
                self.other.prune()
            elif happens < 0.66:
                self.ws.delete(self.rng.choice([*self.ws.log(), "@"]))
        except MulliganError:
            pass  # nothing to undo, or a restore that found something in its way: the comparison follows all the same
        self.compare()

    def compare(self) -> None:
        """Both look; raises Missed where they differ."""
        self.compared += 1
        mine = self.ws.bench.look().scan
        cache = Cache()
        cache.note = b'{"defaults": %s}' % str(list(mine.defaults)).encode()
        fresh = Scanner(self.settings, time.time_ns).scan(cache)[0]
        wrong = {key: (value, seen(fresh)[key]) for key, value in seen(mine).items() if value != seen(fresh)[key]}
        captured = {(path, mode, oid.hex()) for path, mode, oid in mine.captured()}
        truth = {(path, mode, oid.hex()) for path, mode, oid in fresh.captured()}
        misjudged_changes = misjudged(mine, self.ws.bench.store.objects.read_tree)
        if wrong or captured != truth or misjudged_changes:
            steps = " ".join(self.done[-30:])
            raise Missed(
                f"{self.name}, comparison {self.compared}: {wrong}\n only the watcher: {sorted(captured - truth)}\n"
                f" only the scan: {sorted(truth - captured)}\n changes: {misjudged_changes}\n steps: {steps}"
            )


def run(folder: Path, seed: int, rounds: int, build: str = "", *, watched: bool = True) -> Differential:
    """Runs one seed; raises Missed when the watcher missed something. `watched`: whether it can watch there at all."""
    with using(build):
        differential = Differential(folder, seed)
        try:
            for _ in range(rounds):
                differential.round()
            assert differential.watching.active == watched or build, differential.watching.reason
        finally:
            differential.close()
    return differential


def main() -> int:
    """Runs seeds until enough was compared."""
    options = parser(__doc__, 2000)
    options.add_argument("--rounds", type=int, default=80, help="comparisons of each seed")
    options.add_argument("--build", default="", choices=["", *BUILDS], help="a watcher that must be found out")
    args = options.parse_args()
    tally, seed = Tally("watcher", args.size, enough=args.enough), args.seed
    with workplace(args.base) as place:
        while not tally.over:
            folder = place / str(seed)
            folder.mkdir()
            try:
                tally.did(run(folder, seed, min(args.rounds, args.size), args.build).compared, seeds=1)
            except Missed as difference:
                tally.did()
                tally.broke(str(difference))
            seed += 1
            shutil.rmtree(folder, ignore_errors=True)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
