"""
Writing out while more is written.

A sync at the very end waits for everything at once, while the processor has nothing to do. A thread that asks for one now and
then leaves little for the last, which stays the one that counts. A sync that failed is never asked for again: after it the
disk may say yes to what it has dropped, so whoever waits for the thread is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mulligan.errors import DurabilityLost
from mulligan.safefs.directory import Directory
from mulligan.safefs.durable import sync_filesystem

if TYPE_CHECKING:
    from threading import Thread


def sync_beside(directory: Directory, what: str, meanwhile: Callable[[], object]) -> None:
    """Makes everything written so far on a directory's file system durable, and does something else while the disk is at it."""
    with Flusher(directory, what) as flusher:
        begun = flusher.nudge()
        meanwhile()
    if not begun:
        sync_filesystem(directory, what)


class Flusher:
    """Writes out the file system of a directory in the background when it is told to; use it with `with`."""

    def __init__(self, directory: Directory, what: str) -> None:
        self._directory = directory
        self._what = what
        self._thread: Thread | None = None
        self._lost: DurabilityLost | None = None

    def __enter__(self) -> Flusher:
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for what is under way; raises DurabilityLost when the disk did not confirm something."""
        if self._thread is not None:
            self._thread.join()
        if self._lost is not None:
            raise self._lost

    def nudge(self) -> bool:
        """Begins to write out what is there by now; returns False where that was under way already, or no thread is to be had."""
        if self._lost is not None or (self._thread is not None and self._thread.is_alive()):
            return False
        from threading import Thread

        try:
            # A descriptor of its own: what interrupts the wait for the thread may close the directory.
            own = self._directory.child(b".")
        except OSError:
            return False  # it would only have saved time
        thread = Thread(target=self._run, args=(own,), daemon=True)
        try:
            thread.start()
        except RuntimeError:  # as many threads as there may be
            own.close()
            return False
        self._thread = thread
        return True

    def _run(self, directory: Directory) -> None:
        with directory:
            try:
                sync_filesystem(directory, self._what)
            except DurabilityLost as error:
                self._lost = error
