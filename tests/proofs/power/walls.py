"""
What a machine can run out of, for real: bytes and inodes of a small disk, and what one process may have.

A disk is filled with files that have no name: they are there until the last descriptor is closed, and nothing has to be
cleaned up. Each wall is put up in front of one operation and taken away after it.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import disks

_SIZE = 16 << 20
_BLOCK = 4096
_INODES = 1200


class Wall(Protocol):
    """Something to run out of."""

    #: Whether the process is to be one of its own, because the limit stays with it.
    alone: bool

    def build(self, image: Path, point: Path) -> None:
        """Makes the disk and mounts it."""

    def standing(self, place: Path, rng: random.Random, span: float) -> contextmanager[int]:
        """Puts the wall up; `span` is how much is left at the most. Yields how much is left."""


def fill(place: Path, left: int) -> tuple[list[int], int]:
    """Fills a disk up to so many bytes; returns the descriptors that hold it, and what is left."""
    handle = os.open(place, os.O_TMPFILE | os.O_RDWR, 0o600)
    piece = 1 << 40
    while piece >= _BLOCK:
        free = os.fstatvfs(handle)
        surplus = free.f_bavail * free.f_frsize - left
        if surplus < _BLOCK:
            break
        piece = min(piece, surplus // _BLOCK * _BLOCK)
        try:
            os.posix_fallocate(handle, os.fstat(handle).st_size, piece)
        except OSError:
            piece //= 2  # what was just removed counts as free before it can be had: here and there smaller pieces can
            os.fsync(handle)
    free = os.fstatvfs(handle)
    return [handle], free.f_bavail * free.f_frsize


class _Disk:
    alone = False

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def build(self, image: Path, point: Path) -> None:
        """A disk of sixteen megabytes."""
        if self._kind == "tmpfs":
            options = f"size={_SIZE},nr_inodes={_INODES},mode=0755"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", point], check=True)
            return
        disks.make("ext4", image, _SIZE)
        subprocess.run(["tune2fs", "-m", "0", image], check=True, capture_output=True, env=disks.environment())
        disks.mount(image, point)
        os.rmdir(point / "lost+found")


class Bytes(_Disk):
    """A disk with no room."""

    @contextmanager
    def standing(self, place: Path, rng: random.Random, span: float) -> Iterator[int]:
        """Leaves some bytes."""
        held, left = fill(place, int(span * rng.random()))
        try:
            yield left
        finally:
            for handle in held:
                os.close(handle)


class Inodes(_Disk):
    """A disk with room, and no more files."""

    @contextmanager
    def standing(self, place: Path, rng: random.Random, span: float) -> Iterator[int]:
        """Leaves some inodes."""
        left = int(span * rng.random() ** 1.5)
        held = []
        try:
            while os.statvfs(place).f_favail > left:
                held.append(os.open(place, os.O_TMPFILE | os.O_RDWR, 0o600))
            yield os.statvfs(place).f_favail
        finally:
            for handle in held:
                os.close(handle)


class _Limit(_Disk):
    alone = True
    limit = resource.RLIMIT_FSIZE

    def __init__(self) -> None:
        super().__init__("tmpfs")

    @contextmanager
    def standing(self, place: Path, rng: random.Random, span: float) -> Iterator[int]:
        """Limits the process from here on."""
        left = self.least() + int(span * rng.random())
        resource.setrlimit(self.limit, (left, resource.getrlimit(self.limit)[1]))
        yield left

    def least(self) -> int:
        """What every process needs to begin with."""
        return 0


class FileSize(_Limit):
    """No file may grow beyond some size."""


class Descriptors(_Limit):
    """Few files may be open at a time."""

    limit = resource.RLIMIT_NOFILE

    def least(self) -> int:
        """Those that are open already."""
        return len(os.listdir("/proc/self/fd"))


class Memory(_Limit):
    """Little memory may be had."""

    limit = resource.RLIMIT_AS

    def least(self) -> int:
        """What is in use already."""
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


#: By name: the wall, and how much is left at the most in the beginning.
WALLS: dict[str, tuple[Wall, float]] = {
    "bytes-ext4": (Bytes("ext4"), 600_000.0),
    "bytes-tmpfs": (Bytes("tmpfs"), 600_000.0),
    "inodes": (Inodes("tmpfs"), 30.0),
    "file-size": (FileSize(), 200_000.0),
    "descriptors": (Descriptors(), 30.0),
    "memory": (Memory(), 4_000_000.0),
}
NEEDS_DISK = frozenset({"bytes-ext4"})
