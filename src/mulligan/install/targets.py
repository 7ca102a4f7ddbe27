"""
What can be installed, for whom, and where it goes.

A target is a folder of files that ships with the package and has a place below a project or below a user's home.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from mulligan.errors import UserError
from mulligan.safefs.directory import Directory, NotRegular
from mulligan.safefs.errors import typed

PROJECT, USER = "project", "user"
SCOPES = (PROJECT, USER)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class InstallTarget(NamedTuple):
    """A folder that ships with the package: where it is, what it is for, and where it goes below a project or a home."""

    name: str
    summary: str
    source: str
    place: str

    def files(self) -> dict[str, bytes]:
        """Returns the files of the folder, by their path in it."""
        top = os.path.join(_PACKAGE, self.source)
        found: dict[str, bytes] = {}
        for folder, below, names in os.walk(top):
            below[:] = sorted(name for name in below if name != "__pycache__")
            with Directory.open(folder) as directory:
                for name in sorted(names):
                    path = os.path.relpath(os.path.join(folder, name), top)
                    found[path] = directory.read(os.fsencode(name))
        return found


class Home(NamedTuple):
    """A user's home, and the directories in it that are somewhere else instead."""

    path: str
    moved: Mapping[str, str] = {}

    def at(self, place: str) -> str:
        """Returns the whole path of a place in it, links followed: people link their settings into place."""
        first, _, rest = place.partition("/")
        return os.path.realpath(os.path.join(self.moved.get(first) or os.path.join(self.path, first), rest))


class Destination(NamedTuple):
    """Where a target goes: a directory that exists, and the path from there, which is walked through no link."""

    root: str
    path: str

    @property
    def directory(self) -> str:
        """The whole path, for people."""
        return os.path.join(self.root, self.path)


TARGETS: dict[str, InstallTarget] = {
    target.name: target
    for target in (
        InstallTarget(
            "claude-skill",
            "the checkpoint-manager skill, for agents that read .claude/skills",
            "plugin/skills/checkpoint-manager",
            ".claude/skills/checkpoint-manager",
        ),
    )
}


@contextmanager
def only_plain_files(directory: str) -> Iterator[None]:
    """Turns what the system refuses below a destination into an error of ours."""
    try:
        yield
    except OSError as error:
        if isinstance(error, NotRegular | NotADirectoryError | IsADirectoryError) or error.errno == errno.ELOOP:
            raise UserError(
                f"{directory}, or something in it or on the way to it, is no plain file or directory. It was left alone.",
                hint="Links are not followed below a project. Move it, or install for yourself: --scope user",
            ) from error
        raise typed(error) from error


def destination(target: InstallTarget, scope: str, *, project: str, home: Home) -> Destination:
    """Returns where a target goes."""
    return place_for(target.place, scope, project=project, home=home)


def place_for(place: str, scope: str, *, project: str, home: Home) -> Destination:
    """
    Returns where a path below a project or a home is.

    Below a home links are followed, and what the person says about it is. Below a project they are not: a repository that
    another person made must not lead a write elsewhere.
    """
    if scope == PROJECT:
        return Destination(project, place)
    root = full = home.at(place)
    while not os.path.isdir(root):
        root = os.path.dirname(root)
    return (
        Destination(root, os.path.relpath(full, root))
        if root != full
        else Destination(os.path.dirname(full), os.path.basename(full))
    )
