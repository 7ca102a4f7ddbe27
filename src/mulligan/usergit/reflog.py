"""
Reflogs: what git remembers of where HEAD and branches stood.

One line is written behind the end, once, however often a move is taken up again. A reflog is a help, not a promise: one
that cannot be written does not stop a move.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from mulligan.model.gitconfig import parse_git_config
from mulligan.model.objects import AUTHOR
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory, append
from mulligan.safefs.durable import sync
from mulligan.scan.git.files import read_file, status
from mulligan.scan.git.repository import Repository
from mulligan.usergit.locks import Place

_NULL = "0" * 40
_CONFIG_LIMIT = 1 << 20
_TAIL = 1 << 14


def reflog_line(old: str, new: str, when: int, about: str) -> bytes:
    """Returns one line of a reflog."""
    message = about.replace("\n", " ").encode("utf-8", "replace")
    return b"%s %s %s %d +0000\t%s\n" % ((old or _NULL).encode(), (new or _NULL).encode(), AUTHOR, when, message)


def write_reflog(repo: Repository, place: Place, line: bytes) -> None:
    """Writes a line behind the end of a reflog unless it is there; makes the reflog if the repository keeps any."""
    clear_empty(place)
    if status(place.root, place.path) is None:
        if not _keeps_logs(repo):
            return
        make_parents(place)
        with place.parent() as parent, suppress(FileExistsError):  # git made it first
            syscalls.calls.close(parent.create(place.name, file_mode(repo)))
    with place.parent() as parent:
        tail = _tail(parent, place.name)
        if line in tail:
            return
        # A full disk or a crash may have left half a line; it must not swallow this one.
        append(parent, place.name, (b"" if not tail or tail.endswith(b"\n") else b"\n") + line)


def _tail(parent: Directory, name: bytes) -> bytes:
    with parent.reading(name) as fd:
        return os.pread(fd, _TAIL, max(0, os.fstat(fd).st_size - _TAIL))


def _keeps_logs(repo: Repository) -> bool:
    data = read_file(repo.common, b"config", limit=_CONFIG_LIMIT) or b""
    settings = dict(parse_git_config(data.decode("utf-8", "surrogateescape")))
    return (settings.get("core.logallrefupdates", "true") or "true").lower() not in ("false", "no", "off", "0")


def make_parents(place: Place) -> None:
    """Makes the directories above a file, like the one that holds all refs; FileExistsError where a file is in the way."""
    like = place.root.stat(b"refs") if status(place.root, b"refs") is not None else os.fstat(place.root.fd)
    here = Directory(os.dup(place.root.fd))
    try:
        for name in place.path.split(b"/")[:-1]:
            if not here.exists(name):
                try:
                    here.mkdir(name, like.st_mode & 0o7777)
                    sync(here.fd, "a directory of the repository")
                except FileExistsError:
                    pass  # git made it first
            below = here.child(name)
            here.close()
            here = below
    finally:
        here.close()


def clear_empty(place: Place) -> None:
    """Removes the empty directories that deleted branches leave where a file shall stand; others stay."""
    found = status(place.root, place.path)
    if found is None or not stat.S_ISDIR(found.st_mode):
        return
    paths = [place.path]
    for path in paths:  # grows while it is walked: each directory before those in it
        with place.root.descend(path) as here:
            paths += [path + b"/" + name for name in here.names() if stat.S_ISDIR(here.stat(name).st_mode)]
    for path in reversed(paths):
        with place._replace(path=path).parent() as parent, suppress(OSError):  # not empty: the move says so
            parent.rmdir(path.rpartition(b"/")[2])


def file_mode(repo: Repository) -> int:
    """Returns the permission bits of a new file in the git directory: those of HEAD."""
    return repo.git_dir.stat(b"HEAD").st_mode & 0o666
