"""
PyPI `stepback`: git plumbing against a fresh temporary index at every checkpoint, called in process through its engine.

Its store lives inside the workspace (`.stepback/`, or the workspace's own `.git` where there is one), which is why every
contestant works on a copy of its own.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, ClassVar

from bench.contestants import NotAvailable, NotOffered, git_listing, git_output
from bench.contestants.peers import bring


class Stepback:
    """`Engine.checkpoint`, `Engine.rewind` (which saves the present state first), the list of its state file."""

    key: ClassVar[str] = "stepback"
    title: ClassVar[str] = "stepback"
    about: ClassVar[str] = (
        "`stepback.engine.Engine` in process; `rewind` saves the present state first; no garbage collection of its own"
    )
    own_names: ClassVar[frozenset[str]] = frozenset({".stepback"})
    first_only: ClassVar[bool] = False

    def __init__(self, workspace: Path, _store: Path, /) -> None:
        self.workspace = workspace
        self._engine: Any = None
        self._made: dict[str, Any] = {}

    @classmethod
    def prepare(cls, peers: Path, /) -> str:
        version = bring("stepback", below=peers)
        try:
            importlib.import_module("stepback.engine")
        except ImportError as error:
            raise NotAvailable(f"import stepback.engine failed: {error}") from error
        return version

    def first(self) -> str:
        self._engine = importlib.import_module("stepback.engine").Engine(self.workspace)
        return self.save()

    def save(self) -> str:
        made = self._engine.checkpoint(label="checkpoint")
        if made is None:
            raise RuntimeError("stepback saw no change")
        self._made[made.commit] = made
        return str(made.commit)

    def save_unchanged(self) -> bool:
        return self._engine.checkpoint(label="checkpoint") is None

    def restore(self, ref: str) -> None:
        self._engine.rewind(self._made[ref])

    def log(self) -> int:
        state = importlib.import_module("stepback.store").State
        return len(state.load(self._engine.state_path).checkpoints)

    def gc(self) -> None:
        raise NotOffered("no garbage collection of its own")

    def listing(self, ref: str) -> dict[str, str]:
        return git_listing(self._engine.repo.git_dir, ref)

    def read(self, ref: str, path: str) -> bytes:
        return git_output(self._engine.repo.git_dir, "cat-file", "blob", f"{ref}:{path}")

    def store_paths(self) -> list[Path]:
        own = self.workspace / ".git"
        return [self.workspace / ".stepback", own / "stepback", own / "refs/checkpoints"]

    def close(self) -> None:
        """Nothing stays open between calls."""
