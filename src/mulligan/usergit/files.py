"""
Untrusted files of a repository.

Promise: only regular files are read, never through a link, never more than the given limit, and never waiting for
a pipe. Whatever goes wrong, the answer is None; `noticing` collects what went wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mulligan.model.gitconfig import parse_git_config
from mulligan.safefs.directory import Directory, read_all

_CONFIG_LIMIT = 1 << 20

_noticed: ContextVar[list[OSError] | None] = ContextVar("noticed", default=None)


@contextmanager
def noticing() -> Iterator[list[OSError]]:
    """Yields a list to which everything is added that goes wrong inside and is answered by None."""
    troubles: list[OSError] = []
    token = _noticed.set(troubles)
    try:
        yield troubles
    finally:
        _noticed.reset(token)


def notice(error: Exception) -> None:
    """Notes for `noticing` that something could not be looked at."""
    troubles = _noticed.get()
    if troubles is not None and isinstance(error, OSError):
        troubles.append(error)


def read_file(root: Directory, path: bytes, *, limit: int) -> bytes | None:
    """Returns the bytes of a file below a directory; None when it is missing, odd, unreadable or larger than the limit."""
    parent, _, name = path.rpartition(b"/")
    try:
        with root.descend(parent) as directory, directory.reading(name) as fd:
            return read_open(fd, limit)
    except (OSError, ValueError) as error:  # ValueError: a name with NUL in it
        notice(error)
        return None


def read_open(fd: int, limit: int) -> bytes | None:
    """Returns what an open file holds, None when that is more than the limit."""
    size = os.fstat(fd).st_size
    data = read_all(fd, limit + 1, expect=size) if size <= limit else None
    return data if data is not None and len(data) <= limit else None


def open_directory(path: bytes) -> Directory | None:
    """Opens a directory that a repository's file names, links resolved; None when there is none."""
    try:
        return Directory.open(os.path.realpath(path))
    except (OSError, ValueError) as error:
        notice(error)
        return None


def status(root: Directory, path: bytes) -> os.stat_result | None:
    """Returns the status of a path below a directory, of a link itself; None when nothing is there."""
    try:
        return os.stat(path, dir_fd=root.fd, follow_symlinks=False)
    except (OSError, ValueError) as error:
        notice(error)
        return None


def names_in(root: Directory, path: bytes = b"") -> list[bytes]:
    """Returns the names in a directory, none where there is no such directory."""
    try:
        with root.descend(path) as directory:
            return directory.names()
    except OSError as error:
        notice(error)
        return []


def read_config(common: Directory, name: bytes = b"config") -> list[tuple[str, str]] | None:
    """Returns the settings of a repository in the file's order, those without a value empty; None where they cannot be read."""
    data = read_file(common, name, limit=_CONFIG_LIMIT)
    if data is None:
        return None
    return [(key, value or "") for key, value in parse_git_config(data.decode("utf-8", "surrogateescape"))]
