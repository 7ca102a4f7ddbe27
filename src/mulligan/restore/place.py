"""
Looking at and changing single paths of a workspace during a restore.

`Handles` keeps a few directories open, each reached name by name; `stands` says whether a path is in a given state, by
its stat fields where they were seen before, otherwise by its bytes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from hashlib import sha1
from stat import S_IFREG

from mulligan.model.objects import BLOB, object_id
from mulligan.model.paths import covers, join, parent_of
from mulligan.model.plan import Action, Node
from mulligan.safefs import syscalls
from mulligan.safefs.directory import (
    ABSENT,
    CHUNK,
    READ_FLAGS,
    Directory,
    NotRegular,
    SpelledDirectory,
    fair_share_of_files,
)
from mulligan.safefs.durable import sync, sync_filesystem
from mulligan.safefs.platform import HERE
from mulligan.scan.cache import Stat

_OPEN_FEWEST, _OPEN_MOST = 16, 1024
_WAY = 8
_SYNC_EACH = 16
_SOCKET = frozenset({errno.ENXIO, errno.EOPNOTSUPP})  # what Linux and macOS say where one stands


class Handles:
    """
    Open directories of the workspace, the least used closed first.

    Paths that are `spelled`, each with another spelling, stand only where they are listed in exactly this spelling.
    """

    def __init__(self, root: Directory, spelled: Mapping[bytes, bytes] | None = None) -> None:
        self._root = root
        self._spelled: dict[bytes, dict[bytes, bytes]] = {}
        self._open: OrderedDict[bytes, Directory] = OrderedDict()
        # Those above the one that was opened last, each in the one before it: a plan is sorted, and the next lies nearby.
        self._way: list[tuple[bytes, Directory]] = []
        if spelled:
            self.spell(spelled)

    def spell(self, paths: Mapping[bytes, bytes]) -> None:
        """Insists on the spelling of some paths, of none but these."""
        self._spelled.clear()
        for path, other in paths.items():
            self._spelled.setdefault(parent_of(path), {})[path.rpartition(b"/")[2]] = other.rpartition(b"/")[2]
        if paths:
            self.close()

    @cached_property
    def most(self) -> int:
        """How many may be open."""
        return max(_OPEN_FEWEST, min(_OPEN_MOST, fair_share_of_files()))

    def get(self, path: bytes) -> Directory:
        """Returns an open directory; valid until many others were asked for."""
        found = self._open.get(path)
        if found is not None:
            self._open.move_to_end(path)
            return found
        above, _, name = path.rpartition(b"/")
        found = self._above(above).child(name) if path else self._root.descend(b"")
        found = self._open[path] = self._strict(path, found)
        if len(self._open) > _OPEN_FEWEST and len(self._open) > self.most:
            self._open.popitem(last=False)[1].close()
        return found

    def _strict(self, path: bytes, found: Directory) -> Directory:
        spelled = self._spelled.get(path)
        return found if spelled is None else SpelledDirectory(found.fd, spelled)

    def _above(self, path: bytes) -> Directory:
        """Returns an open directory, reached name by name from the nearest one above it that is open."""
        found = self._open.get(path) if path else self._strict(b"", self._root)
        if found is not None:
            return found
        while self._way and not covers(self._way[-1][0], path):
            self._way.pop()[1].close()
        at, here = self._way[-1] if self._way else (b"", self._strict(b"", self._root))
        for name in path[len(at) :].lstrip(b"/").split(b"/") if at != path else ():
            at = join(at, name)
            here = self._strict(at, here.child(name))
            self._way.append((at, here))
        while len(self._way) > _WAY:
            self._way.pop(0)[1].close()
        return here

    def forget(self, path: bytes) -> None:
        """Closes a directory that is about to be removed, and those below it."""
        for known in [p for p in self._open if covers(path, p)]:
            self._open.pop(known).close()
        while self._way and covers(path, self._way[-1][0]):
            self._way.pop()[1].close()

    def close(self) -> None:
        """Closes all."""
        while self._open:
            self._open.popitem()[1].close()
        while self._way:
            self._way.pop()[1].close()


def find_shared(handles: Handles, actions: Iterable[tuple[int, Action]]) -> list[tuple[int, Action]]:
    """Returns those of some actions whose path is a regular file with more than one name."""
    found = []
    for number, action in actions:
        with suppress(OSError):  # what cannot be looked at is for the checks of the restore itself
            status = handles.get(parent_of(action.path)).stat(os.path.basename(action.path))
            if is_shared(status):
                found.append((number, action))
    return found


def is_shared(status: os.stat_result) -> bool:
    """Returns whether another name would see a change of this file's permission bits."""
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def is_absence(error: OSError) -> bool:
    """Returns whether an error says that no such directory stands there (any more), or a link in its place."""
    return error.errno in ABSENT


def stands(directory: Directory, name: bytes, node: Node | None, seen: Stat | None = None) -> bool:
    """Returns whether a name is in a state; `seen` are the stat fields it had in that state, if they are to be trusted."""
    try:
        st = directory.stat(name)
    except (FileNotFoundError, NotADirectoryError):
        return node is None
    if node is None:
        return False
    if node.is_dir or node.is_link:
        return _kind_stands(directory, name, node, st)
    if st.st_mode != S_IFREG | node.perm:
        return False
    if seen is not None and _same(st, seen):
        return True
    return blob_id(directory, name) == node.oid


def reads_back(directory: Directory, name: bytes, node: Node | None, inode: int = 0) -> bool:
    """
    Returns whether a name, read, is in a state; the same answer as `stands` without a memory, with half its calls.

    With an inode, also whether it is that one.
    """
    if node is None or node.is_dir or node.is_link:
        return (not inode or directory.stat(name).st_ino == inode) and stands(directory, name, node)
    try:
        fd = syscalls.calls.open(name, READ_FLAGS, dir_fd=directory.fd)
    except PermissionError:
        return False
    except OSError as error:
        if not is_absence(error) and error.errno not in _SOCKET:
            raise
        return False
    try:
        st = os.fstat(fd)
        if (inode and st.st_ino != inode) or st.st_mode != S_IFREG | node.perm:
            return False
        return _hashed(fd, st.st_size) == node.oid
    finally:
        syscalls.calls.close(fd)


def _hashed(fd: int, size: int) -> bytes:
    digest = sha1(b"blob %d\0" % size, usedforsecurity=False)
    left = size + 1  # one byte more, so that growth is noticed
    while left > 0 and (chunk := syscalls.calls.read(fd, min(CHUNK, left))):
        digest.update(chunk)
        left -= len(chunk)
        if left == 1 and len(chunk) < CHUNK:
            break  # that byte was asked for and is not there
    return digest.digest()


def _kind_stands(directory: Directory, name: bytes, node: Node, st: os.stat_result) -> bool:
    if node.is_dir:
        return stat.S_ISDIR(st.st_mode)
    return stat.S_ISLNK(st.st_mode) and _link_id(directory, name) == node.oid


def _link_id(directory: Directory, name: bytes) -> bytes:
    try:
        return object_id(BLOB, directory.readlink(name))
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOENT}:
            raise
        return b""  # swapped for something else since it was looked at


def _same(st: os.stat_result, seen: Stat) -> bool:
    fields = (st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
    return fields == (seen.ino, seen.size, seen.mtime_ns, seen.ctime_ns)


def blob_id(directory: Directory, name: bytes) -> bytes:
    """Returns the object id of a regular file's bytes; empty if it is none any more, or not ours to read."""
    try:
        with directory.reading(name) as fd:
            return _hashed(fd, os.fstat(fd).st_size)
    except (NotRegular, PermissionError):
        return b""
    except OSError as error:
        if not is_absence(error):
            raise
        return b""


def sync_names(root: Directory, handles: Handles, paths: Collection[bytes], *, everything: bool = False) -> None:
    """Makes the names in some directories durable; with `everything`, or where there are many, the whole file system."""
    if HERE.can.sync_all and (len(paths) > _SYNC_EACH or everything):
        sync_filesystem(root, "the restore")
        return
    for path in paths:
        try:
            directory = handles.get(path)
        except OSError as error:
            if is_absence(error):
                continue  # removed by this very restore; its parent is synced
            sync_filesystem(root, "the restore")  # there, and not to be opened: mode 000
            continue
        sync(directory.fd, "the restore")
