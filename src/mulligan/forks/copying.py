"""
Copies and removes whole directories. Copies by reflink where the file system has them, else byte by byte.

Nothing is shared that a write could change: a reflink is copied by the file system at the first write, and no file of a
workspace gets a second name. Links are copied as links and never followed; other file systems are not entered.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from mulligan.safefs import syscalls
from mulligan.safefs.directory import CHUNK, Directory, write_all
from mulligan.safefs.errors import FULL
from mulligan.safefs.platform import HERE

REFLINK, COPY = "reflink", "copy"
_PRIVATE = 0o700


class Copier:
    """Copies files, and remembers whether the file system shares blocks."""

    def __init__(self, *, told: Callable[[int], None] | None = None) -> None:
        self._clones = HERE.can.clone
        self._told = told
        self.shared = False  # whether any copy shares its blocks
        self.files = 0
        self.left_out: list[tuple[str, str]] = []  # what could not be copied, and why

    @property
    def backend(self) -> str:
        """How files are copied: `reflink` or `copy`."""
        return REFLINK if self.shared else COPY

    @property
    def may_clone(self) -> bool:
        """Whether a reflink is worth a try: none has failed yet."""
        return self._clones

    def clone(self, source: int, target: Directory, name: bytes) -> int:
        """Makes a new file a reflink of an open one; returns its descriptor, to read, or -1 where that is not possible."""
        if not self._clones:
            return -1
        try:
            syscalls.calls.clone(source, name, dir_fd=target.fd)
        except FileExistsError:
            raise
        except OSError:
            self._clones = False  # another disk, or a file system without reflinks: the next file fails the same way
            return -1
        self.shared = True
        try:
            return target.open_file(name)
        except PermissionError:  # of another owner, whose bits it has: a copy is written instead
            target.unlink(name)
            return -1

    def count(self) -> None:
        """Counts a file, and reports how many there are."""
        self.files += 1
        if self._told is not None:
            self._told(self.files)

    def copy(self, source: Directory, target: Directory, name: bytes, path: str) -> None:
        """Copies what stands at a name, with all below it; what is there already stays."""
        try:
            self._copy(source, target, name, path)
        except OSError as error:
            if error.errno in FULL:
                raise
            self.left_out.append((path, error.strerror or str(error)))

    def _copy(self, source: Directory, target: Directory, name: bytes, path: str) -> None:
        try:
            found = source.stat(name)
        except FileNotFoundError:
            return  # it went since it was seen
        if stat.S_ISDIR(found.st_mode):
            self._directory(source, target, name, path)
        elif stat.S_ISLNK(found.st_mode):
            with suppress(FileExistsError):
                target.symlink(source.readlink(name), name)
        elif stat.S_ISREG(found.st_mode):
            self._file(source, target, name)
        else:
            self.left_out.append((path, "not a file"))

    def _file(self, source: Directory, target: Directory, name: bytes) -> None:
        with source.reading(name) as old:
            found, new = os.fstat(old), -1
            try:
                new = self.clone(old, target, name)
                if new < 0:
                    new = target.create(name)
                    while chunk := syscalls.calls.read(old, CHUNK):
                        write_all(new, chunk)
                syscalls.calls.fchmod(new, stat.S_IMODE(found.st_mode))
                syscalls.calls.utime(new, ns=(found.st_atime_ns, found.st_mtime_ns))
            except FileExistsError:
                return
            finally:
                if new >= 0:
                    syscalls.calls.close(new)
        self.count()

    def _directory(self, source: Directory, target: Directory, name: bytes, path: str) -> None:
        with suppress(FileExistsError):
            target.mkdir(name, _PRIVATE)
        with source.child(name) as old, target.child(name) as new:
            found = os.fstat(old.fd)
            if found.st_dev != os.fstat(source.fd).st_dev:
                self.left_out.append((path, "another file system"))
                return
            for each in old.names():
                self.copy(old, new, each, f"{path}/{os.fsdecode(each)}")
            syscalls.calls.fchmod(new.fd, stat.S_IMODE(found.st_mode))


def remove_all(home: Directory, name: bytes) -> None:
    """
    Removes a directory with all below it, read-only directories too; what is gone is gone.

    Never through a link, and never on another file system: a mount point below makes it fail with OSError.
    """
    try:
        opened = home.child(name)
    except FileNotFoundError:
        return
    with opened as below:
        if os.fstat(below.fd).st_dev != os.fstat(home.fd).st_dev:
            raise OSError(errno.EXDEV, f"{os.fsdecode(name)} is on another file system")
        syscalls.calls.fchmod(below.fd, _PRIVATE)
        for inner in below.names():
            try:
                below.unlink(inner, missing_ok=True)
            except (IsADirectoryError, PermissionError):
                remove_all(below, inner)
    home.rmdir(name)
