"""
Files that a restore displaced, waiting to be removed.

To rename a file away takes some microseconds, to remove one makes the file system free its blocks: a quarter of the time of
a restore on a quiet disk, most of it on a busy one. What lies here is in a checkpoint, byte for byte, and was compared; it is
removed when the store is closed, and whatever a dead process left goes with the next writing command, like all of tmp/.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count

from mulligan.safefs.directory import Directory

# Space that is not free although its owner thinks so: as little as makes a difference.
_MOST_FILES = 8192
_MOST_BYTES = 64 << 20
_LARGEST = 1 << 20
_serial = count()


class Trash:
    """The displaced files of one process."""

    def __init__(self) -> None:
        self._tmp: Directory | None = None
        self._refused = False
        self._bytes = 0
        self.names: set[bytes] = set()

    def take(self, store: Directory, directory: Directory, name: bytes, size: int) -> None:
        """Removes a name from its directory, now or later; raises OSError when it cannot."""
        if not self._refused and size <= _LARGEST and len(self.names) < _MOST_FILES and self._bytes < _MOST_BYTES:
            fresh = b"gone-%d-%d" % (os.getpid(), next(_serial))
            try:
                if self._tmp is None:
                    self._tmp = store.child(b"tmp")
                directory.rename(name, fresh, to=self._tmp)
            except OSError:
                self._refused = True  # another file system, or a tmp/ that is not what it was
            else:
                self.names.add(fresh)
                self._bytes += size
                return
        directory.unlink(name)

    def empty(self) -> None:
        """Removes what was taken."""
        if self._tmp is None:
            return
        for name in self.names:
            with suppress(OSError):  # the next writing command tries again
                self._tmp.unlink(name, missing_ok=True)
        self.leave()

    def leave(self) -> None:
        """Gives back what is open; what was taken is for the next writing command."""
        if self._tmp is not None:
            self._tmp.close()
        self._tmp, self._bytes, self._refused = None, 0, False
        self.names = set()
