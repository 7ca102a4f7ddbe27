"""
Remove leftovers: files that a restore displaced, and what a killed process left behind.

To rename a file away takes some microseconds. To remove one makes the file system free its blocks: a quarter of the time of
a restore on a quiet disk, most of it on a busy one. So a restore moves displaced files, which a checkpoint holds byte for
byte, to tmp/. They are removed when the store is closed, or by the next writing command with the rest of tmp/.
Sweep only while holding the writer's lock: another process's temporary would look like a leftover.
"""

from __future__ import annotations

import os
from collections.abc import Container
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


def sweep_temporaries(directory: Directory, sparing: Container[bytes] = ()) -> None:
    """Empties tmp/ of a store but for some names; completes packs that a crash left without their index."""
    try:
        tmp = directory.child(b"tmp")
    except FileNotFoundError:
        return
    with tmp:
        for name in tmp.names():
            if name in sparing:
                continue
            try:
                tmp.unlink(name, missing_ok=True)
            except (IsADirectoryError, PermissionError):
                tmp.remove_tree(name)
    # A store that has lost this directory is for the doctor.
    with suppress(FileNotFoundError, NotADirectoryError):
        settle_halves(directory)


def settle_halves(directory: Directory) -> None:
    """
    Gives a pack that has no index its index again, so that nothing is lost; the next collection judges its objects.

    An index without its pack is no leftover of ours (the pack comes first and goes last): that is damage, and stays for
    `verify_packs` to report.
    """
    with directory.descend(b"objects/pack") as packs:
        names = set(packs.names())
    for name in names:
        stem, ending = name[:-5], name[-5:]
        if ending == b".pack" and name.startswith(b"pack-") and stem + b".idx" not in names:
            from mulligan.store.verify import rebuild_index  # every save comes here, and hardly any has one to mend

            rebuild_index(directory, stem)
