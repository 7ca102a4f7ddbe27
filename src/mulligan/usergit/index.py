"""
The user's index: what git tracks, with which mode and content.

`parse_index` takes the file's bytes apart; `Index` answers questions about the result. Stage 0 entries are found by path,
unmerged paths are listed apart. Submodules and the directories of a sparse index are known by name and are not files.

`RawIndex` does not take the file apart: it looks up single entries in its bytes. Entries are sorted and begin at every eighth
byte at most, so a look-up halves the file: some twenty steps instead of a hundred thousand. A hostile index can make
a look-up miss; it cannot make it fail, or last.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from functools import cached_property

from mulligan.model.paths import ancestors
from mulligan.usergit.index_format import (
    EXTENDED,
    HEAD,
    MODE_DIRECTORY,
    MODE_GITLINK,
    TRAILER,
    CacheTree,
    IndexEntry,
    IndexRows,
    Malformed,
    header,
    merge,
    parse_cache_tree,
    read_extensions,
    read_rows,
)

INDEX_LIMIT = 128 << 20


class Index:
    """
    A parsed index.

    `heads` maps the path of each stage 0 entry to its undecoded head (bytes 24 to 28 are the mode, 40 to 60 the object
    id); it is there for loops over everything. For single entries, unmerged ones too, there is `find`.
    """

    def __init__(
        self, names: list[bytes], heads: list[bytes], special: list[int], tree: bytes = b"", *, is_split: bool = False
    ) -> None:
        self.heads: dict[bytes, bytes] = dict(zip(names, heads, strict=True))
        odd = [IndexEntry(names[at], heads[at]) for at in special]
        self._unmerged = {entry.name: entry for entry in odd if entry.stage}
        self.unmerged = frozenset(self._unmerged)
        self.intent_to_add = frozenset(entry.name for entry in odd if entry.intent_to_add)
        for name in self.unmerged:
            self.heads.pop(name, None)
        kinds = [(name, head[24:28]) for name, head in self.heads.items() if head[26] in b"\xe0\x40"]
        self.links = frozenset(name for name, mode in kinds if mode == MODE_GITLINK)
        self.sparse = frozenset(name for name, mode in kinds if mode == MODE_DIRECTORY)
        #: Whether there are entries with flags, directories of a sparse index, or another half.
        self.is_odd = bool(odd) or bool(self.sparse) or is_split
        self._tree = tree

    def __len__(self) -> int:
        return len(self.heads) + len(self.unmerged)

    def find(self, path: bytes) -> IndexEntry | None:
        """Returns an entry of the path (any of them, when it is unmerged), None where there is none."""
        head = self.heads.get(path)
        return IndexEntry(path, head) if head is not None else self._unmerged.get(path)

    @cached_property
    def paths(self) -> list[bytes]:
        """The paths of the stage 0 entries, sorted."""
        return sorted(self.heads)

    @cached_property
    def cache_tree(self) -> CacheTree | None:
        """The trees git knows the index's directories to be."""
        return parse_cache_tree(self._tree)

    def below(self, directory: bytes) -> list[bytes]:
        """Returns the sorted paths of the stage 0 entries below a directory (`b""` or one that ends in `/`)."""
        if not directory:
            return self.paths
        low, high = bisect_left(self.paths, directory), bisect_left(self.paths, directory[:-1] + b"0")
        return self.paths[low:high]

    def tracked(self, prefix: bytes = b"") -> set[bytes]:
        """Returns the tracked files below a directory, relative to it: unmerged ones too, submodules not."""
        if not prefix:
            return (self.heads.keys() | self.unmerged) - self.links - self.sparse
        directory = prefix + b"/"
        skip = len(directory)
        odd = self.links | self.sparse
        found = {path[skip:] for path in self.below(directory) if path not in odd}
        return found | {path[skip:] for path in self.unmerged if path.startswith(directory)}

    def sparse_directory(self, path: bytes) -> bytes | None:
        """Returns the sparse index's directory (ending in `/`) that stands for a path."""
        if not self.sparse:
            return None
        return next((found for above in ancestors(path) if (found := above + b"/") in self.sparse), None)


EMPTY = Index([], [], [])


def parse_index(data: bytes, *, shared: Callable[[bytes], bytes | None] | None = None) -> Index | None:
    """Returns the index that a file's bytes hold, None when they are malformed; `shared` reads the other half of a split one."""
    try:
        rows = read_rows(data)
        extensions = read_extensions(data, rows.end)
        if b"link" in extensions:
            rows = split_rows(rows, extensions[b"link"], shared)
        _check_names(rows)
    except Malformed:
        return None
    tree, is_split = extensions.get(b"TREE", b""), b"link" in extensions
    return Index(rows.names, rows.heads, rows.special, tree, is_split=is_split)


def split_rows(rows: IndexRows, link: bytes, shared: Callable[[bytes], bytes | None] | None) -> IndexRows:
    """Returns the entries of a split index, both halves; raises Malformed."""
    if len(link) < 20:
        raise Malformed("link")
    if link[:20] == bytes(20):
        return rows
    other = shared(b"sharedindex." + link[:20].hex().encode("ascii")) if shared else None
    if other is None:
        raise Malformed("shared index")
    base = read_rows(other)
    names, heads = merge((base.names, base.heads), (rows.names, rows.heads), link)
    special = [at for at, head in enumerate(heads) if head[60] > 0xF]
    return IndexRows(names, heads, special, rows.end)


def _check_names(rows: IndexRows) -> None:
    """Raises Malformed when a name could lead out of the work tree, which git never writes."""
    joined = b"\0" + b"\0".join(rows.names) + b"\0"
    # One look at everything: in an honest index there is nothing to find, and no name is looked at alone.
    if joined.count(b"\0") == len(rows.names) + 1 and not any(odd in joined for odd in (b"\0/", b"../", b"..\0")):
        return
    for name in rows.names:
        if b"\0" in name or name.startswith(b"/") or b"/../" in b"/" + name + b"/":
            raise Malformed("unsafe name")


# The modes git writes, where an entry has its mode: plain, executable, link, submodule.
_MODE = re.compile(rb"\0\0(?:\x81\xa4|\x81\xed|\xa0\0|\xe0\0)")
_MODE_AT = 24
# Longer than the longest entry, so that the next one begins within.
_REACH = 8 << 10
_NEAR = 4 << 10


class RawIndex:
    """
    Looks up single entries of an index.

    `searchable` is False for version 4, split and sparse indexes: those have to be read as a whole.
    """

    __slots__ = ("_data", "_end", "extensions", "searchable")

    def __init__(self, data: bytes) -> None:
        """Looks at the header and the extensions."""
        self._data, self._end = data, 0
        self.extensions: dict[bytes, bytes] = {}
        try:
            version, _ = header(data)
            self._end = self._last() if version < 4 else 0
            self.extensions = read_extensions(data, self._end) if self._end else {}
        except Malformed:
            self._end = 0
        self.searchable = bool(self._end) and not self.extensions.keys() & {b"link", b"sdir"}

    def find(self, path: bytes) -> IndexEntry | None:
        """Returns an entry of the path (any of them, when it is unmerged), None where there is none."""
        low, high = 12, self._end
        while high - low > _NEAR:
            middle = (low + high) // 2
            start = self._next(middle, high)
            if start < 0 or self._name(start) > path:
                high = middle
            else:
                low = start
        while low < high and (after := self._after(low)) > 0:
            name = self._name(low)
            if name >= path:
                return IndexEntry(path, self._data[low : self._name_at(low)]) if name == path else None
            low = after
        return None

    def _last(self) -> int:
        """Returns where the entries end: the last place that still looks like one is followed by extensions only."""
        low, high = 12, len(self._data) - TRAILER
        while high - low > _NEAR:
            middle = (low + high) // 2
            start = self._next(middle, high)
            if start < 0:
                high = middle
            else:
                low = start
        while (after := self._after(low)) > 0:
            low = after
        return low

    def _next(self, at: int, high: int) -> int:
        """Returns the begin of the first entry from an offset on, -1 when none begins within reach."""
        found = _MODE.search(self._data, at + _MODE_AT, min(high, at + _REACH))
        while found:
            start = found.start() - _MODE_AT
            if (start - 12) % 8 == 0 and self._after(start) > 0:
                return start
            found = _MODE.search(self._data, found.start() + 1, min(high, at + _REACH))
        return -1

    def _name_at(self, start: int) -> int:
        return start + HEAD + (2 if self._data[start + 60] & EXTENDED else 0)

    def _name(self, start: int) -> bytes:
        name_at = self._name_at(start)
        return self._data[name_at : self._data.find(b"\0", name_at)]

    def _after(self, start: int) -> int:
        """Returns the end of the entry that begins here, -1 when none does."""
        data, last = self._data, len(self._data) - TRAILER
        if start + HEAD + 2 > last or not _MODE.match(data, start + _MODE_AT):
            return -1
        length = (data[start + 60] & 0xF) << 8 | data[start + 61]
        name_at = self._name_at(start)
        end = data.find(b"\0", name_at, name_at + max(length + 1, _REACH))
        after = start + ((end - start + 8) & -8)
        if end <= name_at or min(end - name_at, 0xFFF) != length or after > last or any(data[end:after]):
            return -1
        return after
