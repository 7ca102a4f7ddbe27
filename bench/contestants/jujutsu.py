"""
Jujutsu, a version control system that snapshots the working copy with every command.

Its repository stands in the workspace, git's objects inside it. A restore snapshots the present state first, which
`jj undo` brings back: the same promise as mulligan's, without waiting for the disk. Takes part where `jj` is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar

from bench.contestants import NotAvailable, NotOffered, git_listing, git_output

# It leaves out new files over 1 MiB unless it is told otherwise.
SETTINGS = (
    "--config",
    "snapshot.max-new-file-size=0",
    "--config",
    "user.name=bench",
    "--config",
    "user.email=b@localhost",
)


class Jujutsu:
    """`jj commit`, `jj restore --from`, `jj log`, `jj util gc`."""

    key: ClassVar[str] = "jujutsu"
    title: ClassVar[str] = "Jujutsu"
    about: ClassVar[str] = (
        "`jj commit` in a repository of its own; `jj restore --from` snapshots the present state first; not synced"
    )
    own_names: ClassVar[frozenset[str]] = frozenset({".jj"})
    first_only: ClassVar[bool] = False

    def __init__(self, workspace: Path, _store: Path, /) -> None:
        self.workspace = workspace
        self._repository = workspace / ".jj"

    @classmethod
    def prepare(cls, _peers: Path, /) -> str:
        if shutil.which("jj") is None:
            raise NotAvailable("no jj command on this machine")
        return subprocess.run(["jj", "--version"], check=True, capture_output=True, text=True).stdout.split()[1]

    def first(self) -> str:
        if (self.workspace / ".git").exists():
            raise NotOffered("makes no repository of its own beside one of git's")
        self._jj("git", "init", "--no-colocate", ".")
        return self.save()

    def save(self) -> str:
        told = self._jj("commit", "-m", "checkpoint")
        found = re.search(r"^Parent commit \(@-\)\s*: \w+ ([0-9a-f]+) ", told, re.MULTILINE)
        if found is None:
            raise RuntimeError(f"jj commit does not say what it made: {told[:200]}")
        return found[1]

    def save_unchanged(self) -> bool:
        return "has no changes" in self._jj("status")

    def restore(self, ref: str) -> None:
        self._jj("restore", "--from", ref)

    def log(self) -> int:
        told = self._jj(
            "log", "--no-graph", "-r", "::@- ~ root()", "-T", 'commit_id ++ " " ++ description.first_line() ++ "\\n"'
        )
        return len(told.splitlines())

    def gc(self) -> None:
        self._jj("util", "gc")

    def listing(self, ref: str) -> dict[str, str]:
        return git_listing(self._git, ref)

    def read(self, ref: str, path: str) -> bytes:
        return git_output(self._git, "cat-file", "blob", f"{ref}:{path}")

    def store_paths(self) -> list[Path]:
        return [self._repository]

    def close(self) -> None:
        """Nothing stays open between commands."""

    @property
    def _git(self) -> Path:
        return self._repository / "repo" / "store" / "git"

    def _jj(self, *args: str) -> str:
        done = subprocess.run(
            ["jj", "--color", "never", "--no-pager", *SETTINGS, *args],
            check=False, cwd=self.workspace, env=os.environ | {"JJ_CONFIG": os.devnull}, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"jj {args[0]} exited with {done.returncode}: {done.stderr}")
        return done.stdout + done.stderr
