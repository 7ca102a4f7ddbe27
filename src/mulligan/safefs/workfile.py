"""
Single files of the workspace, for an agent's own file tools and for what doors put there.

A file is put in place whole or not at all, keeps its permission bits, and no link is followed on the way to it; the caller has
resolved links that lead to a place inside. A restore does not write this way: it is planned and journalled.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from mulligan.safefs import syscalls
from mulligan.safefs.directory import CREATE_FLAGS, Directory, random_name, write_all


def read_work_file(root: str, path: bytes) -> bytes:
    """Returns the bytes of a regular file; FileNotFoundError, IsADirectoryError or NotRegular otherwise."""
    parent, _, name = path.rpartition(b"/")
    with Directory.open(root) as top, top.descend(parent) as directory:
        if stat.S_ISDIR(directory.stat(name).st_mode):
            raise IsADirectoryError(os.fsdecode(path))
        return directory.read(name)


def write_work_file(root: str, path: bytes, data: bytes) -> None:
    """Puts a file in place, making the directories above it; an existing one keeps its permission bits."""
    parent, _, name = path.rpartition(b"/")
    with _made(root, parent) as directory:
        mode = _mode_of(directory, name)
        # The name is one that checkpoints leave out, should a kill leave it behind.
        temporary = b".mulligan-%s-0" % random_name(6).encode()
        fd = syscalls.calls.open(temporary, CREATE_FLAGS, 0o666, dir_fd=directory.fd)
        try:
            try:
                write_all(fd, data)
                if mode is not None:
                    syscalls.calls.fchmod(fd, mode)
            finally:
                syscalls.calls.close(fd)
            directory.rename(temporary, name)
        except BaseException:
            directory.unlink(temporary, missing_ok=True)
            raise


def make_work_directory(root: str, path: bytes) -> None:
    """Makes a directory and those above it, with the permission bits the umask gives."""
    _made(root, path).close()


def _made(root: str, path: bytes) -> Directory:
    here = Directory.open(root)
    for name in path.split(b"/") if path else ():
        with here:
            with suppress(FileExistsError):
                syscalls.calls.mkdir(name, 0o777, dir_fd=here.fd)
            below = here.child(name)
        here = below
    return here


def _mode_of(directory: Directory, name: bytes) -> int | None:
    try:
        status = directory.stat(name)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(os.fsdecode(name))
    return stat.S_IMODE(status.st_mode) & 0o777 if stat.S_ISREG(status.st_mode) else None
