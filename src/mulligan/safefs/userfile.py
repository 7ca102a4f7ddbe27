"""
Single files outside the workspace: the user's configuration, and reports for the user.

A link to configuration is followed on purpose: people keep it in a repository and link it into place. What is read
must still be a regular file of bounded size, so that a FIFO or a device standing there cannot hang a command.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory, NotRegular, read_all, write_all

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def read_user_file(path: str, *, limit: int) -> bytes | None:
    """Returns the first `limit` bytes of a regular file, None if nothing stands there; NotRegular for anything else."""
    try:
        return read_user_part(path, 0, limit)
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_user_part(path: str, begin: int, end: int) -> bytes:
    """Returns the bytes of a regular file from one position to another, as far as it has them."""
    fd = syscalls.calls.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NotRegular(path)
        os.lseek(fd, begin, os.SEEK_SET)
        return read_all(fd, end - begin)
    finally:
        syscalls.calls.close(fd)


def append_private_line(directory: str, name: str, line: bytes, *, limit: int) -> None:
    """Appends one line to a file that only its owner can read, in one call; over the limit its older half goes."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    with Directory.open(os.path.realpath(directory)) as into:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = syscalls.calls.open(os.fsencode(name), flags, 0o600, dir_fd=into.fd)
        try:
            if os.fstat(fd).st_size > limit:
                kept = os.pread(fd, limit, os.fstat(fd).st_size - limit // 2).partition(b"\n")[2]
                syscalls.calls.ftruncate(fd, 0)
                write_all(fd, kept)
            write_all(fd, line)
        finally:
            syscalls.calls.close(fd)


def remove_user_file(path: str) -> None:
    """Removes a file of ours, if it is there."""
    folder, name = os.path.split(path)
    with suppress(FileNotFoundError), Directory.open(folder) as directory:
        directory.unlink(os.fsencode(name), missing_ok=True)


def write_private_file(directory: str, name: str, data: bytes, *, most: int = 0) -> str:
    """
    Writes a new file that only its owner can read, making the directory if need be, and returns its path.

    With `most`, only the last so many files of the directory stay, in the order of their names.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    with Directory.open(os.path.realpath(directory)) as into:
        fd = into.create(os.fsencode(name), 0o600)
        try:
            write_all(fd, data)
        finally:
            syscalls.calls.close(fd)
        for old in sorted(into.names())[:-most] if most else ():
            into.unlink(old, missing_ok=True)
    return os.path.join(directory, name)
