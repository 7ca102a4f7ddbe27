"""
BorgBackup, a backup program: deduplicates, here without encryption.

An extraction writes every file of the archive, removes nothing, and keeps no copy of what it replaces. Takes part where
the command is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from itertools import count
from pathlib import Path
from typing import ClassVar

from bench import trees
from bench.contestants import NotAvailable, NotOffered


class Borg:
    """`borg create`, `borg extract`, `borg list`, `borg compact`."""

    key: ClassVar[str] = "borg"
    title: ClassVar[str] = "BorgBackup"
    about: ClassVar[str] = (
        "`borg create` into a local repository, not encrypted; extract writes everything, keeps nothing"
    )
    own_names: ClassVar[frozenset[str]] = frozenset()
    first_only: ClassVar[bool] = False

    def __init__(self, workspace: Path, store: Path, /) -> None:
        self.workspace = workspace
        self._repository, self._base = store / "borg", store / "borg-base"
        self._environment = os.environ | {
            "BORG_REPO": str(self._repository),
            "BORG_BASE_DIR": str(self._base),
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
        }
        self._numbers = count(1)

    @classmethod
    def prepare(cls, _peers: Path, /) -> str:
        if shutil.which("borg") is None:
            raise NotAvailable("no borg command on this machine")
        return subprocess.run(["borg", "--version"], check=True, capture_output=True, text=True).stdout.split()[1]

    def first(self) -> str:
        self._base.mkdir(parents=True, exist_ok=True)
        self._borg("init", "--encryption", "none")
        return self.save()

    def save(self) -> str:
        name = f"checkpoint-{next(self._numbers)}"
        self._borg("create", "--exclude", "pp:.git", f"::{name}", ".")
        return name

    def save_unchanged(self) -> bool:
        raise NotOffered("makes an archive whether or not anything changed")

    def restore(self, ref: str) -> None:
        self._borg("extract", f"::{ref}")

    def log(self) -> int:
        return len(self._borg("list", "--short").splitlines())

    def gc(self) -> None:
        self._borg("compact")

    def listing(self, ref: str) -> dict[str, str]:
        """Names git's blobs, because that is what the benchmark compares: each file is taken out and hashed."""
        place = self._base / "listing"
        place.mkdir()
        try:
            self._borg("extract", f"::{ref}", where=place)
            return trees.found(place, leave_out=frozenset())
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def read(self, ref: str, path: str) -> bytes:
        return self._borg("extract", "--stdout", f"::{ref}", path)

    def store_paths(self) -> list[Path]:
        return [self._repository, self._base]

    def close(self) -> None:
        """Nothing stays open between commands."""

    def _borg(self, *args: str, where: Path | None = None) -> bytes:
        done = subprocess.run(
            ["borg", *args], check=False, cwd=where or self.workspace, env=self._environment, capture_output=True
        )
        if done.returncode:
            raise RuntimeError(f"borg {args[0]} exited with {done.returncode}: {done.stderr.decode(errors='replace')}")
        return done.stdout
