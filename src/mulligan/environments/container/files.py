"""
Reading, writing and listing files inside a container.

A path is followed name by name, links included, and must end below the working directory: a link that leads out of it is
refused like a `..` that does. All of it happens inside the container's own file system.

RACE: a link that a process in the container puts in place between the look and the read is followed; it leads to another
file of the same container, never to this machine's.
"""

from __future__ import annotations

import errno
import posixpath
from typing import NamedTuple

from mulligan.environments.base import escaping, matches, path_below
from mulligan.environments.container import archive
from mulligan.environments.container.engine import Engine
from mulligan.environments.container.trouble import Missing

_MOST_LINKS = 40


class ContainerPath(NamedTuple):
    """Where a path leads: the last directory that exists, and the names below it that do not."""

    directory: str
    name: str
    missing: tuple[str, ...]
    exists: bool
    is_directory: bool

    @property
    def path(self) -> str:
        """The whole path."""
        return posixpath.join(self.directory, *self.missing, self.name)


def read_file(engine: Engine, container: str, workdir: str, path: str) -> bytes:
    """Returns the bytes of a file below the working directory."""
    place = find(engine, container, workdir, path)
    if not place.exists:
        raise FileNotFoundError(path)
    if place.is_directory:
        raise IsADirectoryError(path)
    try:
        with engine.archive(container, place.path) as pieces:
            return archive.read_regular(pieces, path)
    except Missing:
        raise FileNotFoundError(path) from None


def write_file(engine: Engine, container: str, workdir: str, path: str, data: bytes) -> None:
    """Writes a file below the working directory; it keeps its owner and mode, a new one gets its directory's owner."""
    place = find(engine, container, workdir, path)
    if place.is_directory or not place.name:
        raise IsADirectoryError(path)
    with engine.archive(container, place.path if place.exists else place.directory) as pieces:
        owner = archive.owner_of_first(pieces)
    if not place.exists:
        owner = owner._replace(mode=0o644)
    made = [posixpath.join(*place.missing[: count + 1]) for count in range(len(place.missing))]
    packed = archive.pack(made, posixpath.join(*place.missing, place.name), data, owner)
    engine.unpack(container, place.directory, packed)


def list_files(engine: Engine, container: str, workdir: str, pattern: str) -> list[str]:
    """Returns the files below the working directory whose path matches a pattern, relative and sorted."""
    root = find(engine, container, workdir, "")
    if not root.exists:
        return []
    with engine.archive(container, root.path.rstrip("/") + "/.") as pieces:  # so that names begin below it
        names = archive.file_names(pieces)
    wanted = [part for part in pattern.split("/") if part not in {"", "."}]
    return [name for name in names if ".git" not in (parts := name.split("/")) and matches(parts, wanted)]


def find(engine: Engine, container: str, workdir: str, path: str) -> ContainerPath:
    """Returns where a path leads, links followed; PermissionError where that is not below the working directory."""
    relative = path_below(workdir, path)
    root = _follow(engine, container, posixpath.normpath(workdir))
    if not relative:
        return root
    place = _follow(engine, container, posixpath.join(root.path, relative))
    if not place.path.startswith(root.path.rstrip("/") + "/"):
        raise escaping(path)
    return place


def _follow(engine: Engine, container: str, path: str) -> ContainerPath:
    todo = [part for part in path.split("/") if part]
    here, links, is_directory = "/", 0, True
    while todo:
        name = todo.pop(0)
        if not is_directory:
            raise NotADirectoryError(path)
        there = posixpath.join(here, name)
        status = engine.look(container, there)
        if status is None:
            return ContainerPath(here, (name, *todo)[-1], tuple((name, *todo)[:-1]), exists=False, is_directory=False)
        if status.is_link:
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, "Too many levels of symbolic links", path)
            target = posixpath.normpath(posixpath.join(here, status.leads_to))
            todo, here, is_directory = [*(part for part in target.split("/") if part), *todo], "/", True
            continue
        here, is_directory = there, status.is_directory
    return ContainerPath(posixpath.dirname(here), posixpath.basename(here), (), exists=True, is_directory=is_directory)
