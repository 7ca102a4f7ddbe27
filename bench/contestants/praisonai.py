"""
PyPI `praisonaiagents`: an asynchronous service over a shadow git repository, called in process on one event loop.

It packs its repository by itself at every twentieth save, inside that save; every git command it starts is given 30 s.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from pathlib import Path
from typing import Any, ClassVar

from bench.contestants import NotAvailable, NotOffered, git_listing, git_output
from bench.contestants.peers import bring


class Praisonai:
    """`CheckpointService.save`, `restore` (which saves the present state first) and `list_checkpoints`."""

    key: ClassVar[str] = "praisonai"
    title: ClassVar[str] = "praisonaiagents"
    about: ClassVar[str] = (
        "`CheckpointService` in process; `restore` saves the present state first; repacks inside every 20th save"
    )
    own_names: ClassVar[frozenset[str]] = frozenset()
    first_only: ClassVar[bool] = False

    def __init__(self, workspace: Path, store: Path, /) -> None:
        self.workspace = workspace
        self.store = store
        self._service: Any = None
        self._loop = asyncio.new_event_loop()

    @classmethod
    def prepare(cls, peers: Path, /) -> str:
        version = bring("praisonaiagents", below=peers)
        try:
            importlib.import_module("praisonaiagents.checkpoints")
        except Exception as error:  # A package without its dependencies may fail in any way while it loads.
            sys.modules.pop("praisonaiagents", None)
            raise NotAvailable(f"import praisonaiagents.checkpoints failed: {error}") from error
        logging.getLogger("praisonaiagents").setLevel(logging.CRITICAL)
        return version

    def first(self) -> str:
        service = importlib.import_module("praisonaiagents.checkpoints").CheckpointService
        self._service = service(workspace_dir=str(self.workspace), storage_dir=str(self.store))
        if not self._run(self._service.initialize()):
            raise RuntimeError("the service did not initialize")
        return self.save()

    def save(self) -> str:
        made = self._run(self._service.save("checkpoint"))
        if not made.success:
            raise RuntimeError(made.error)
        return str(made.checkpoint.id)

    def save_unchanged(self) -> bool:
        made = self._run(self._service.save("checkpoint"))
        if not made.success and made.error != "No changes to checkpoint":
            raise RuntimeError(made.error)
        return not made.success

    def restore(self, ref: str) -> None:
        done = self._run(self._service.restore(ref))
        if not done.success:
            raise RuntimeError(done.error)

    def log(self) -> int:
        return len(self._run(self._service.list_checkpoints(limit=1_000_000)))

    def gc(self) -> None:
        raise NotOffered("packs by itself at every 20th save")

    def listing(self, ref: str) -> dict[str, str]:
        return git_listing(Path(self._service.git_dir), ref)

    def read(self, ref: str, path: str) -> bytes:
        return git_output(Path(self._service.git_dir), "cat-file", "blob", f"{ref}:{path}")

    def store_paths(self) -> list[Path]:
        return [self.store]

    def close(self) -> None:
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)
