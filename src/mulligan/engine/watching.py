"""A workspace that is being watched: whether changes are noticed, and the end of it."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from mulligan.engine.save import Workbench


class Watching:
    """A workspace that is being watched, until this is closed."""

    def __init__(self, bench: Workbench, mutex: RLock) -> None:
        self._bench = bench
        self._mutex = mutex

    def __repr__(self) -> str:
        return f"<mulligan.Watching {self.to_dict()}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def active(self) -> bool:
        """Whether changes are being noticed; False before the first checkpoint and where the system cannot."""
        return bool(self.to_dict()["active"])

    @property
    def reason(self) -> str:
        """Why not, in words; empty when it is active."""
        return str(self.to_dict()["reason"])

    def to_dict(self) -> dict[str, Any]:
        """Returns what `status` says about the watcher."""
        with self._mutex:
            return self._bench.watcher_state() or {"active": False, "directories": 0, "reason": "it was closed"}

    def close(self) -> None:
        """Ends the watching; again is harmless."""
        with self._mutex:
            self._bench.unwatch()
