"""
Kills every operation at every system call that changes something, and asks the next command to work without help.

    python tests/proofs/crash/kill_sweep.py [--size N] [--operation NAME ...] [--depth N] [--how gate|strace] [--build NAME] [--first]

`--size` is the number of kills of each operation, spread so that rare calls come first; 0, the default, is every one: k = 1,
2, … until the operation comes through. With `--depth 2` the next command is killed as well, and with 3 the one after that.
`gate` forks this process and kills at the k-th call of any kind; `strace` runs the real command line, and kills at the k-th
call of each kind.
`--build` tries a known-bad build, which must be caught; `--first` ends at the first finding; `--at` kills
at one call alone, to look at a finding again.
After each kill: every workspace file is old or new at that instant; bystanders are untouched; every acknowledged checkpoint
is there, whole, by plain git; the next commands work; the whole workspace is old or new after them, and git with it where it
moves; what was unsaved can be had back; nothing is left behind; the judge finds nothing.
Exit codes: 0 nothing broke, 1 something did, 77 this machine cannot do it.
"""

from __future__ import annotations

import argparse
import collections
import functools
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import strace_kills
from aftermath import Aftermath, Ground
from bad_kill_builds import BUILDS, LASTING
from git_scenes import Scene, broken_git, scene_with_git
from kill_operations import KILLED, LARGE, NOBODY, ORDINARY

from gate import NO_GATE, Passage, Point, gate_works, passed
from tally import cannot, hand_in
from tools import strace_works

__all__ = ["Scene", "broken_git", "scene_with_git"]  # for the power cuts
_PROGRESS_S = 20


class Killer(Protocol):
    """A way to run an operation and kill it."""

    def points(self, ground: Ground) -> list[Point]:
        """Returns every place, in the order in which they come."""

    def run(self, ground: Ground, point: Point) -> Passage:
        """Runs the operation and kills it there, if it comes there."""


class Gate:
    """Kills forks of this process, at the k-th call of any kind."""

    def __init__(self, build: str) -> None:
        self.build = build

    def points(self, ground: Ground) -> list[Point]:
        """Runs the operation once and counts."""
        ground.reset().close()
        seen = self.run(ground, Point("", 0))
        assert seen.code == 0, "the operation fails without any kill"
        return [Point(call, number) for number, call in enumerate(seen.calls, 1)]

    def run(self, ground: Ground, point: Point) -> Passage:
        """Kills at the k-th call, in the build that is asked for."""

        def act() -> None:
            with BUILDS[self.build]():
                ground.act()

        return passed(act, die_at=point.number)


class Tally:
    """What came of one operation."""

    def __init__(self, name: str) -> None:
        self.name, self.began = name, time.monotonic()
        self.tried = self.kills = self.broken = self.litter = self.points = 0
        self.seconds: list[float] = []

    def take(self, what: str, kills: int, after: Aftermath, wrong: list[str]) -> None:
        """Counts a trial and tells what broke."""
        self.tried += 1
        self.kills += kills
        self.broken += bool(wrong)
        self.litter = max(self.litter, after.litter)
        self.seconds.append(after.seconds)
        for line in wrong:
            print(f"BROKEN {self.name}, {what}: {line}", flush=True)

    def line(self) -> str:
        """The summary."""
        times = sorted(self.seconds) or [0.0]
        next_ms = f"{times[len(times) // 2] * 1000:.0f}/{times[len(times) * 99 // 100] * 1000:.0f}"
        took = time.monotonic() - self.began
        return (
            f"{self.name}: {self.points} points, {self.tried} tried, {self.kills} kills, {self.broken} broken, "
            f"next command {next_ms} ms (median/p99), at most {self.litter} temporaries, {took:.0f} s"
        )


def trials(points: list[Point], size: int, depth: int, rng: random.Random) -> Iterator[list[Point]]:
    """Where to kill, one list of a kill and those that follow it for each trial."""
    order = spread(points, rng) if size or depth > 1 else [*points, Point("", len(points) + 1)]
    rounds = size or len(order)
    for number in range(rounds):
        if number >= len(order) and depth == 1:
            return
        first = order[number % len(order)]
        yield [first, *(Point("", 1 + int(rng.random() * rng.random() * 400)) for _ in range(depth - 1))]


def spread(points: list[Point], rng: random.Random) -> list[Point]:
    """All points in an order that visits every kind of call early, since the rare ones are the telling ones."""
    turn: collections.Counter[str] = collections.Counter()
    ranked = []
    for point in rng.sample(points, len(points)):
        turn[point.call] += 1
        ranked.append((turn[point.call], point))
    return [point for _turn, point in sorted(ranked, key=lambda rank: rank[0])]


def strike(ground: Ground, killer: Killer, where: list[Point]) -> tuple[int, bool, list[str]]:
    """Sets the stage and kills; returns how many kills hit, whether the operation died, and what went wrong meanwhile."""
    ground.reset().close()
    first = killer.run(ground, where[0])
    wrong = [] if first.code in {0, -9} else [f"the operation ended with {first.code}, and was not killed"]
    kills = int(first.killed)
    for point in where[1:] if first.died else ():
        how = ("save", "gc", "doctor")[point.number % 3]
        again = passed(functools.partial(ground.go_on, how), die_at=point.number)
        kills += again.killed
        if again.code not in {0, -9}:
            wrong.append(f"the command after a kill ended with {again.code}")
        if not again.died:
            break
    return kills, first.died, wrong


def sweep(ground: Ground, killer: Killer, options: argparse.Namespace) -> Tally:
    """Kills one operation as often as is wanted."""
    tally, rng = Tally(ground.name), random.Random(options.seed)
    points, told = killer.points(ground), time.monotonic()
    tally.points = len(points)
    chosen = [[Point("", number)] for number in options.at] if options.at else None
    if options.build != "good":
        strike(ground, killer, [Point("", 0)])
        if wrong := Aftermath(ground, rng, died=False).wrong():
            print(f"the build is wrong even when nobody kills it: {wrong}", flush=True)
    for where in chosen or trials(points, options.size, options.depth, rng):
        kills, died, wrong = strike(ground, killer, where)
        after = Aftermath(ground, rng, died=died, saved=options.depth > 1)
        told_where = ", then ".join(f"{point.call} {point.number}" for point in where)
        with BUILDS[options.build if options.build in LASTING else "good"]():
            wrong += after.wrong()
        tally.take(told_where, kills, after, wrong)
        if tally.broken and options.first:
            break
        if time.monotonic() - told > _PROGRESS_S:
            told = time.monotonic()
            print(f"  {tally.line()}", file=sys.stderr, flush=True)
    return tally


def main() -> int:
    """Runs the sweep and prints one line per operation, and one per violation."""
    options = arguments().parse_args()
    if options.how == "strace" and not strace_works():
        return cannot("strace is not here or may not trace")
    if not gate_works():
        return cannot(NO_GATE)
    began, tallies = time.monotonic(), []
    known = strace_kills.COMMANDS if options.how == "strace" else KILLED
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="kill-sweep-", dir=options.base or memory) as base:
        os.chmod(base, 0o755)  # an ordinary user may work in it
        os.environ["HOME"] = os.environ["XDG_STATE_HOME"] = os.environ["XDG_CONFIG_HOME"] = base
        for name in options.operation or known:
            folder = Path(base, name)
            folder.mkdir()
            user = NOBODY if name in ORDINARY and os.geteuid() == 0 else None
            ground = Ground(folder, name, (KILLED | LARGE)[name], user=user)
            killer = strace_kills.Strace() if options.how == "strace" else Gate(options.build)
            with ground.as_user():
                tallies.append(sweep(ground, killer, options))
            print(tallies[-1].line(), flush=True)
            shutil.rmtree(folder)
            if tallies[-1].broken and options.first:
                break
    kills, broken = sum(tally.kills for tally in tallies), sum(tally.broken for tally in tallies)
    tried = sum(tally.tried for tally in tallies)
    print(f"kills: {tried} tried, {broken} broken, {kills} kills, depth {options.depth}, {options.how}, "
          f"{len(tallies)} operations, {time.monotonic() - began:.0f} s")  # fmt: skip
    figures = {f"next_command_{name}_ms": round(at * 1000) for name, at in quantiles(tallies).items()}
    hand_in("kills", tried=tried, broken=broken, kills=kills, points=sum(each.points for each in tallies),
            operations=len(tallies), temporaries_at_most=max(each.litter for each in tallies), **figures)  # fmt: skip
    return 1 if broken or not tried else 0


def quantiles(tallies: list[Tally]) -> dict[str, float]:
    """How long it took until everything was usable again."""
    times = sorted(second for tally in tallies for second in tally.seconds) or [0.0]
    return {"median": times[len(times) // 2], "p99": times[len(times) * 99 // 100], "most": times[-1]}


def arguments() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=0, help="kills per operation, spread; 0 for every one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operation", choices=KILLED | LARGE, action="append")
    parser.add_argument("--at", type=int, action="append", help="kill at this call only, whichever it is")
    parser.add_argument("--depth", type=int, choices=(1, 2, 3, 4), default=1)
    parser.add_argument("--how", choices=("gate", "strace"), default="gate")
    parser.add_argument("--build", choices=BUILDS, default="good")
    parser.add_argument("--first", action="store_true", help="end at the first finding")
    parser.add_argument(
        "--base", default=None, help="the directory to work below (default: in memory, if there is such)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
