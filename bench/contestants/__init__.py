"""
The tools that are measured, each behind the same small class.

A contestant owns one workspace copy and one store. Its timed methods (`first`, `save`, `save_unchanged`, `restore`, `log`,
`gc`) do what a user of that tool would call, nothing more; the untimed ones (`listing`, `read`, `store_paths`) let the
benchmark check that the work was really done. A tool that lacks an operation raises `NotOffered`; one that cannot be had
on this machine raises `NotAvailable` from `prepare`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import ClassVar, Protocol


class NotAvailable(Exception):
    """The tool cannot be used on this machine; the text says why."""


class NotOffered(Exception):
    """The tool has no such operation."""


class DoesNotApply(NotOffered):
    """This way of using a tool exists for other rows only; its cell stays blank."""


class Contestant(Protocol):
    """What the benchmark needs from a tool."""

    key: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    own_names: ClassVar[frozenset[str]]
    first_only: ClassVar[bool]

    def __init__(self, workspace: Path, store: Path, /) -> None:
        """Remembers the two places; makes nothing."""

    @classmethod
    def prepare(cls, peers: Path, /) -> str:
        """Makes the tool importable (installing it below `peers` where needed) and returns its version."""

    def first(self) -> str:
        """Captures the workspace into a store that does not exist yet; returns the checkpoint's name."""

    def save(self) -> str:
        """Captures the workspace; returns the checkpoint's name."""

    def save_unchanged(self) -> bool:
        """Asks for a checkpoint where nothing changed; returns whether the tool saw that and made none."""

    def restore(self, ref: str) -> None:
        """Puts the whole workspace back to that checkpoint."""

    def log(self) -> int:
        """Lists every checkpoint; returns how many."""

    def gc(self) -> None:
        """Packs the store as small as the tool can."""

    def listing(self, ref: str) -> dict[str, str]:
        """Returns path and blob name of every file in a checkpoint."""

    def read(self, ref: str, path: str) -> bytes:
        """Returns one file of a checkpoint."""

    def store_paths(self) -> list[Path]:
        """Returns the directories that make up the store."""

    def close(self) -> None:
        """Lets go of everything that is open."""


def git_listing(git_dir: Path, tree: str) -> dict[str, str]:
    """Returns path and blob name of every file of a tree in a git repository."""
    out = git_output(git_dir, "ls-tree", "-r", "-z", tree)
    rows = (row.split(b"\t", 1) for row in out.split(b"\0") if row)
    return {path.decode("utf-8", "surrogateescape"): head.split()[2].decode() for head, path in rows}


def git_output(git_dir: Path, *args: str) -> bytes:
    """Returns what one git command prints; an untimed look into a store."""
    return subprocess.run(["git", f"--git-dir={git_dir}", *args], check=True, capture_output=True).stdout
