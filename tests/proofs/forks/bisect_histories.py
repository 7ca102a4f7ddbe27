"""
Plants a breaking step in random histories and has `bisect` find it.

    python tests/proofs/forks/bisect_histories.py [--size N] [--seed N] [--build linear]

Histories have saves that change nothing, states that come back, undos and restores to older checkpoints. The step must be the
planted one, with at most ⌈log₂ n⌉ runs besides the two ends, n different states, and the workspace must be untouched.
`--build linear` tries states one after another, which must be caught.
"""

from __future__ import annotations

import math
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import mulligan
from mulligan.forks import bisect
from tally import Tally, parser, workplace
from tree import put, snapshot


@contextmanager
def built(name: str) -> Iterator[None]:
    """Puts a fault into the package."""
    before = bisect.next_state
    if name == "linear":
        bisect.next_state = lambda states, verdicts: next(
            (at for at in range(1, len(states) - 1) if before(states, verdicts) and states[at] not in verdicts), None
        )
    try:
        yield
    finally:
        bisect.next_state = before


def history(ws: mulligan.Workspace, project: Path, rng: random.Random) -> tuple[str, str]:
    """Makes a history; returns the ids of the last good and the first bad checkpoint."""
    count = rng.randrange(2, 40)
    broken, last, first_bad = rng.randrange(1, count), "", ""
    for at in range(count):
        put(project, "app", "broken\n" if at >= broken else "works\n")
        put(project, "noise", f"{at}\n")
        saved = ws.save(f"s{at}").id
        if at == broken - 1:
            last = saved
        elif at == broken:
            first_bad = saved
        if rng.random() < 0.15:
            ws.save("the same again")
        if rng.random() < 0.1:  # a detour, which is undone
            put(project, "app", rng.choice(["works\n", "broken\n"]))
            put(project, "detour", str(rng.random()))
            ws.save("detour")
            ws.restore(saved)
    return last, first_bad


def works(fork: mulligan.Workspace) -> bool:
    """The test."""
    return Path(fork.root, "app").read_text() == "works\n"


def main() -> int:
    """Sweeps."""
    options = parser(__doc__, 20)
    options.add_argument("--build", choices=("", "linear"), default="")
    given = options.parse_args()
    rng = random.Random(given.seed)
    tally = Tally("bisect", given.size, enough=given.enough)
    with workplace(given.base) as place, built(given.build):
        os.environ["XDG_STATE_HOME"] = str(place / "state")
        while not tally.over:
            project = place / f"p{tally.tried}"
            project.mkdir()
            with mulligan.open(project, store=place / f"s{tally.tried}") as ws:
                good, bad = history(ws, project, rng)
                before = snapshot(project)
                found = ws.bisect(works)
                if found.bad.id != bad:
                    tally.broke(f"history {tally.tried}: found {found.bad.name}, not the planted step")
                if found.runs - 2 > math.ceil(math.log2(found.states)):
                    tally.broke(f"history {tally.tried}: {found.runs} runs over {found.states} states")
                if snapshot(project) != before:
                    tally.broke(f"history {tally.tried}: the workspace changed")
                tally.did(runs=found.runs, states=found.states, exact=int(found.good.id == good))
        return tally.end()


if __name__ == "__main__":
    sys.exit(main())
