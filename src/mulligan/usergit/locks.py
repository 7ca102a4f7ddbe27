"""
Git's lock files, taken so that a crash leaves no doubt about whose they are; and reflogs.

Git takes a lock by creating `<file>.lock`, and lets go of it by renaming it into place. Here the new content is first
written and synced under a name of our own at the top of the git directory, and then given the lock's name as a second one:
that fails if the lock is held, and as long as both names are the same file, the lock is ours and can be released after
a crash. A lock that is not ours is waited for, never removed.
LIMIT: a file system without hard links has no such locks; git is not moved there.

A reflog gets one line behind its end, once, however often a move is taken up again. It is a help, not a promise: one
that cannot be written does not stop a move.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from typing import NamedTuple

from mulligan.errors import Busy, GitNotMoved
from mulligan.model.objects import AUTHOR
from mulligan.model.paths import to_text
from mulligan.safefs import syscalls
from mulligan.safefs.directory import NO_LINK, Directory, append
from mulligan.safefs.durable import sync, write_synced
from mulligan.usergit.files import read_config, status
from mulligan.usergit.repository import Repository

_ABSENT = (FileNotFoundError, NotADirectoryError)


class GitFile(NamedTuple):
    """A file of a git directory: the directory, and the file's path below it."""

    root: Directory
    path: bytes

    @property
    def name(self) -> bytes:
        """The file's own name."""
        return self.path.rpartition(b"/")[2]

    def parent(self) -> Directory:
        """Opens the directory that holds it, never through a link; to be closed."""
        return self.root.descend(self.path.rpartition(b"/")[0])


class Lock:
    """The lock of one file: content staged under a name of ours, and the lock's own name."""

    def __init__(self, place: GitFile, staged: bytes) -> None:
        self.place = place
        self._staged = staged

    @property
    def _lock_name(self) -> bytes:
        return self.place.name + b".lock"

    def stage(self, content: bytes, mode: int) -> None:
        """Writes the new content durably under our own name, which identifies the lock after a power cut."""
        root = self.place.root
        root.unlink(self._staged, missing_ok=True)
        write_synced(root, self._staged, [content], to_text(self.place.path), mode)
        sync(root.fd, to_text(self.place.path))

    def take(self, *, until: float) -> None:
        """Takes the lock; raises Busy when another holds it beyond a time of the monotonic clock."""
        pause = 0.002
        while True:
            try:
                with self.place.parent() as parent:
                    self.place.root.link(self._staged, self._lock_name, to=parent)
            except FileExistsError:
                if self.is_ours():
                    return
                if time.monotonic() >= until:
                    raise self.busy() from None
            except OSError as error:
                if error.errno not in NO_LINK:
                    raise
                raise GitNotMoved(
                    "The file system of the git directory has no hard links, so git cannot be moved safely. Nothing was changed.",
                    hint="Restore the files alone",
                ) from error
            else:
                return
            time.sleep(pause)
            pause = min(pause * 2, 0.05)

    def busy(self) -> Busy:
        """Returns the error for a lock that another process holds."""
        lock = to_text(self.place.path + b".lock")
        return Busy(
            f"Git is at work in this repository: {lock} exists. Nothing was changed.",
            hint=f"Wait for it. If no git runs any more, remove .git/{lock} and try again",
        )

    def is_ours(self) -> bool:
        """Returns whether the lock is held, and by us."""
        mine, held = status(self.place.root, self._staged), self.held()
        return mine is not None and held is not None and (mine.st_dev, mine.st_ino) == (held.st_dev, held.st_ino)

    def held(self) -> os.stat_result | None:
        """Returns the status of the lock file, None when the lock is free."""
        try:
            with self.place.parent() as parent:
                return parent.stat(self._lock_name)
        except _ABSENT:
            return None

    def put_in_place(self) -> None:
        """Lets go of the lock by putting the new content in the file's place, durably."""
        with self.place.parent() as parent:
            parent.rename(self._lock_name, self.place.name)
            sync(parent.fd, to_text(self.place.path))

    def remove_file(self) -> None:
        """Removes the locked file, durably; the lock stays."""
        with self.place.parent() as parent:
            parent.unlink(self.place.name, missing_ok=True)
            sync(parent.fd, to_text(self.place.path))

    def let_go(self, *, confirm: bool = True) -> None:
        """
        Removes our lock, durably with `confirm`, and the staged file (`Mover` syncs it). Idempotent.

        In this order: without the staged file, a lock that survives a power cut could not be recognised as ours.
        """
        if self.is_ours():
            with suppress(*_ABSENT), self.place.parent() as parent:
                parent.unlink(self._lock_name, missing_ok=True)
                if confirm:
                    sync(parent.fd, to_text(self.place.path))
        self.place.root.unlink(self._staged, missing_ok=True)


_NULL = "0" * 40
_TAIL = 1 << 14


def reflog_line(old: str, new: str, when: int, about: str) -> bytes:
    """Returns one line of a reflog."""
    message = about.replace("\n", " ").encode("utf-8", "replace")
    return b"%s %s %s %d +0000\t%s\n" % ((old or _NULL).encode(), (new or _NULL).encode(), AUTHOR, when, message)


def write_reflog(repo: Repository, place: GitFile, line: bytes) -> None:
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
    settings = dict(read_config(repo.common) or ())
    return (settings.get("core.logallrefupdates", "true") or "true").lower() not in ("false", "no", "off", "0")


def make_parents(place: GitFile) -> None:
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


def clear_empty(place: GitFile) -> None:
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
