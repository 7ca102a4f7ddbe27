"""
Writes that survive a power cut.

Promise: when `write_durably` or `sync` return, the bytes and the name are on the disk; when they raise DurabilityLost,
the caller must not report success, and the call is never repeated: after a failed fsync Linux may report success for pages
it has dropped.
The order is always: new name beside the old, bytes, fsync of the file, rename, fsync of the directory. Without the last,
ext4 lost the rename in ten of ten power cuts. Of several files, all are on their way to the disk before the first is waited for:
a file system with a journal then writes it once for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from mulligan.errors import DurabilityLost
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory, write_all
from mulligan.safefs.platform import HERE

#: A file to be: its name, its bytes in parts, and what to call it when the disk does not confirm it.
NewFile = tuple[bytes, Iterable[bytes], str]
# What is longer is on its way already, and the hint would cost it its place in memory.
_SHORT = 1 << 20


def sync(fd: int, what: str) -> None:
    """Makes an open file or directory durable."""
    try:
        syscalls.calls.fsync(fd)
    except OSError as error:
        raise DurabilityLost(
            f"The disk did not confirm the write of {what} ({error.strerror}). Not saved. Earlier checkpoints are safe.",
            hint="Check the disk, then run: mulligan check",
        ) from error


def sync_filesystem(directory: Directory, what: str) -> None:
    """Makes everything written so far on a directory's file system durable, in one call."""
    try:
        syscalls.calls.syncfs(directory.fd)
    except OSError as error:
        raise DurabilityLost(
            f"The disk did not confirm the write of {what} ({error.strerror}). Not saved. Earlier checkpoints are safe.",
            hint="Check the disk, then run: mulligan doctor",
        ) from error


def write_synced(directory: Directory, name: bytes, parts: Iterable[bytes], what: str, mode: int = 0o600) -> None:
    """Creates a file, writes it and makes its bytes (not yet its name) durable; leaves nothing behind on failure."""
    write_all_synced(directory, [(name, parts, what)], mode)


def write_all_synced(directory: Directory, files: Iterable[NewFile], mode: int = 0o600) -> None:
    """Does the same for several files, which are waited for together; the parts of one are asked for when those before are written."""
    made: list[tuple[bytes, int, str]] = []
    short: list[int] = []
    try:
        try:
            for name, parts, what in files:
                fd = directory.create(name, mode)
                made.append((name, fd, what))
                size = 0
                for part in parts:
                    write_all(fd, part)
                    size += len(part)
                if size <= _SHORT:
                    short.append(fd)
            if len(made) > 1:
                for fd in short:
                    with suppress(OSError):  # only a hint that begins the write; the sync below makes it durable
                        HERE.advise(fd, 0, 0, HERE.not_needed)
            for _, fd, what in made:
                sync(fd, what)
        finally:
            for _, fd, _ in made:
                syscalls.calls.close(fd)
    except BaseException:
        for name, _, _ in made:
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


def make_directories(path: str, mode: int) -> None:
    """Makes a directory with this mode, and what is missing above it with the usual one, durably."""
    above = os.path.dirname(path)
    if not os.path.isdir(above):
        make_directories(above, 0o755)
    with Directory.open(above) as parent, suppress(FileExistsError):
        parent.mkdir(os.fsencode(os.path.basename(path)), mode)
        sync(parent.fd, "a directory of the workspace")


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
