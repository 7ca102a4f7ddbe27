"""Watches a workspace: whether changes are noticed, the end of it, and what is done in idle time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from mulligan.engine.workbench import Workbench


class Watching:
    """A workspace that is being watched, until this is closed."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        bench.watched = True

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
        with self._bench.mutex:
            return watcher_state(self._bench) or {"active": False, "directories": 0, "reason": "it was closed"}

    def close(self) -> None:
        """Ends the watching; again is harmless."""
        self._bench.unwatch()


def watcher_state(bench: Workbench) -> dict[str, Any] | None:
    """Returns whether the workspace is watched and, if it cannot be, why; None where no watcher was asked for."""
    if not bench.watched:
        return None
    watcher = bench.scanner.watcher
    if watcher is None:
        return {"active": False, "directories": 0, "reason": "it begins with the next look at the workspace"}
    return {"active": watcher.usable, "directories": watcher.directories, "reason": watcher.reason}


def notices(bench: Workbench) -> int:
    """Returns the descriptor that has something to read when something happened in a watched workspace, -1 for none."""
    watcher = bench.scanner.watcher
    return watcher.fd if watcher is not None else -1


def catch_up(bench: Workbench) -> None:
    """Takes note of what happened so far, so that the kernel's queue of notices does not run over."""
    with bench.mutex:
        bench.scanner.catch_up()


def patience(bench: Workbench, seconds: float) -> None:
    """Says how long to wait for another process that writes."""
    bench.store.settings = bench.store.settings._replace(wait=seconds)


def tidy(bench: Workbench) -> bool:
    """Does a little of what saves leave to do; returns whether there may be more."""
    with bench.mutex:
        with bench.reading() as store:
            portion = bench.tidier.portion() if store is not None else None
        if portion is not None and portion.act is not None:
            with bench.writing("tidy"):
                portion.act()
        return portion is not None
