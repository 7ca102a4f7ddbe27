"""
Writes a state into a directory that is new: every file, link and directory of a checkpoint, its secrets opened.

Files that the live workspace holds with the same content are reflinked where the file system can, and keep their times, so
that build tools find them unchanged. All other bytes come from the store, verified.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from mulligan.errors import MulliganError
from mulligan.forks.copying import Copier
from mulligan.model.checkpoint import EXCLUDED, IGNORED, NEWLY_IGNORED, SECRET, TOO_LARGE
from mulligan.model.objects import MODE_DIR, MODE_LINK, TreeEntry
from mulligan.model.paths import is_dot_git, join, parent_of, to_text
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory, write_all
from mulligan.scan.cache import DirectoryRecord, Stat
from mulligan.scan.trees import Defaults, Scan, git_mode
from mulligan.timeline.commits import Entry
from mulligan.timeline.secrets import open_sealed
from mulligan.timeline.store import Store
from mulligan.timeline.trees import Permissions, Trees

_AT_ONCE = 1 << 20
_PRIVATE, _PRIVATE_DIRECTORY, _USUAL = 0o600, 0o700, 0o755
_COPIED = frozenset({IGNORED, EXCLUDED, NEWLY_IGNORED, TOO_LARGE, SECRET})


class ForkSource(NamedTuple):
    """The workspace that a fork is made from, as a scan saw it."""

    root: Directory
    scan: Scan


class Filling:
    """Fills one directory with one state, read from a store that holds it."""

    def __init__(self, store: Store, entry: Entry, root: Directory, copier: Copier, live: ForkSource | None) -> None:
        self._store = store
        self._entry = entry
        self._root = root
        self._copier = copier
        self._live = live
        self._source = Trees(store.objects)
        self._permissions = Permissions(self._source, entry.modes_tree, Defaults(*entry.defaults))

    def run(self) -> None:
        """Writes everything; what cannot be opened without its key is listed in the copier's `left_out`."""
        pending = [(b"", self._entry.files_tree)]
        while pending:
            path, oid = pending.pop()
            with self._root.descend(path) as directory:
                pending += self._directory(directory, path, self._source.read_tree(oid))
                syscalls.calls.fchmod(directory.fd, self._permissions.of(path, MODE_DIR) if path else self._top())
        for path in sorted(self._secrets):
            self._missing_directory(path)

    def _top(self) -> int:
        """Returns the permission bits of the directory itself: those of the live workspace."""
        return stat.S_IMODE(os.fstat(self._live.root.fd).st_mode) if self._live is not None else _USUAL

    def _directory(self, directory: Directory, path: bytes, entries: Iterable[TreeEntry]) -> list[tuple[bytes, bytes]]:
        """Writes what is directly in a directory; returns the directories in it, made and still empty."""
        below: list[tuple[bytes, bytes]] = []
        seen = _LiveDirectory(self._live, path)
        try:
            for entry in entries:
                if entry.mode == MODE_DIR:
                    directory.mkdir(entry.name, _PRIVATE_DIRECTORY)
                    below.append((join(path, entry.name), entry.oid))
                elif entry.mode == MODE_LINK:
                    directory.symlink(self._store.objects.read(entry.oid, b"blob"), entry.name)
                else:
                    self._file(directory, path, entry, seen)
        finally:
            seen.close()
        self._write_secrets(directory, path)
        return below

    def _file(self, directory: Directory, path: bytes, entry: TreeEntry, seen: _LiveDirectory) -> None:
        same, mode = seen.find(entry), self._permissions.of(join(path, entry.name), entry.mode)
        fd = seen.cloned(entry.name, same, directory, self._copier) if same is not None else -1
        if is_written := fd < 0:
            fd, _ = directory.made(entry.name, mode)
        try:
            if is_written:
                self._write(fd, entry.oid)
            else:
                syscalls.calls.fchmod(fd, mode)
            if same is not None:
                syscalls.calls.utime(fd, ns=(same.mtime_ns, same.mtime_ns))
        finally:
            syscalls.calls.close(fd)
        self._copier.count()

    def _write(self, fd: int, oid: bytes) -> None:
        found = self._store.objects.read_up_to(oid, _AT_ONCE)
        for chunk in self._store.objects.stream(oid) if isinstance(found, int) else (found,):
            write_all(fd, chunk)

    # -- secrets ----------------------------------------------------------------------------------

    @cached_property
    def _secrets(self) -> dict[bytes, list[bytes]]:
        """The sealed files that are not written yet, by directory."""
        found: dict[bytes, list[bytes]] = {}
        for path in self._entry.sealed:
            found.setdefault(parent_of(path), []).append(path)
        return found

    def _write_secrets(self, directory: Directory, path: bytes) -> None:
        for each in self._secrets.pop(path, []):
            file = self._entry.sealed[each]
            try:
                data = open_sealed(file, each, self._store.keys, self._store.objects.read)
            except MulliganError as error:
                self._copier.left_out.append((to_text(each), error.message))
                continue
            fd = directory.create(os.path.basename(each), _PRIVATE)
            try:
                write_all(fd, data)
                syscalls.calls.fchmod(fd, file.perm)
            finally:
                syscalls.calls.close(fd)
            self._copier.count()

    def _missing_directory(self, path: bytes) -> None:
        """Makes a directory in which there is nothing but secrets, and writes them."""
        if path not in self._secrets:
            return
        with _made_below(self._root, path) as directory:
            self._write_secrets(directory, path)


class _LiveDirectory:
    """One directory of the live workspace: which files are what the scan saw."""

    def __init__(self, live: ForkSource | None, path: bytes) -> None:
        self._live, self._path = live, path
        self._record: DirectoryRecord | None = live.scan.record(path) if live is not None else None
        self._opened: Directory | None = None

    def find(self, entry: TreeEntry) -> Stat | None:
        """Returns the stat fields of the file that holds the same content; None where there is none."""
        at = self._record.find(entry.name) if self._record is not None else -1
        if self._record is None or at < 0 or self._record.oid_at(at) != entry.oid:
            return None
        found = self._record.stat_at(at)
        if (
            found.is_unproven and self._live is not None
        ):  # it was young when it was read: its times are known all the same
            found = self._live.scan.memory_of(join(self._path, entry.name))[0] or found
        return found if git_mode(found.mode) == entry.mode and not found.is_unproven else None

    def cloned(self, name: bytes, expected: Stat, target: Directory, copier: Copier) -> int:
        """Makes a reflink of a file here, if that is still what the scan saw; returns its descriptor, -1 where it did not."""
        if self._live is None or not copier.may_clone:
            return -1
        try:
            if self._opened is None:
                self._opened = self._live.root.descend(self._path)
            with self._opened.reading(name) as source:
                if not self._is_proven(name) or not _is_as(source, expected):
                    return -1
                fd = copier.clone(source, target, name)
                if fd < 0 or _is_as(source, expected):
                    return fd
                syscalls.calls.close(fd)
                target.unlink(name)  # it changed under the copy: the store has the right bytes
        except OSError:
            pass  # gone or closed to us since the scan: the store has it
        return -1

    def _is_proven(self, name: bytes) -> bool:
        """Whether stat fields prove a file unchanged since the scan: it was not too young for that."""
        at = self._record.find(name) if self._record is not None else -1
        return self._record is not None and at >= 0 and not self._record.stat_at(at).is_unproven

    def close(self) -> None:
        """Closes the directory."""
        if self._opened is not None:
            self._opened.close()


def _is_as(fd: int, expected: Stat) -> bool:
    found = os.fstat(fd)
    return expected == Stat(found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def copy_unsaved(live: ForkSource, root: Directory, copier: Copier) -> None:
    """Copies what no checkpoint holds (ignored, excluded, too large) from the live workspace; what is there stays."""
    for path, missed in sorted(live.scan.missed.items()):
        if missed.reason not in _COPIED or is_dot_git(os.path.basename(path)) or _is_ours(missed.detail):
            continue
        try:
            with live.root.descend(parent_of(path)) as source, _made_below(root, parent_of(path)) as target:
                copier.copy(source, target, os.path.basename(path), to_text(path))
        except (FileNotFoundError, NotADirectoryError):
            continue  # it went since the scan


def _is_ours(detail: str) -> bool:
    return detail.startswith(("mulligan's", "a temporary", "records of"))


def _made_below(root: Directory, path: bytes) -> Directory:
    """Opens a directory below, and makes what is missing on the way."""
    here = root.descend(b"")
    for name in path.split(b"/") if path else ():
        with here:
            if not here.exists(name):
                here.mkdir(name, _USUAL)
            below = here.child(name)
        here = below
    return here
