"""
The repository a workspace belongs to: finding it, reading HEAD, excludes and index from it, and its linked worktrees.

Promise: reads only; starts nothing; obeys no setting and no `GIT_*` variable; no method raises for what it finds in the
files. RACE: HEAD and the index are two files; a git command that runs at the same time may have changed one and not yet the other.
LIMIT: links inside a git directory are not followed, so refs or an index that are kept elsewhere by links are not seen.

A linked worktree inside a workspace is a workspace of its own. A directory counts as one only if both sides say so: its `.git`
file names `worktrees/ID` of the repository, and the `gitdir` file there names that `.git` file. A `.git` file alone, which
anyone can plant, takes no directory out of protection.
LIMIT: worktrees of a repository that is itself nested in the workspace are plain files of the workspace.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

from mulligan.safefs.clock import SECOND
from mulligan.safefs.directory import Directory
from mulligan.usergit.files import names_in, notice, open_directory, read_file, status
from mulligan.usergit.index import EMPTY, INDEX_LIMIT, TRAILER, Index, RawIndex, parse_index
from mulligan.usergit.refs import Head, head_bytes, read_head

if TYPE_CHECKING:
    from mulligan.usergit.objects import UserObjects  # loaded when objects are read

IGNORES_LIMIT = 4 << 20
POINTER_LIMIT = 1 << 14


class Repository:
    """
    A repository, held by open descriptors.

    `prefix` is the workspace's path inside the work tree, `b""` when they are the same.
    """

    def __init__(
        self, top: bytes, prefix: bytes, git_dir: tuple[bytes, Directory], common: tuple[bytes, Directory]
    ) -> None:
        self.prefix = prefix
        self.top, self._git_dir, self._common = top, git_dir[1], common[1]
        self.git_path, self.common_path = git_dir[0], common[0]
        self._objects_path = os.path.join(common[0], b"objects")
        self._index: tuple[tuple[int, ...], Index | None] | None = None
        self._data: tuple[tuple[int, ...], bytes] | None = None

    @classmethod
    def find(cls, workspace: str, *, home: str = "") -> Repository | None:
        """
        Returns the repository that holds a workspace, None when there is none.

        Looks at the workspace and above it, not beyond its file system, and neither at `/` nor at the home directory
        unless that is the workspace itself. Above the workspace, only a `.git` of the same owner counts: another user's
        `.gitignore` must not decide what is protected.
        """
        start = os.fsencode(os.path.realpath(workspace))
        stop = {b"/", os.fsencode(os.path.realpath(home))} if home else {b"/"}
        here, owners = start, {os.geteuid()}
        try:
            first = os.stat(start)
        except OSError as error:
            notice(error)
            return None
        owners.add(first.st_uid)
        while here == start or here not in stop:
            try:
                if os.stat(here).st_dev != first.st_dev:
                    return None
                found = os.stat(os.path.join(here, b".git"), follow_symlinks=False)
            except (OSError, ValueError) as error:
                notice(error)
                found = None
            if found is not None and (here == start or found.st_uid in owners):
                repository = cls._open(here, start, found)
                if repository is not None or stat.S_ISREG(found.st_mode):
                    return repository
            if here == b"/":
                return None
            here = os.path.dirname(here)
        return None

    @classmethod
    def _open(cls, top: bytes, workspace: bytes, found: os.stat_result) -> Repository | None:
        path: bytes | None = os.path.join(top, b".git")
        if stat.S_ISREG(found.st_mode):
            path = pointed(top, b".git", b"gitdir: ")
        elif not stat.S_ISDIR(found.st_mode) and not stat.S_ISLNK(found.st_mode):
            return None
        git_dir = open_directory(path) if path else None
        if path is None or git_dir is None:
            return None
        common_path = pointed(path, b"commondir", b"")
        common = open_directory(common_path or path)
        if common is not None and _is_git_directory(git_dir, common):
            prefix = os.path.relpath(workspace, top) if workspace != top else b""
            return cls(top, prefix, (path, git_dir), (common_path or path, common))
        for directory in (git_dir, common):
            if directory is not None:
                directory.close()
        return None

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the repository; again is harmless."""
        self._git_dir.close()
        self._common.close()

    @property
    def git_dir(self) -> Directory:
        """The directory that holds HEAD and the index: the repository's own, or that of a linked worktree."""
        return self._git_dir

    @property
    def common(self) -> Directory:
        """The directory that holds branches and objects, shared by all worktrees."""
        return self._common

    # -- HEAD and excludes ----------------------------------------------------------------------

    def head(self) -> Head:
        """Returns where HEAD stands."""
        return read_head(self._git_dir, self._common)

    def info_exclude(self) -> bytes:
        """Returns the repository's own exclude file, `b""` when there is none."""
        return read_file(self._common, b"info/exclude", limit=IGNORES_LIMIT) or b""

    def outer_ignores(self) -> list[tuple[bytes, bytes]]:
        """
        Returns the `.gitignore` files above a workspace that is a subdirectory, outermost first.

        Each comes with the workspace's path relative to the directory that holds it.
        """
        found: list[tuple[bytes, bytes]] = []
        here, rest = self.top, self.prefix
        while rest:
            directory = open_directory(here)
            if directory is not None:
                with directory:
                    content = read_file(directory, b".gitignore", limit=IGNORES_LIMIT)
                if content:
                    found.append((rest, content))
            name, _, rest = rest.partition(b"/")
            here = os.path.join(here, name)
        return found

    def sparse_checkout(self) -> bool:
        """Returns whether the work tree is a sparse one: then a file that is there is compared, whatever its flag says."""
        return status(self._git_dir, b"info/sparse-checkout") is not None

    # -- the index ------------------------------------------------------------------------------

    def index_key(self) -> tuple[int, ...] | None:
        """Returns a fingerprint of the index file, None when there is none."""
        st = status(self._git_dir, b"index")
        if st is None:
            return None
        key = (st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
        # Where times are whole seconds, the next index may have the inode, the size and the second of this one.
        return key if st.st_ctime_ns % SECOND else (*key, int.from_bytes(self._checksum(), "big"))

    def _checksum(self) -> bytes:
        """Returns the checksum that git writes at the end of its index."""
        try:
            with self._git_dir.reading(b"index") as fd:
                return os.pread(fd, TRAILER, max(0, os.fstat(fd).st_size - TRAILER))
        except OSError as error:
            notice(error)
            return b""

    def index(self) -> Index | None:
        """Returns the index, an empty one when there is no file, None when the file cannot be understood."""
        key = self.index_key()
        if key is None:
            return EMPTY
        if self._index is None or self._index[0] != key:
            self._index = key, parse_index(self._bytes(key), shared=self.shared_index)
        return self._index[1]

    def raw_index(self) -> RawIndex | None:
        """Returns the index for looking up single entries; None when it is read as a whole already, or has to be."""
        key = self.index_key()
        if key is None or (self._index is not None and self._index[0] == key):
            return None
        if any(name.startswith(b"sharedindex.") for name in names_in(self._git_dir)):
            return None  # split, or it was a short time ago
        raw = RawIndex(self._bytes(key))
        return raw if raw.searchable else None

    def checked_index(self) -> tuple[Index, int] | None:
        """Returns the index and when it was written, None where it does not carry a checksum that is right."""
        key, st = self.index_key(), status(self._git_dir, b"index")
        data, index = self._bytes(key) if key is not None else b"", self.index()
        right = hashlib.sha1(memoryview(data)[:-TRAILER], usedforsecurity=False).digest() == data[-TRAILER:]
        if not right or index is None or st is None or key != self.index_key():
            return None
        # The earlier of the two: any program can set the one into the future.
        return index, min(st.st_mtime_ns, st.st_ctime_ns)

    def _bytes(self, key: tuple[int, ...]) -> bytes:
        if self._data is None or self._data[0] != key:
            self._data = key, read_file(self._git_dir, b"index", limit=INDEX_LIMIT) or b""
        return self._data[1]

    def shared_index(self, name: bytes) -> bytes | None:
        """Returns the other half of a split index."""
        return read_file(self._git_dir, name, limit=INDEX_LIMIT)

    # -- objects and state ----------------------------------------------------------------------

    def objects(self, *, work: int = 0) -> UserObjects:
        """Returns the repository's objects, to be used in a `with` block; `work` is how many bytes may be inflated, if not as usual."""
        from mulligan.usergit.objects import UserObjects

        return UserObjects(self._objects_path, work=work)

    def state_key(self) -> bytes:
        """Returns a digest of HEAD, its commit and the index: while it stays the same, only the work tree can change."""
        parts = (head_bytes(self._git_dir), self.head(), self.index_key(), self.sparse_checkout())
        return hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).digest()


def pointed(directory: bytes, name: bytes, prefix: bytes) -> bytes | None:
    """Returns the path that a pointer file names, None when there is no such file or it names none."""
    here = open_directory(directory)
    if here is None:
        return None
    with here:
        content = read_file(here, name, limit=POINTER_LIMIT)
    if content is None or not content.startswith(prefix):
        return None
    target = content[len(prefix) :].rstrip(b"\r\n")
    return os.path.join(directory, target) if target and b"\0" not in target else None


def _is_git_directory(git_dir: Directory, common: Directory) -> bool:
    head = status(git_dir, b"HEAD")
    if head is None or not (stat.S_ISREG(head.st_mode) or stat.S_ISLNK(head.st_mode)):
        return False
    for name in (b"objects", b"refs"):
        try:
            found = os.stat(name, dir_fd=common.fd)
        except OSError as error:
            notice(error)
            return False
        if not stat.S_ISDIR(found.st_mode):
            return False
    return True


_MOST = 10_000


def worktrees_inside(repo: Repository, workspace: str) -> frozenset[bytes]:
    """Returns the linked worktrees of a repository that stand inside a workspace, by their paths in it."""
    names = sorted(names_in(repo.common, b"worktrees"))[:_MOST]
    top = os.fsencode(workspace).rstrip(b"/") + b"/"
    common = os.path.realpath(repo.common_path)
    found = (_place(os.path.join(common, b"worktrees", name)) for name in names)
    return frozenset(place.removeprefix(top) for place in found if place.startswith(top))


def is_worktree(directory: str) -> bool:
    """Returns whether a directory is a linked worktree that its repository knows of."""
    place = os.path.realpath(os.fsencode(directory))
    records = pointed(place, b".git", b"gitdir: ")
    return records is not None and _place(os.path.realpath(records)) == place


def _place(records: bytes) -> bytes:
    """Returns where the worktree stands whose records a repository keeps in a directory; empty if it does not point back."""
    if os.path.basename(os.path.dirname(records)) != b"worktrees":
        return b""
    opened = open_directory(records)
    if opened is None:
        return b""
    with opened:
        content = (read_file(opened, b"gitdir", limit=POINTER_LIMIT) or b"").rstrip(b"\r\n")
    link = os.path.normpath(os.path.join(records, content))
    if not content or b"\0" in content or os.path.basename(link) != b".git":
        return b""
    place = os.path.realpath(os.path.dirname(link))
    back = pointed(place, b".git", b"gitdir: ")
    return place if back is not None and os.path.realpath(back) == os.path.realpath(records) else b""
