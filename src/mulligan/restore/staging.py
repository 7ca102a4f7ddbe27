"""
Staging: every new file is complete on the disk before the first old one is touched.

A damaged object, a full disk, a directory that may not be written: all of them show here, while nothing has changed yet.
A staged file takes over owner, ACL and extended attributes of the one it will replace; what cannot be taken over is
returned as a note.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, Protocol

from mulligan.errors import NoRoom, PlanStale, UserError
from mulligan.model.objects import BLOB
from mulligan.model.paths import parent_of, to_text
from mulligan.model.plan import Action
from mulligan.restore.layout import Layout, temporary_name
from mulligan.restore.place import Handles
from mulligan.safefs import seam
from mulligan.safefs.directory import Directory, write_all
from mulligan.safefs.durable import sync, sync_filesystem

_SYNC_EACH = 16


class BlobSource(Protocol):
    """What staging needs of the store."""

    def read(self, oid: bytes, kind: bytes) -> bytes:
        """Returns an object's bytes, verified."""

    def stream(self, oid: bytes) -> Iterator[bytes]:
        """Yields a blob piece by piece, verified at the end."""

    def kind_and_size(self, oid: bytes) -> tuple[bytes, int]:
        """Returns an object's kind and size."""


class Stage(NamedTuple):
    """What was staged: the inode of each temporary, and attributes that could not be kept."""

    inodes: dict[int, int]
    notes: dict[bytes, str]


class Stager:
    """Writes the temporaries of a plan."""

    def __init__(self, root: Directory, handles: Handles, store: BlobSource, token: str, layout: Layout) -> None:
        self._root = root
        self._handles = handles
        self._store = store
        self._token = token
        self._layout = layout
        self._notes: dict[bytes, str] = {}

    def run(self, progress: Callable[[int, int], None] | None = None) -> Stage:
        """Stages every file; on any failure removes what it staged and raises, with the workspace unchanged."""
        self._check_room()
        self._check_access()
        inodes: dict[int, int] = {}
        places = self._layout.places
        each = len(places) <= _SYNC_EACH
        try:
            for done, (number, action) in enumerate(places):
                inodes[number] = self._one(number, action, durable=each)
                if progress is not None and not done & 127:
                    progress(done, len(places))
            if places and not each:
                sync_filesystem(self._root, "the restored files")
        except OSError as error:
            self.clear()
            raise _refusal(error) from error
        except BaseException:
            self.clear()
            raise
        return Stage(inodes, self._notes)

    def clear(self) -> None:
        """Removes the temporaries of this plan."""
        for number, action in self._layout.places:
            with suppress(OSError):  # a stage directory that is gone holds no temporary
                self._handles.get(self._layout.stage_of(action.path)).unlink(temporary_name(self._token, number))

    def _check_room(self) -> None:
        sizes = [self._store.kind_and_size(a.after.oid)[1] for _, a in self._layout.places if a.after is not None]
        free = os.fstatvfs(self._root.fd)
        need = sum(size + free.f_frsize for size in sizes)
        have = free.f_bavail * free.f_frsize
        if need > have:
            raise NoRoom(
                f"The restore needs {need} bytes and the disk has {have}. Nothing was changed.",
                hint="Free space, or restore some paths only: mulligan restore REF -- PATH",
            )

    def _check_access(self) -> None:
        layout = self._layout
        touched = {parent_of(a.path) for _, a in (*layout.removes, *layout.rmdirs)} | {layout.stage_of(a.path) for _, a in layout.places}
        for path in sorted(touched):
            directory = self._reach(path)
            if not os.access(".", os.W_OK | os.X_OK, dir_fd=directory.fd, effective_ids=True):
                raise UserError(
                    f"The directory {to_text(path) or '.'!r} may not be written. Nothing was changed.",
                    hint=f"chmod u+wx {to_text(path) or '.'}",
                )

    def _reach(self, path: bytes) -> Directory:
        try:
            return self._handles.get(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise PlanStale(f"The directory {to_text(path)!r} is not what it was. Nothing was changed.", hint="Plan again.") from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise PlanStale(f"{to_text(path)!r} became a link. Nothing was changed.", hint="Plan again.") from error
            raise

    def _one(self, number: int, action: Action, *, durable: bool) -> int:
        node = action.after
        if node is None:
            raise ValueError(action)
        directory = self._reach(self._layout.stage_of(action.path))
        name = temporary_name(self._token, number)
        directory.unlink(name, missing_ok=True)
        if node.is_link:
            directory.symlink(self._store.read(node.oid, BLOB), name)
            return directory.stat(name).st_ino
        fd = directory.create(name)
        try:
            for chunk in self._store.stream(node.oid):
                write_all(fd, chunk)
            if action.before is not None and not action.before.is_link:
                self._take_over(action.path, fd)
            seam.calls.fchmod(fd, node.perm)
            if durable:
                sync(fd, to_text(action.path))
            return os.fstat(fd).st_ino
        finally:
            seam.calls.close(fd)

    def _take_over(self, path: bytes, fd: int) -> None:
        """Gives the new file the owner and extended attributes of the one it replaces."""
        directory, name = self._reach(parent_of(path)), path.rpartition(b"/")[2]
        try:
            old = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory.fd)
        except FileNotFoundError:
            return
        try:
            st, mine = os.fstat(old), os.fstat(fd)
            if not stat.S_ISREG(st.st_mode):
                return
            if (st.st_uid, st.st_gid) != (mine.st_uid, mine.st_gid):
                self._noting(path, "its owner", lambda: seam.calls.fchown(fd, st.st_uid, st.st_gid))
            self._copy_attributes(path, f"/proc/self/fd/{old}", fd)
        finally:
            seam.calls.close(old)

    def _copy_attributes(self, path: bytes, old: str, fd: int) -> None:
        try:
            names = os.listxattr(old)
        except OSError:
            return  # the file system has none
        for attribute in names:
            value = os.getxattr(old, attribute)
            self._noting(path, f"the attribute {attribute}", lambda a=attribute, v=value: os.setxattr(fd, a, v))  # type: ignore[misc]

    def _noting(self, path: bytes, what: str, change: Callable[[], None]) -> None:
        try:
            change()
        except OSError as error:
            self._notes[path] = f"{what} could not be kept ({error.strerror})"


def _refusal(error: OSError) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoRoom("The disk is full. Nothing was changed.", hint="Free space, then run the same command again.")
    return UserError(f"The restored files could not be staged ({error.strerror}). Nothing was changed.", hint="mulligan status")
