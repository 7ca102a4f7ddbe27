"""Where an operation is tried that will not come to its end: a workspace, its store, and what lies beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import mulligan
from mulligan.settings import resolve


class Place(NamedTuple):
    """One workspace with its store."""

    home: Path

    @property
    def project(self) -> Path:
        """The workspace."""
        return self.home / "project"

    @property
    def store(self) -> Path:
        """Its store."""
        return self.home / "store"

    @property
    def chat(self) -> Path:
        """A conversation, where there is one."""
        return self.home / "talk/chat.jsonl"

    @property
    def said(self) -> Path:
        """What was acknowledged, one line each, where workers say it."""
        return self.home / "said"

    def open(self, **settings: Any) -> Any:
        """A new workspace object, as a new process would have it; some settings may be others."""
        return mulligan.Workspace(resolve(self.project, store=self.store)._replace(**settings))
