"""
The index to be: the recorded one, or that of a commit.

Directories that an index is known to hold just as the commit does (git notes that itself, in the index) are not read from
the repository, so that the work follows what is staged and not the size of the project. A tree or an object that the
repository has lost is noticed here, before anything changes.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from mulligan.errors import GitNotMoved
from mulligan.model.gitposition import GitRecord
from mulligan.model.paths import ancestors, to_text
from mulligan.scan.git.cache_tree import CacheTree, parse_cache_tree
from mulligan.scan.git.objects import Objects
from mulligan.usergit import indexes
from mulligan.usergit.committed import read_tree
from mulligan.usergit.indexes import Parsed, Row
from mulligan.usergit.position import ALONE

# More names than real projects have, fewer than a tree bomb.
_BUDGET = 1_000_000
_LONGEST = 4096
_DIRECTORY, _GITLINK = 0o040000, 0o160000


class Committed(NamedTuple):
    """
    The part of a commit's tree that was read.

    `covered` are directories (each ends in `/`, the root is empty) in which an index is known to be the commit's.
    """

    rows: dict[bytes, Row]
    covered: set[bytes]

    def covers(self, path: bytes) -> bool:
        """Returns whether a path lies in a directory that was not read."""
        return b"" in self.covered or any(above + b"/" in self.covered for above in ancestors(path))


def next_index(
    objects: Objects, tree: bytes | None, recorded: bytes | None, mtime_ns: int, seen: GitRecord
) -> tuple[bytes, tuple[str, ...]]:
    """Returns the bytes of the index to be and notes about it; `recorded` is None where only the commit's tree is known."""
    if recorded is None:
        return _of_commit(objects, tree, seen), ()
    parsed = indexes.parse(recorded)
    if parsed is None:
        return recorded, ()
    rows = list(indexes.settled(parsed.rows, mtime_ns))
    committed = _look(objects, tree, parsed)
    gone = _gone(objects, committed, parsed)
    if not gone:
        return indexes.encode(rows, parsed.extensions), ()
    kept = [committed.rows.get(row.name) if row.name in gone else row for row in rows]
    unique = {(row.name, row.stage): row for row in kept if row is not None}
    note = f"What was staged of {len(gone)} paths is no longer in the repository; they are staged as committed: {_some(gone)}."
    return indexes.encode([unique[key] for key in sorted(unique)], {}), (note,)


def _some(paths: set[bytes]) -> str:
    shown = sorted(to_text(path) for path in paths)
    return ", ".join(shown[:3]) + (" …" if len(shown) > 3 else "")


def _of_commit(objects: Objects, tree: bytes | None, seen: GitRecord) -> bytes:
    """Returns the index of a commit, with what the present one remembers of the same files."""
    live = indexes.parse(seen.index_data) or Parsed([], {})
    known = list(indexes.settled(live.rows, seen.index_mtime_ns))
    committed = _look(objects, tree, live)
    names = [row.name for row in known]
    rows = {row.name: row for row in indexes.with_memory(committed.rows.values(), known)}
    for directory in committed.covered:
        high = bisect_left(names, directory[:-1] + b"0") if directory else len(names)
        rows.update((row.name, row) for row in known[bisect_left(names, directory) : high])
    return indexes.encode([rows[name] for name in sorted(rows)], {})


def _look(objects: Objects, tree: bytes | None, known: Parsed) -> Committed:
    """Reads the trees of a commit, but for those that an index is known to hold."""
    found = Committed({}, set())
    root = parse_cache_tree(known.extensions.get(b"TREE", b""))
    pending: list[tuple[bytes, bytes, CacheTree | None]] = [(b"", tree, root)] if tree is not None else []
    left = _BUDGET
    while pending:
        directory, oid, node = pending.pop()
        if node is not None and node.oid == oid:
            found.covered.add(directory)
            continue
        entries = read_tree(objects, oid)
        left -= 1 + len(entries or ())
        if entries is None or left < 0 or len(directory) > _LONGEST:
            raise GitNotMoved(
                f"The tree of {to_text(directory) or 'the commit'!r} cannot be read from the repository. Nothing was changed.",
                hint=ALONE,
            )
        for name, mode, below in entries:
            path = directory + name
            if mode == _DIRECTORY:
                pending.append((path + b"/", below, node.children.get(name) if node is not None else None))
            else:
                found.rows[path] = indexes.entry(path, mode, below)
    return found


def _gone(objects: Objects, committed: Committed, parsed: Parsed) -> set[bytes]:
    """Returns the paths whose staged content is no longer in the repository; what the commit holds is not looked for."""
    odd = []
    for row in parsed.rows:
        same = committed.rows.get(row.name)
        if (same is None or same.oid != row.oid) and row.mode not in (_GITLINK, _DIRECTORY):
            odd.append(row)
    odd = [row for row in odd if not committed.covers(row.name)]
    return {row.name for row in odd if not objects.has(row.oid)} if odd and not objects.is_partial() else set()
