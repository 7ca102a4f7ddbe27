"""
Writes that survive a power cut.

Promise: when `write_durably` or `sync` return, the bytes and the name are on the disk; when they raise DurabilityLost,
nothing may be acknowledged, and the call is never repeated: after a failed fsync Linux may report success for pages
it has dropped.
The order is always: new name beside the old, bytes, fsync of the file, rename, fsync of the directory. Without the last,
ext4 lost the rename in ten of ten power cuts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress

from mulligan.errors import DurabilityLost
from mulligan.safefs import seam
from mulligan.safefs.directory import Directory, write_all


def sync(fd: int, what: str) -> None:
    """Makes an open file or directory durable."""
    try:
        if sys.platform == "darwin":  # plain fsync there leaves the drive's cache unwritten
            import fcntl

            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        else:
            seam.calls.fsync(fd)
    except OSError as error:
        raise DurabilityLost(
            f"The disk did not confirm the write of {what} ({error.strerror}). Nothing was acknowledged; what was saved before is untouched.",
            hint="Check the disk, then run: mulligan check",
        ) from error


def sync_filesystem(directory: Directory, what: str) -> None:
    """Makes everything written so far on a directory's file system durable, in one call."""
    try:
        seam.calls.syncfs(directory.fd)
    except AttributeError:
        os.sync()
    except OSError as error:
        raise DurabilityLost(
            f"The disk did not confirm the write of {what} ({error.strerror}). Nothing was acknowledged; what was saved before is untouched.",
            hint="Check the disk, then run: mulligan doctor",
        ) from error


def write_synced(directory: Directory, name: bytes, parts: Iterable[bytes], what: str, mode: int = 0o600) -> None:
    """Creates a file, writes it and makes its bytes (not yet its name) durable; leaves nothing behind on failure."""
    fd = directory.create(name, mode)
    try:
        try:
            for part in parts:
                write_all(fd, part)
            sync(fd, what)
        finally:
            seam.calls.close(fd)
    except BaseException:
        directory.unlink(name, missing_ok=True)
        raise


def write_durably(
    directory: Directory,
    name: bytes,
    parts: Iterable[bytes],
    *,
    temporary: bytes,
    what: str,
    via: Directory | None = None,
) -> None:
    """Puts a file in place whole or not at all, durably; `temporary` is its name on the way, in `via` if that is given."""
    way = via or directory
    write_synced(way, temporary, parts, what)
    try:
        way.rename(temporary, name, to=directory)
    except BaseException:
        way.unlink(temporary, missing_ok=True)
        raise
    sync(directory.fd, what)


def make_private(path: str) -> None:
    """Makes a directory for its owner alone, and what is missing above it, durably."""
    missing: list[str] = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        with Directory.open(os.path.dirname(each)) as parent, suppress(FileExistsError):
            parent.mkdir(os.fsencode(os.path.basename(each)), 0o700)
            sync(parent.fd, "a directory of the store")
