"""
The frame of every sweep in this folder: a size, progress, one line per violation, a summary line, an exit code.

0 is clean, 1 is something broken, 77 is "cannot run here". A sweep that did nothing is not clean.
`proof.py` runs them all: it gives each `--size` and `--seed`, and collects what `hand_in` was told.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

CANNOT = 77
#: In the environment: the file in which `proof.py` wants the tallies of a sweep.
HANDED_IN = "PROOF_TALLIES"
_MOST_SHOWN = 20
_PROGRESS_S = 10.0


class Tally:
    """Counts what was tried, what happened, and what broke."""

    def __init__(self, what: str, size: int, *, enough: int = 1000) -> None:
        self.what, self.size, self.tried, self._enough = what, size, 0, enough
        self.counts: collections.Counter[str] = collections.Counter()
        self.broken: list[str] = []
        self.began = self._told = time.monotonic()

    @property
    def over(self) -> bool:
        """Whether the size is reached, or so much broke that more says nothing new."""
        return self.tried >= self.size or len(self.broken) >= self._enough

    def did(self, number: int = 1, **counts: int) -> None:
        """Adds to what was tried, and to some counters."""
        self.tried += number
        self.counts.update(counts)
        if time.monotonic() - self._told > _PROGRESS_S:
            self._told = time.monotonic()
            print(f"  {self.what}: {self.tried} of {self.size}, {len(self.broken)} broken", flush=True)

    def broke(self, lines: str | list[str]) -> None:
        """Notes violations."""
        for line in [lines] if isinstance(lines, str) else lines:
            self.broken.append(line)
            if len(self.broken) <= _MOST_SHOWN:
                print(f"BROKEN {self.what}: {line}", flush=True)

    def end(self) -> int:
        """Prints the summary and returns the exit code."""
        took = time.monotonic() - self.began
        told = "".join(f", {name.replace('_', ' ')} {count}" for name, count in sorted(self.counts.items()))
        print(f"{self.what}: {self.tried} tried, {len(self.broken)} broken{told}, {took:.0f} s", flush=True)
        hand_in(self.what, tried=self.tried, broken=len(self.broken), **self.counts)
        return 1 if self.broken or not self.tried else 0


def hand_in(what: str, *, tried: int, broken: int, **counts: float) -> None:
    """Tells `proof.py`, if it was that which started the sweep; a count whose name ends in `_ms` is a figure, not a sum."""
    if path := os.environ.get(HANDED_IN):
        with open(path, "a", encoding="utf-8") as file:
            print(json.dumps({"what": what, "tried": tried, "broken": broken, "counts": counts}), file=file)


def parser(doc: str | None, size: int) -> argparse.ArgumentParser:
    """The options that every sweep has."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--size", type=int, default=size, help=f"how much is tried (default: {size})")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--enough", type=int, default=1000, help="stop after so many violations")
    made.add_argument("--base", default=None, help="the directory to work below (default: in memory, if there is such)")
    return made


@contextmanager
def workplace(base: str | None) -> Iterator[Path]:
    """An empty directory, removed afterwards; it is HOME too, so that nobody's settings count."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with TemporaryDirectory(prefix="race-", dir=base or memory) as place:
        for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
            del os.environ[name]
        home = Path(place, "home")
        home.mkdir()
        os.environ["HOME"] = os.fspath(home)
        os.umask(0o022)
        yield Path(place)


def cannot(reason: str) -> int:
    """Says loudly why nothing was tried."""
    print(f"CANNOT RUN HERE: {reason}", file=sys.stderr)
    return CANNOT
