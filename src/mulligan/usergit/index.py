"""
Git's index file, versions 2, 3 and 4: what git tracks, with which mode and content.

An entry is kept as its name and its head: the 62 bytes before the name (64 with the extended flags), undecoded. That is
what makes a hundred thousand entries cheap; an `IndexEntry` takes one apart. Lengths are checked before they are
used; the checksum is not, since git may leave it out and a torn index is not read twice.

`Index` answers questions about a whole file. Stage 0 entries are found by path, unmerged paths are listed apart. Submodules
and the directories of a sparse index are known by name and are not files. `RawIndex` looks up single entries by a search for
their names. A hostile index can make it miss one; it cannot make it fail, or last.

A split index is a small file with the changes, and a shared one with the rest. Its extension names the shared file and holds
two EWAH bitmaps over its entries, those that are gone and those that are replaced; positions are bounded by the shared entries.
The cache-tree says which directories of the index are known to equal which tree. It is a hint: a malformed one is none.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from mulligan.model.paths import ancestors

INDEX_LIMIT = 128 << 20
_WORD = 64
Shared = Callable[[bytes], bytes | None]


class Malformed(ValueError):
    """The bytes are not what the format says."""


HEAD = 62
TRAILER = 20
# More than the largest projects have; each costs memory and time.
ENTRIES_LIMIT = 1_000_000
# What the names of a version 4 index may unfold to: each entry can repeat all of the name before it.
NAMES_LIMIT = 256 << 20

GITLINK = 0o160000
MODE_GITLINK = b"\0\0\xe0\0"
MODE_DIRECTORY = b"\0\0\x40\0"

ASSUME_VALID, EXTENDED, STAGE = 0x80, 0x40, 0x30
SKIP_WORKTREE, INTENT_TO_ADD = 0x40, 0x20


class IndexEntry(NamedTuple):
    """One entry: its name, and the bytes before the name."""

    name: bytes
    head: bytes

    @property
    def mode(self) -> int:
        """The file's mode."""
        return int.from_bytes(self.head[24:28], "big")

    @property
    def oid(self) -> bytes:
        """The object that is staged."""
        return self.head[40:60]

    @property
    def size(self) -> int:
        """The size that the file had, its lower 32 bits."""
        return int.from_bytes(self.head[36:40], "big")

    @property
    def mtime_ns(self) -> int:
        """When the file had last been written."""
        return int.from_bytes(self.head[8:12], "big") * 1_000_000_000 + int.from_bytes(self.head[12:16], "big")

    @property
    def stage(self) -> int:
        """0, or which side of a conflict this is."""
        return (self.head[60] & STAGE) >> 4

    @property
    def assume_valid(self) -> bool:
        """Whether git does not look at the file."""
        return bool(self.head[60] & ASSUME_VALID)

    @property
    def skip_worktree(self) -> bool:
        """Whether the file is left out of a sparse work tree."""
        return len(self.head) > HEAD and bool(self.head[HEAD] & SKIP_WORKTREE)

    @property
    def intent_to_add(self) -> bool:
        """Whether the path is to be added, and nothing of it is staged yet."""
        return len(self.head) > HEAD and bool(self.head[HEAD] & INTENT_TO_ADD)


class IndexRows(NamedTuple):
    """The entries in the file's order, and where they end."""

    names: list[bytes]
    heads: list[bytes]
    end: int


def read_index(data: bytes, shared: Shared | None = None) -> tuple[IndexRows, dict[bytes, bytes]]:
    """Returns all entries and extensions; `shared` reads the other half of a split index. Raises Malformed."""
    rows = _read_rows(data)
    extensions = read_extensions(data, rows.end)
    link = extensions.get(b"link")
    if link is None or (link[:20] == bytes(20) and len(link) >= 20):
        return rows, extensions
    other = shared(b"sharedindex." + link[:20].hex().encode("ascii")) if shared and len(link) >= 20 else None
    if other is None:
        raise Malformed("shared index")
    base = _read_rows(other)
    return IndexRows(*merge((base.names, base.heads), (rows.names, rows.heads), link), rows.end), extensions


def _read_rows(data: bytes) -> IndexRows:
    version, count = header(data)
    try:
        rows = _read_compressed(data, count) if version == 4 else _read_padded(data, count, version)
    except IndexError:
        raise Malformed("cut short") from None
    if rows.end > len(data) - TRAILER:
        raise Malformed("entries beyond the end")
    return rows


def _read_padded(data: bytes, count: int, version: int) -> IndexRows:
    names: list[bytes] = []
    heads: list[bytes] = []
    add_name, add_head, at = names.append, heads.append, 12
    for _ in range(count):
        high = data[at + 60]
        start = at + HEAD
        if high & EXTENDED:
            if version < 3:
                raise Malformed("extended flags")
            start += 2
        length = (high & 0xF) << 8 | data[at + 61]
        end = start + length if length < 0xFFF else data.find(b"\0", start)
        if data[end] or end < start:
            raise Malformed("name")
        add_name(data[start:end])
        add_head(data[at:start])
        at += (end - at + 8) & -8
    return IndexRows(names, heads, at)


def _read_compressed(data: bytes, count: int) -> IndexRows:
    names: list[bytes] = []
    heads: list[bytes] = []
    name, unfolded, at = b"", 0, 12
    for _ in range(count):
        start = at + HEAD + (2 if data[at + 60] & EXTENDED else 0)
        strip, begin = data[start], start + 1
        while data[begin - 1] & 0x80:
            strip = ((strip & 0x7F if begin == start + 1 else strip) + 1 << 7) | data[begin] & 0x7F
            begin += 1
            if strip > len(name):
                raise Malformed("name")  # now: a number of a million bytes is not worked out
        end = data.find(b"\0", begin)
        if end < 0 or strip > len(name):
            raise Malformed("name")
        name = name[: len(name) - strip] + data[begin:end]
        unfolded += len(name)
        if unfolded > NAMES_LIMIT:
            raise Malformed("names")
        names.append(name)
        heads.append(data[at:start])
        at = end + 1
    return IndexRows(names, heads, at)


def header(data: bytes) -> tuple[int, int]:
    """Returns version and number of entries; raises Malformed."""
    if len(data) < 12 + TRAILER or data[:4] != b"DIRC":
        raise Malformed("signature")
    version, count = struct.unpack_from(">II", data, 4)
    # Two bytes of name and padding are the least an entry has beside its head.
    if version not in (2, 3, 4) or count > ENTRIES_LIMIT or count * (HEAD + 2) > len(data):
        raise Malformed("header")
    return version, count


def read_extensions(data: bytes, at: int) -> dict[bytes, bytes]:
    """Returns the extensions from an offset on; raises Malformed, also for one that must be understood and is not."""
    found: dict[bytes, bytes] = {}
    end = len(data) - TRAILER
    while at < end:
        if at + 8 > end:
            raise Malformed("extension header")
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "big")
        at += 8
        if at + size > end:
            raise Malformed("extension")
        if name[0] >= 0x60 and name not in (b"link", b"sdir"):
            raise Malformed("unknown extension")
        found[name] = data[at : at + size]
        at += size
    return found


def parse_link(data: bytes, limit: int) -> tuple[list[int], list[int]]:
    """Returns the positions of deleted and of replaced shared entries; raises Malformed."""
    if len(data) == 20:  # a shared file without any change
        return [], []
    deleted, at = _bitmap(data, 20, limit)
    replaced, _ = _bitmap(data, at, limit)
    return deleted, replaced


def _bitmap(data: bytes, at: int, limit: int) -> tuple[list[int], int]:
    if at + 8 > len(data):
        raise Malformed("bitmap header")
    words = struct.unpack_from(">I", data, at + 4)[0]
    end = at + 8 + words * 8
    # At the worst, each word of bits has a marker word of its own.
    if end + 4 > len(data) or words > 2 * (limit // _WORD + 1) + 2:
        raise Malformed("bitmap words")
    return _positions(struct.unpack_from(f">{words}Q", data, at + 8), limit), end + 4


def _positions(words: tuple[int, ...], limit: int) -> list[int]:
    found: list[int] = []
    base = at = 0
    while at < len(words):
        marker = words[at]
        run, literals = (marker >> 1) & 0xFFFFFFFF, marker >> 33
        if marker & 1 and run:
            found.extend(range(base, min(base + run * _WORD, limit + 1)))
        base += run * _WORD
        for word in words[at + 1 : at + 1 + literals]:
            if word and base >= limit:
                raise Malformed("bitmap beyond the shared index")
            found.extend(base + bit for bit in range(_WORD) if word >> bit & 1)
            base += _WORD
        at += 1 + literals
    if found and found[-1] >= limit:
        raise Malformed("bitmap beyond the shared index")
    return found


def merge(
    shared: tuple[list[bytes], list[bytes]], own: tuple[list[bytes], list[bytes]], link: bytes
) -> tuple[list[bytes], list[bytes]]:
    """Returns names and heads of the whole index from those of its two files; raises Malformed."""
    names, heads = list(shared[0]), list(shared[1])
    deleted, replaced = parse_link(link, len(names))
    if len(replaced) > len(own[0]):
        raise Malformed("more replacements than entries")
    for position, name, head in zip(replaced, own[0], own[1], strict=False):
        if name:
            raise Malformed("a replacement with a name")
        heads[position] = head
    gone = set(deleted)
    kept = [at for at in range(len(names)) if at not in gone]
    added = len(replaced)
    return [names[at] for at in kept] + own[0][added:], [heads[at] for at in kept] + own[1][added:]


_DEPTH = 2048
# Several times the directories of the largest projects; a node takes more memory than the six bytes that claim it.
NODES_LIMIT = 300_000


class CacheTree:
    """One directory of the index; `oid` is None when its tree has to be worked out."""

    __slots__ = ("children", "oid")

    def __init__(self, oid: bytes | None) -> None:
        self.oid = oid
        self.children: dict[bytes, CacheTree] = {}


def parse_cache_tree(data: bytes) -> CacheTree | None:
    """Returns the root of the extension's nodes, None when it is empty or malformed."""
    try:
        return _parse(data)
    except (ValueError, IndexError):
        return None


def _parse(data: bytes) -> CacheTree | None:
    root: CacheTree | None = None
    open_nodes: list[tuple[CacheTree, int, int]] = []  # a node, how many of its children are to come, and their depth
    at = nodes = depth = 0
    while at < len(data):
        nodes += 1
        nul = data.index(b"\0", at)
        line = data.index(b"\n", nul, nul + 32)
        entries, subtrees = data[nul + 1 : line].split(b" ")
        name, valid, count = data[at:nul], int(entries) >= 0, int(subtrees)
        at = line + 1 + (20 if valid else 0)
        if at > len(data) or count < 0 or depth > _DEPTH or nodes > NODES_LIMIT:
            return None
        node = CacheTree(data[line + 1 : at] if valid else None)
        if root is None:
            root = node
        else:
            parent, left, depth = open_nodes.pop()
            parent.children[name] = node
            if left > 1:
                open_nodes.append((parent, left - 1, depth))
        if count:
            open_nodes.append((node, count, depth + 1))
        if not open_nodes:
            break
    return root if not open_nodes else None


def root_oid(data: bytes) -> bytes | None:
    """Returns the tree that the whole index is known to be, without taking the rest apart."""
    line = data.find(b"\n", 0, 64)
    if data[:1] != b"\0" or line < 0 or data[1:2] == b"-" or len(data) < line + 21:
        return None
    return data[line + 1 : line + 21]


class Index:
    """
    A parsed index.

    `heads` maps the path of each stage 0 entry to its undecoded head (bytes 24 to 28 are the mode, 40 to 60 the object
    id); it is there for loops over everything. For single entries, unmerged ones too, there is `find`.
    """

    def __init__(self, names: list[bytes], heads: list[bytes], tree: bytes = b"", *, is_split: bool = False) -> None:
        self.heads: dict[bytes, bytes] = dict(zip(names, heads, strict=True))
        odd = [IndexEntry(name, head) for name, head in zip(names, heads, strict=True) if head[60] > 0xF]
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


EMPTY = Index([], [])


def parse_index(data: bytes, *, shared: Shared | None = None) -> Index | None:
    """Returns the index that a file's bytes hold, None when they are malformed; `shared` reads the other half of a split one."""
    try:
        rows, extensions = read_index(data, shared)
        _check_names(rows.names)
    except Malformed:
        return None
    return Index(rows.names, rows.heads, extensions.get(b"TREE", b""), is_split=b"link" in extensions)


def _check_names(names: list[bytes]) -> None:
    """Raises Malformed when a name could lead out of the work tree, which git never writes."""
    joined = b"\0" + b"\0".join(names) + b"\0"
    # One look at everything: in an honest index there is nothing to find, and no name is looked at alone.
    if joined.count(b"\0") == len(names) + 1 and not any(odd in joined for odd in (b"\0/", b"../", b"..\0")):
        return
    for name in names:
        if b"\0" in name or name.startswith(b"/") or b"/../" in b"/" + name + b"/":
            raise Malformed("unsafe name")


# The modes git writes, where an entry has its mode: plain, executable, link, submodule.
_MODE = re.compile(rb"\0\0(?:\x81\xa4|\x81\xed|\xa0\0|\xe0\0)")


class RawIndex:
    """
    Looks up single entries of an index that is not split: 1 ms in a hundred thousand entries, which take 80 to parse.

    `searchable` is False for version 4 and sparse indexes: those have to be read as a whole.
    """

    __slots__ = ("_data", "searchable")

    def __init__(self, data: bytes) -> None:
        """Looks at both ends: that an index is sparse is the last but one that git writes."""
        self._data = data
        try:
            self.searchable = header(data)[0] < 4 and b"sdir\0\0\0\0" not in data[-80:]
        except Malformed:
            self.searchable = False

    def find(self, path: bytes) -> IndexEntry | None:
        """Returns an entry of the path (any of them, when it is unmerged), None where there is none."""
        data, at = self._data, 12
        for _ in range(ENTRIES_LIMIT):  # as many names may end like this one
            at = data.find(path + b"\0", at + 1)
            if at < 0:
                break
            for size in (HEAD, HEAD + 2):
                if (at - size - 12) % 8 == 0 and _is_head(head := data[max(at - size, 12) : at], size, len(path)):
                    return IndexEntry(path, head)
        return None

    def root_tree(self) -> bytes | None:
        """Returns the tree that the whole index is known to be, None where that is not known."""
        at = self._data.rfind(b"TREE\0")
        try:
            return root_oid(read_extensions(self._data, at).get(b"TREE", b"")) if at > 0 else None
        except Malformed:
            return None  # a part of a name


def _is_head(head: bytes, size: int, length: int) -> bool:
    """Returns whether bytes are what stands before a name of so many bytes."""
    if len(head) != size or not _MODE.match(head, 24) or bool(head[60] & EXTENDED) != (size > HEAD):
        return False
    return (head[60] & 0xF) << 8 | head[61] == min(length, 0xFFF)
