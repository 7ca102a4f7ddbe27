"""
restic, a backup program: what people use who protect a directory without git.

Encrypts and deduplicates, which costs what it costs; a restore writes the files that differ from the snapshot, removes
nothing, and keeps no copy of what it replaces. Takes part where the command is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar

from bench.contestants import NotAvailable, NotOffered


class Restic:
    """`restic backup`, `restic restore`, `restic snapshots`, `restic prune`."""

    key: ClassVar[str] = "restic"
    title: ClassVar[str] = "restic"
    about: ClassVar[str] = (
        "`restic backup` into a local repository, encrypted; restore keeps no copy of what it replaces"
    )
    own_names: ClassVar[frozenset[str]] = frozenset()
    first_only: ClassVar[bool] = False

    def __init__(self, workspace: Path, store: Path, /) -> None:
        self.workspace = workspace
        self.repository = store / "restic"
        cache = store / "restic-cache"
        self._environment = os.environ | {
            "RESTIC_REPOSITORY": str(self.repository),
            "RESTIC_PASSWORD": "bench",
            "RESTIC_CACHE_DIR": str(cache),
        }
        self._cache = cache

    @classmethod
    def prepare(cls, _peers: Path, /) -> str:
        if shutil.which("restic") is None:
            raise NotAvailable("no restic command on this machine")
        return subprocess.run(["restic", "version"], check=True, capture_output=True, text=True).stdout.split()[1]

    def first(self) -> str:
        self._restic("init")
        return self.save()

    def save(self) -> str:
        lines = self._restic("backup", "--json", "--exclude", ".git", ".").splitlines()
        return str(json.loads(lines[-1])["snapshot_id"])

    def save_unchanged(self) -> bool:
        raise NotOffered("makes a snapshot whether or not anything changed")

    def restore(self, ref: str) -> None:
        self._restic("restore", ref, "--target", str(self.workspace))

    def log(self) -> int:
        return len(json.loads(self._restic("snapshots", "--json")))

    def gc(self) -> None:
        self._restic("prune")

    def listing(self, ref: str) -> dict[str, str]:
        """Names git's blobs, because that is what the benchmark compares: each file is read out and hashed."""
        rows = [json.loads(line) for line in self._restic("ls", "--json", ref).splitlines()]
        files = [row["path"] for row in rows if row.get("type") == "file"]
        place = self.repository.parent / "restic-listing"
        try:
            self._restic("restore", ref, "--target", str(place))
            return {path.lstrip("/"): _blob(place / path.lstrip("/")) for path in files}
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def read(self, ref: str, path: str) -> bytes:
        return self._restic("dump", ref, "/" + path)

    def store_paths(self) -> list[Path]:
        return [self.repository, self._cache]

    def close(self) -> None:
        """Nothing stays open between commands."""

    def _restic(self, *args: str) -> bytes:
        done = subprocess.run(
            ["restic", "--quiet", *args], check=False, cwd=self.workspace, env=self._environment, capture_output=True
        )
        if done.returncode:
            raise RuntimeError(
                f"restic {args[0]} exited with {done.returncode}: {done.stderr.decode(errors='replace')}"
            )
        return done.stdout


def _blob(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest()
