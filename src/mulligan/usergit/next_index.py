"""
The index to be, after git was moved: the recorded one, or that of a commit, as bytes.

What git remembers of a file's times and size is a fact about that file: as long as it was not made within the same tick
as the index, it stays true wherever the index is written, and git reads again each file that does not fit it. An entry
for which it is not certain gets no such memory at all, and git reads the file. Extensions that would not be true of another
moment (untracked files, a file system monitor) are left out. No bytes here are trusted; what cannot be read is None.

Directories that an index is known to hold just as the commit does (its cache-tree says so) are not read from the repository,
so that the work follows what is staged and not the size of the project. A tree or an object that the repository has lost is
noticed here, before anything changes.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mulligan.errors import GitNotMoved
from mulligan.model.gitposition import GitRecord
from mulligan.model.objects import MODE_DIR, TreeEntry
from mulligan.model.paths import ancestors, to_text
from mulligan.usergit.index import (
    EXTENDED,
    GITLINK,
    HEAD,
    MODE_DIRECTORY,
    SKIP_WORKTREE,
    IndexEntry,
    Malformed,
    Shared,
    parse_cache_tree,
    read_index,
)
from mulligan.usergit.objects import Committed, UserObjects, read_committed

#: What to do where git cannot be moved.
ALONE = "Restore the files alone: without git=True, or without --git"
# What git may go on using: the trees of directories, how conflicts were resolved, the sparse form.
_KEPT = (b"TREE", b"REUC", b"sdir")
_NO_TIMES, _NO_SIZE = bytes(24), bytes(12)
# The flags of an entry without the length of its name, which the version of the index decides.
_FLAGS = tuple(bytes([flags & 0xF0]) for flags in range(256))


class Parsed(NamedTuple):
    """An index taken apart: entries in git's order, and extensions by name."""

    rows: list[IndexEntry]
    extensions: dict[bytes, bytes]


def parse(data: bytes, shared: Shared | None = None) -> Parsed | None:
    """Returns the entries and extensions of an index (none for no bytes at all), None when it cannot be understood."""
    if not data:
        return Parsed([], {})
    try:
        rows, extensions = read_index(data, shared)
    except Malformed:
        return None
    if extensions.pop(b"link", None) is not None:
        extensions.pop(b"TREE", None)
    made = list(map(IndexEntry, rows.names, rows.heads))
    if rows.names != sorted(rows.names):  # the two halves of a split index; git sorts what it writes
        made.sort(key=lambda row: (row.name, row.stage))
    return Parsed(made, extensions)


def whole(data: bytes, shared: Shared) -> bytes | None:
    """Returns an index that needs no other file, None when its other half is missing. Bytes that are no index stay as they are."""
    asked: list[bytes | None] = []

    def read(name: bytes) -> bytes | None:
        asked.append(shared(name))
        return asked[-1]

    parsed = parse(data, read)
    if not asked:
        return data
    return encode(parsed.rows, parsed.extensions) if parsed is not None else None


def fingerprint(data: bytes) -> str:
    """Returns what an index stages as a short text that times and sizes do not change, "" for nothing."""
    parsed = parse(data)
    if parsed is None:
        return "bytes:" + hashlib.sha1(data, usedforsecurity=False).hexdigest()
    return fingerprint_of(parsed.rows)


def fingerprint_of(rows: Sequence[IndexEntry]) -> str:
    """Returns the fingerprint of some entries."""
    if not rows:
        return ""
    said = [head[24:28] + head[40:60] + _FLAGS[head[60]] + head[62:63] + name for name, head in rows]
    return hashlib.sha1(b"\0".join(said), usedforsecurity=False).hexdigest()


def settled(rows: Iterable[IndexEntry], mtime_ns: int) -> Iterator[IndexEntry]:
    """Yields entries; clears the stat fields of files that may have changed as the index was written."""
    seconds, rest = divmod(mtime_ns, 1_000_000_000)
    # A time that git has no room for proves nothing.
    newest = struct.pack(">II", seconds, rest) if 0 < seconds < 1 << 32 else bytes(8)
    for row in rows:
        yield row if row.head[8:16] < newest else forgotten(row)


def forgotten(row: IndexEntry) -> IndexEntry:
    """Returns an entry of which nothing is remembered, so that git reads the file."""
    head = row.head
    return IndexEntry(row.name, _NO_TIMES + head[24:28] + _NO_SIZE + head[40:])


def _new_row(path: bytes, found: TreeEntry) -> IndexEntry:
    """Returns a new entry of which nothing is remembered."""
    return IndexEntry(path, _NO_TIMES + found.mode.to_bytes(4, "big") + _NO_SIZE + found.oid + bytes(2))


def with_memory(rows: Iterable[IndexEntry], known: Sequence[IndexEntry]) -> Iterator[IndexEntry]:
    """Yields entries with the stat fields and skip-worktree bits that another index has for them."""
    seen = {row.name: row for row in known if not row.stage}
    sparse = {row.name for row in known if row.head[24:28] == MODE_DIRECTORY}
    for row in rows:
        found = seen.get(row.name)
        if found is not None and found.head[24:28] == row.head[24:28] and found.oid == row.oid:
            yield found
        elif (found is not None and found.skip_worktree) or any(
            above + b"/" in sparse for above in ancestors(row.name)
        ):
            yield IndexEntry(row.name, row.head[:60] + bytes([EXTENDED, 0, SKIP_WORKTREE, 0]))
        else:
            yield row


def joined_index(data: bytes, other: bytes, below: bytes) -> bytes | None:
    """Returns an index with the entries of another one for what lies below a directory (it ends in `/`), None if it cannot be read."""
    mine, theirs = parse(data), parse(other)
    if mine is None or theirs is None:
        return None
    rows = [row for row in mine.rows if not row.name.startswith(below)]
    rows += [row for row in theirs.rows if row.name.startswith(below)]
    return encode(sorted(rows, key=lambda row: (row.name, row.stage)), {})


def encode(rows: Sequence[IndexEntry], extensions: dict[bytes, bytes]) -> bytes:
    """Returns the bytes of an index, in the oldest version that can say it."""
    version = 3 if any(row.head[60] & EXTENDED for row in rows) else 2
    parts = [b"DIRC" + struct.pack(">II", version, len(rows))]
    for name, head in rows:
        flags = struct.pack(">H", (head[60] & 0xF0) << 8 | min(len(name), 0xFFF))
        whole = head[:60] + flags + head[HEAD:] + name
        parts.append(whole + bytes(8 - len(whole) % 8))
    kept = {key: extensions[key] for key in _KEPT if key in extensions}
    if any(row.head[24:28] == MODE_DIRECTORY for row in rows):
        kept.setdefault(b"sdir", b"")
    parts += [key + struct.pack(">I", len(data)) + data for key, data in kept.items()]
    whole = b"".join(parts)
    return whole + hashlib.sha1(whole, usedforsecurity=False).digest()


def next_index(
    objects: UserObjects, tree: bytes | None, recorded: bytes | None, mtime_ns: int, seen: GitRecord
) -> tuple[bytes, tuple[str, ...]]:
    """Returns the bytes of the index to be and notes about it; `recorded` is None where only the commit's tree is known."""
    if recorded is None:
        return _of_commit(objects, tree, seen), ()
    parsed = parse(recorded)
    if parsed is None:
        return recorded, ()
    rows = list(settled(parsed.rows, mtime_ns))
    committed = _look(objects, tree, parsed)
    gone = _gone(objects, committed, parsed)
    if not gone:
        return encode(rows, parsed.extensions), ()
    kept = [row for row in rows if row.name not in gone]
    kept += [_new_row(path, found) for path in gone if (found := committed.files.get(path)) is not None]
    unique = {(row.name, row.stage): row for row in kept}
    note = f"What was staged of {len(gone)} paths is no longer in the repository; they are staged as committed: {_some(gone)}."
    return encode([unique[key] for key in sorted(unique)], {}), (note,)


def _some(paths: set[bytes]) -> str:
    shown = sorted(to_text(path) for path in paths)
    return ", ".join(shown[:3]) + (" …" if len(shown) > 3 else "")


def _of_commit(objects: UserObjects, tree: bytes | None, seen: GitRecord) -> bytes:
    """Returns the index of a commit, with what the present one remembers of the same files."""
    live = parse(seen.index_data) or Parsed([], {})
    known = list(settled(live.rows, seen.index_mtime_ns))
    committed = _look(objects, tree, live)
    names = [row.name for row in known]
    rows = {row.name: row for row in with_memory([_new_row(*each) for each in committed.files.items()], known)}
    for directory in committed.covered:
        high = bisect_left(names, directory[:-1] + b"0") if directory else len(names)
        rows.update((row.name, row) for row in known[bisect_left(names, directory) : high])
    return encode([rows[name] for name in sorted(rows)], {})


def _look(objects: UserObjects, tree: bytes | None, known: Parsed) -> Committed:
    """Reads the trees of a commit, but for those that an index is known to hold; raises GitNotMoved where one is lost."""
    if tree is None:
        return Committed({}, set(), [])
    found = read_committed(objects, tree, parse_cache_tree(known.extensions.get(b"TREE", b"")))
    if found.unread:
        raise GitNotMoved(
            f"The tree of {to_text(found.unread[0]) or 'the commit'!r} cannot be read from the repository. Nothing was changed.",
            hint=ALONE,
        )
    return found


def _gone(objects: UserObjects, committed: Committed, parsed: Parsed) -> set[bytes]:
    """Returns the paths whose staged content is no longer in the repository; what the commit holds is not looked for."""
    files, rest = committed.files, set(committed.others([row.name for row in parsed.rows]))
    odd = [row for row in parsed.rows if row.name in rest and row.mode not in (GITLINK, MODE_DIR)]
    odd = [row for row in odd if row.name not in files or files[row.name].oid != row.oid]
    return {row.name for row in odd if not objects.has(row.oid)} if odd and not objects.is_partial() else set()
