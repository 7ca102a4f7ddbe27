"""
A look at the workspace that begins before the engine is there.

A command that will look at everything spends its first third on loading modules, in one thread. What is remembered can be
read, and a glance begun in the background, as soon as it is known where the store is. The lock is not held yet, and not
even the command's words were read with care, so it is a guess: it counts only if, under the lock, it is recent, the store
and its memory are the same, and so is the directory. Everything that is different goes the way of any other look.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from mulligan.safefs.directory import Directory

if TYPE_CHECKING:
    from mulligan.scan.cache import Cache
    from mulligan.scan.glance import Glancing

# Who waited for longer than this, for the lock or for another program, looks anew.
_RECENT = 1.0


class Early:
    """A glance that was begun early, and what it may count for."""

    def __init__(self, root: Directory, store: tuple[int, int], begun: Glancing) -> None:
        self._store = store
        self._root = root
        self._begun = begun
        begun.is_kept = True
        self._at = time.monotonic()

    @property
    def cache(self) -> Cache:
        """What it knows by."""
        return self._begun.cache

    def is_fresh(self, store: Directory) -> bool:
        """Whether its memory is that of the store, and nobody had time for much since."""
        recent = time.monotonic() - self._at < _RECENT
        return recent and _identity(store) == self._store and self.cache.is_current(store)

    def taken(self, root: int, cache: Cache) -> Glancing | None:
        """Returns the glance, if it was one at this directory with this memory."""
        found = os.fstat(root)
        same = (found.st_dev, found.st_ino) == _identity(self._root)
        return self._begun if same and cache is self.cache and not cache.is_doubted else None

    def close(self) -> None:
        """Ends it; again is harmless."""
        self._begun.close()
        self._root.close()


def _identity(directory: Directory) -> tuple[int, int]:
    found = os.fstat(directory.fd)
    return found.st_dev, found.st_ino


def look_early(workspace: str, store: str) -> Early | None:
    """Begins to look; None where nothing is remembered, or anything stands in the way: the engine will tell."""
    try:
        with Directory.open(store) as directory:
            home = _identity(directory)
            root = Directory.open(workspace)
            begun = None
            try:
                begun = _glancing(directory, root)
            finally:
                if begun is None:
                    root.close()
    except OSError:
        return None
    return Early(root, home, begun) if begun is not None else None


def _glancing(store: Directory, root: Directory) -> Glancing | None:
    from mulligan.scan.cache import Cache
    from mulligan.scan.glance import begin

    cache = Cache()
    cache.load(store)
    return begin(root.fd, cache)
