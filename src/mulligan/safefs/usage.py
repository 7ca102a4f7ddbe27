"""What a directory takes on the disk, as `du` counts it: whole blocks, directories too, and each file once."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from mulligan.safefs.directory import Directory

_SECTOR = 512


def on_disk(status: os.stat_result) -> int:
    """Returns the bytes that a file or directory takes on the disk."""
    return status.st_blocks * _SECTOR


def disk_usage(directory: Directory) -> int:
    """Returns what a directory and all below it take; what comes and goes at the same time counts or does not."""
    return on_disk(os.fstat(directory.fd)) + _below(directory, set())


def _below(directory: Directory, seen: set[tuple[int, int]]) -> int:
    total = 0
    for name in directory.names():
        with suppress(FileNotFoundError):
            status = directory.stat(name)
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                if (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
            total += on_disk(status)
            if stat.S_ISDIR(status.st_mode):
                with directory.child(name) as below:
                    total += _below(below, seen)
    return total


def whole_blocks(size: int, directory: Directory) -> int:
    """Returns what a new file of so many bytes takes on the disk of a directory."""
    block = os.fstatvfs(directory.fd).f_frsize
    return -(-size // block) * block
