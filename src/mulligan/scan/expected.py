"""
What git's index says of a workspace, by directories: what to expect on the disk, and which objects to take over.

Stat fields are as a record would remember them. The index does not say all of them: permission bits and the upper half of an
inode are guessed from a few files. A wrong guess costs time and nothing else, since every file is looked at.
"""

from __future__ import annotations

import os
import stat
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import Any

from mulligan.model.objects import MODE_EXEC, MODE_FILE
from mulligan.safefs.directory import Directory
from mulligan.scan.git.cache_tree import CacheTree
from mulligan.scan.git.index import Index
from mulligan.scan.git.index_format import ENTRIES_LIMIT
from mulligan.scan.git.records import ANY_SIZE
from mulligan.scan.record import STAT, unproven
from mulligan.scan.scope import RECORDS, Scope
from mulligan.scan.secrets import is_plain_name, is_plain_place

_ENTRY = struct.Struct(">10I20sH")
_SECOND = 1_000_000_000
# An entry that changed so shortly before the index was written may have changed again in the same tick of the clock.
MARGIN = 40_000_000
# What changed so shortly before the machine was started may have lost its bytes and kept its times, if that was after a power cut.
UNWRITTEN = 3_600_000_000_000
_SAMPLE = 64
_LOW = 0xFFFFFFFF
# A file that is nothing but a token is seldom longer, and so it is looked at, whatever its name.
_TINY = 256
# Of all directories together: a name of 60 KB can be 30,000 of them, whose paths are a gigabyte.
_PATHS_LIMIT = 64 << 20


class Declined(Exception):
    """Git is not to be believed here, or it is not worth it."""


class Folder:
    """What the index says of a directory: names with the stat fields to be expected and ids, and which of them are to be looked at."""

    __slots__ = ("dirs", "is_plain", "names", "oids", "stats", "unclear")

    def __init__(self, path: bytes = b"") -> None:
        self.is_plain = is_plain_place(path)
        self.names: list[bytes] = []
        self.stats: list[bytes] = []
        self.oids: list[bytes] = []
        self.unclear: list[int] = []
        self.dirs: list[bytes] = []

    def add(self, name: bytes, proof: bytes, oid: bytes) -> None:
        """Adds a name that is to be looked at."""
        self.unclear.append(len(self.names))
        self.names.append(name)
        self.stats.append(proof)
        self.oids.append(oid)


class Expected:
    """The index by directories, and the objects, with their sizes, of files that are captured and no secrets by any rule."""

    def __init__(self, root: Directory, prefix: bytes, scope: Scope, index: Index, written: int, boot: int = 0) -> None:
        self.folders, self._letters = {b"": Folder()}, 0
        self.wanted: dict[bytes, int] = {}
        above = prefix + b"/" if prefix else b""
        paths = index.below(above) if prefix else list(index.heads)
        joined = b"".join([index.heads[path] for path in paths] if prefix else index.heads.values())
        if len(joined) != _ENTRY.size * len(paths) or not paths or _are_odd(paths):
            raise Declined
        size = _ENTRY.size
        self._modes, self._upper = guess(
            root, len(paths), lambda at: (paths[at][len(above) :], joined[at * size : at * size + size])
        )
        self._unsure = (boot - UNWRITTEN, boot)
        self._sort(paths, joined, len(above), scope, written - MARGIN)
        if any(above + path in index.heads for path in self.folders if path):
            raise Declined  # a file and a directory of one name
        self._want_trees(index.cache_tree, above)

    def _sort(self, paths: list[bytes], joined: bytes, skip: int, scope: Scope, latest: int) -> None:
        # Spelled out: this is done for every file that git tracks.
        folders, wanted, pack, modes, upper = self.folders, self.wanted, STAT.pack, self._modes, self._upper
        torn, largest, (since, boot) = set[bytes](), scope.max_file_size, self._unsure
        records = bisect_left(paths, paths[0][:skip] + RECORDS + b"/")
        has_records = records < len(paths) and paths[records][skip:].startswith(RECORDS + b"/")
        leaves_out = scope.leaves_out if scope.has_excludes or has_records else None
        rows: Any = _ENTRY.iter_unpack(joined)
        for path, (ctime, cns, mtime, mns, _, ino, mode, _, _, size, oid, _) in zip(paths, rows, strict=True):
            above, _, name = (path[skip:] if skip else path).rpartition(b"/")
            folder = folders.get(above) or self._folder(above)
            changed, written, full = ctime * _SECOND + cns, mtime * _SECOND + mns, modes.get(mode)
            sure = changed < latest and written < latest and not since <= changed < boot
            if not (full and cns and sure and size <= largest):
                if full or stat.S_ISLNK(mode):  # else a submodule
                    folder.add(name, unproven(full or mode | 0o777), oid)
                continue
            proof = pack(upper | ino, full, size, written, changed)
            plain = folder.is_plain and size > _TINY and is_plain_name(name)
            if not plain or (leaves_out and leaves_out(path[skip:])):
                folder.add(name, proof, oid)
                continue
            folder.names.append(name)
            folder.stats.append(proof)
            folder.oids.append(oid)
            if wanted.setdefault(oid, size) != size:
                torn.add(oid)
        for oid in torn:
            del wanted[oid]  # two sizes for one object: one of them is a lie
        self.torn = torn

    def _folder(self, path: bytes) -> Folder:
        """Returns a directory that is new, with those above it that are; raises Declined where there are more than anybody has."""
        found = self._new(path)
        while path:
            path, _, name = path.rpartition(b"/")
            above = self.folders.get(path)
            (above or self._new(path)).dirs.append(name)
            if above is not None:
                break
        return found

    def _new(self, path: bytes) -> Folder:
        self._letters += len(path) + 1
        if self._letters > _PATHS_LIMIT or len(self.folders) > ENTRIES_LIMIT:
            raise Declined
        found = self.folders[path] = Folder(path)
        return found

    def _want_trees(self, tree: CacheTree | None, prefix: bytes) -> None:
        """Asks for the trees that git made of the index: they are probably those that this look will make."""
        for name in prefix.split(b"/")[:-1]:
            tree = tree.children.get(name) if tree is not None else None
        nodes = [tree] if tree is not None else []
        while nodes:
            node = nodes.pop()
            if node.oid is not None:
                self.wanted.setdefault(node.oid, ANY_SIZE)
            nodes += node.children.values()


def guess(root: Directory, count: int, entry: Callable[[int], tuple[bytes, bytes]]) -> tuple[dict[int, int], int]:
    """
    Looks at a few files, for what the index does not say of any; returns all of the mode, by the index's, and the upper half of the inode.

    `entry` tells path and head of one of so many; raises Declined where they are not the files that the index means.
    """
    modes, upper, same, seen = {MODE_FILE: Counter[int](), MODE_EXEC: Counter[int]()}, Counter[int](), 0, 0
    for at in range(0, count, max(1, count // _SAMPLE)):
        path, head = entry(at)
        try:
            st = os.stat(path, dir_fd=root.fd, follow_symlinks=False)
        except OSError:
            continue  # gone: the walk will see
        row = _ENTRY.unpack(head)
        seen += 1
        if row[6] in modes and stat.S_ISREG(st.st_mode):
            modes[row[6]][st.st_mode] += 1
            upper[st.st_ino & ~_LOW] += 1
            same += (st.st_ino & _LOW, st.st_ctime_ns) == (row[5], row[0] * _SECOND + row[1])
    if same * 2 < seen or not same:
        raise Declined  # an index of other files: nothing would be proven
    usual = {mode: next(iter(count.most_common(1)), (mode, 0))[0] for mode, count in modes.items()}
    return usual, upper.most_common(1)[0][0]


def _are_odd(paths: list[bytes]) -> bool:
    """Returns whether paths are not in order, or some of them are none: what git never writes, and records cannot hold."""
    joined = b"/\0/%b/\0/" % b"/\0/".join(paths)
    return b"//" in joined or b"/./" in joined or paths != sorted(paths)
