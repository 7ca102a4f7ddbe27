"""
What most tools keep checkpoints in, through the same cuts: a git repository beside the workspace, `add -A`, `commit`.

Nothing of it is a verdict about mulligan: it says what the figures of `power_cut.py` are to be compared with.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from disks import sync
from workload import Places

from tools import git
from tree import put

_FILES = 20


class ShadowGit(NamedTuple):
    """Plain git as a subject; `durable` switches on every fsync that it has."""

    durable: bool

    def load(self) -> None:
        """Needs nothing."""

    def prepare(self, places: Places) -> None:
        """A project and a shadow repository with one commit, safely on the disk."""
        for number in range(_FILES):
            put(places.project, f"d{number % 4}/f{number}", f"{number}\n" * 50)
        git("init", "-q", "--bare", places.point / "shadow", cwd=places.point)
        if self.durable:
            _git(places, "config", "core.fsync", "all")
        self._save(places)

    def _save(self, places: Places) -> None:
        _git(places, "add", "-A")
        _git(places, "commit", "-q", "-m", "a checkpoint")
        places.tell(
            done="save", commit=_git(places, "rev-parse", "HEAD").decode().strip(), at=time.monotonic(), took=0.0
        )

    def work(self, places: Places, rng: random.Random, given: dict[str, Any], alert: Callable[[str], None]) -> None:
        """Edits and commits; then the cut, or waiting for it."""
        try:
            for number in range(given["count"]):
                for _file in range(3):
                    chosen = rng.randrange(_FILES)
                    put(places.project, f"d{chosen % 4}/f{chosen}", f"{rng.random()}\n" * rng.randrange(1, 400))
                if given["synced"]:
                    sync(places.project)
                if number == given["count"] - 1:
                    alert("save")
                self._save(places)
            if given["cut"]:
                given["cut"]()
            given["said"]()
            if given["stays"]:
                time.sleep(600)
        except (AssertionError, OSError) as error:
            places.tell(failed=str(error), typed=True, at=time.monotonic())

    def judge(self, places: Places, _rng: random.Random) -> tuple[list[str], dict[str, int]]:
        """What of the acknowledged commits is gone, and whether the repository is whole."""
        commits = [line["commit"] for line in places.said() if "commit" in line]
        reached = set(_git(places, "rev-list", "HEAD", check=False).decode().split())
        lost = [
            f"lost: {commit} was acknowledged and is not in the history" for commit in commits if commit not in reached
        ]
        empty = _empty(places.point / "shadow")
        said = _git(places, "fsck", "--full", "--no-dangling", "--no-progress", check=False, told=True)
        broken = any(word in said for word in (b"error", b"corrupt", b"missing", b"fatal", b"invalid"))
        found = lost + ([f"corrupt: {len(empty)} empty files; fsck: {said[:80]!r}"] if empty or broken else [])
        return found, {"acknowledged": len(commits) - 1, "empty files": len(empty)}


def _empty(place: Path) -> list[Path]:
    """Files without a byte among those that git cannot do without: objects, refs, HEAD and the index."""
    needed = [*(place / "objects").rglob("*"), *(place / "refs").rglob("*"), place / "HEAD", place / "index"]
    return [path for path in needed if path.is_file() and not path.stat().st_size]


def _git(places: Places, *args: str, check: bool = True, told: bool = False) -> bytes:
    said = git(
        f"--git-dir={places.point / 'shadow'}", f"--work-tree={places.project}", *args, cwd=places.point, check=check
    )
    if told and not said:
        # What git complains of goes to the other channel: ask for the exit code alone.
        try:
            git(f"--git-dir={places.point / 'shadow'}", *args, cwd=places.point)
        except AssertionError as error:
            return os.fsencode(str(error))
    return said
