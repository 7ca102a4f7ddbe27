"""
First checkpoints of random git repositories, with what git knows and without: they must be the same.

    python tests/proofs/adoption/adoption.py [--size N] [--seed N] [--build NAME]

Repositories are of every kind (`adopted.grow`), clean and dirty; in some of them bytes of a pack are turned. No file is read to see
whether git is right: what is believed must be right without that. `--build` puts one of the engines in place that must be
found out (`bad_adoptions`).
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
sys.path.insert(0, str(Path(__file__).parent))

from bad_adoptions import BUILDS

import adopted
from mulligan.scan import from_git
from plain_git import fsck, objects_of
from tally import Tally, parser, workplace


def turn_bits(rng: random.Random, repo: Path) -> bool:
    """Turns some bits in the records of a pack; returns whether there is one."""
    packs = sorted((repo / ".git/objects/pack").glob("*.pack"))
    for pack in packs:
        data = bytearray(pack.read_bytes())
        for _ in range(6):
            data[rng.randrange(12, len(data) - 20)] ^= 1 << rng.randrange(8)
        pack.chmod(0o600)
        pack.write_bytes(data)
    return bool(packs)


def trial(rng: random.Random, place: Path) -> tuple[list[str], int]:
    """One repository: what is wrong with its checkpoints, and how many files were not read."""
    repo = adopted.grow(rng, place / "project")
    changed = rng.random() < 0.6
    if changed:
        adopted.dirty(rng, repo)
    damaged = rng.random() < 0.3 and turn_bits(rng, repo)
    adopted.settle(place)
    try:
        taken, read = adopted.both_ways(repo, place)
    except AssertionError:
        return ["what was saved is damaged"], 0
    one, other = adopted.said(taken), adopted.said(read)
    # What git calls changed depends on objects that a damaged pack may not give.
    wrong = [f"other {key}" for key in one if one[key] != other[key] and not (damaged and key == "git")]
    if not (changed or damaged):
        # Of a file that changed since, what git has of it may be copied; nothing leads to it, and freeing disk removes it.
        wrong += [f"{name} is in the store, and no checkpoint holds it" for name in _more(repo, taken, read)]
    return wrong + fsck(taken.store), read.read - taken.read


def _more(repo: Path, taken: adopted.Saved, read: adopted.Saved) -> set[str]:
    """What the user's repository has of files, and only the store that took over from it."""
    blobs = {name for name, (kind, _) in objects_of(repo / ".git").items() if kind == "blob"}
    return (blobs & objects_of(taken.store).keys()) - objects_of(read.store).keys()


def main() -> int:
    """Runs the trials."""
    options = parser(__doc__, 60)
    options.add_argument("--build", choices=BUILDS, default="good")
    given = options.parse_args()
    BUILDS[given.build]()
    from_git.LEAST, from_git._TRIED_LEAST, from_git._TRIED_MOST = 1, 0, 0
    tally = Tally(f"first checkpoints, {given.build}", given.size, enough=given.enough)
    with workplace(given.base) as base:
        os.environ["HOME"] = os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = os.fspath(base)
        while not tally.over:
            seed = given.seed * 1_000_003 + tally.tried
            place = base / str(tally.tried)
            place.mkdir()
            wrong, spared = trial(random.Random(seed), place)
            tally.did(files_not_read=spared)
            tally.broke([f"seed {seed}: {line}" for line in wrong])
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
