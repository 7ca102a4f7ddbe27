"""
What differs: between two checkpoints, or between one and the workspace.

A path that is there and was not captured is not a deletion, on either side.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mulligan.model.checkpoint import (
    IGNORED,
    NEWLY_IGNORED,
    WORKTREE,
    pack_list,
    pack_paths,
)
from mulligan.model.objects import EMPTY_TREE, Change, TreeEntry
from mulligan.model.paths import covers, to_text
from mulligan.scan.trees import Scan, cover_of
from mulligan.timeline.commits import Entry
from mulligan.timeline.trees import Trees, permission_changes, state_of

if TYPE_CHECKING:
    from mulligan.model.plan import Action
    from mulligan.model.sealed import Sealed
    from mulligan.timeline.checkpoints import Unsaved

#: Said of a directory that the checkpoint before still held.
TURNED_WORKTREE = "saved until now; it is a git worktree now, with a history of its own"


def changes_since(base: Entry | None, scan: Scan, source: Trees) -> list[Change]:
    """
    Returns the files that differ from a checkpoint; what is there but not captured is not taken for deleted.

    Paths that were captured before and are hidden by an ignore rule now get the reason that makes a checkpoint partial.
    """
    if base is None:
        everything = (Change(path, None, _entry(path, (mode, oid))) for path, mode, oid in scan.captured())
        return sorted(with_secrets(everything, {}, scan.sealed), key=lambda change: change.path)
    if scan.cache.root_tree == base.files_tree:
        found = [Change(path, _entry(path, old), _entry(path, new)) for path, old, new in scan.changes()]
    else:
        found = source.changes(base.files_tree, scan.tree)
    found = with_secrets(found, base.sealed, scan.sealed)
    cover, shown = scan.cover(), []
    for change in found:
        hidden = cover.over(change.path) if change.new is None else None
        if hidden is None:
            shown.append(change)
        elif scan.missed[hidden].reason == WORKTREE:
            scan.missed[hidden] = scan.missed[hidden]._replace(detail=TURNED_WORKTREE)
        elif scan.missed[hidden].reason == IGNORED and to_text(hidden) not in base.by_name:
            scan.missed[hidden] = scan.missed[hidden]._replace(
                reason=NEWLY_IGNORED, detail="saved until now; an ignore rule hides it"
            )
    shown += permission_changes(source, base.trees, state_of(scan))
    shown.sort(key=lambda change: change.path)
    return shown


def paths_since(base: Entry | None, scan: Scan, source: Trees) -> bytes:
    """Returns the paths of `changes_since`, packed; a first checkpoint may have millions, of which nothing else is kept."""
    if base is None:
        if scan.sealed:
            return pack_paths(b"\0".join(sorted([*scan.paths(), *scan.sealed])))
        return pack_paths(b"\0".join(scan.paths()))
    return pack_paths(b"\0".join([change.path for change in changes_since(base, scan, source)]))


def _same_secrets(entry: Entry, scan: Scan) -> bool:
    then, now = entry.sealed, scan.sealed
    return then.keys() == now.keys() and all(file.is_as(now[path]) for path, file in then.items())


def with_secrets(changes: Iterable[Change], old: Sealed, new: Sealed) -> list[Change]:
    """Returns changes of plain files together with those of sealed ones; see `model.sealed.with_sealed`."""
    if not old and not new:
        return list(changes)
    from mulligan.model.sealed import with_sealed

    return with_sealed(changes, old, new)


def _entry(path: bytes, found: tuple[int, bytes] | None) -> TreeEntry | None:
    return None if found is None else TreeEntry(path.rpartition(b"/")[2], *found)


def could_not_see(entry: Entry, actions: Iterable[Action], hidden_after: Callable[[Entry], Unsaved]) -> bool:
    """
    Whether something is to be made where a checkpoint, or one after it, could not see what stood.

    An undo to that checkpoint would not know that nothing was there, and would keep what was made.
    """
    absent = {*entry.absent}
    made = [action.path for action in actions if action.before is None and to_text(action.path) not in absent]
    if not made:
        return False
    lists = (entry.checkpoint.not_captured, *(rows for rows, _ in hidden_after(entry)))
    covers_some = map(cover_of, lists)
    return any(cover.over(path) is not None for cover in covers_some for path in made)


def lists_hidden(entry: Entry, scan: Scan) -> bool:
    """Whether a checkpoint lists as not captured all that a scan did not."""
    return {row.path for row in scan.not_captured()} <= {row.path for row in entry.checkpoint.not_captured}


def same_state(entry: Entry | None, scan: Scan) -> bool:
    """Returns whether a checkpoint holds exactly what a scan found."""
    if entry is None or (entry.modes_tree, entry.defaults) != (scan.modes, tuple(scan.defaults)):
        return False
    return _same_secrets(entry, scan) and scan.tree == entry.files_tree


def pack_changes(source: Trees, parent: Entry | None, child: Entry) -> bytes:
    """Returns the list of files that a checkpoint changed, as it is kept; what it did not capture is not taken for deleted."""
    hidden = cover_of(child.checkpoint.not_captured)
    changes = compare_entries(source, parent, child)
    return pack_list(
        to_text(change.path) for change in changes if change.new is not None or hidden.over(change.path) is None
    )


def compare_entries(source: Trees, a: Entry | None, b: Entry) -> list[Change]:
    """Returns the files that differ between two checkpoints, in contents or permission bits."""
    from mulligan.diff.compare import compare_trees

    found = compare_trees(source.read_tree, a.files_tree if a else EMPTY_TREE, b.files_tree)
    found = with_secrets(found, a.sealed if a else {}, b.sealed)
    if a is not None:
        found += permission_changes(source, a.trees, b.trees)
        found.sort(key=lambda change: change.path)
    return found


def touches(entry: Entry, path: bytes) -> bool:
    """Returns whether a checkpoint changed a path or something below it."""
    return any(covers(path, os.fsencode(name)) for name in entry.checkpoint.files_changed)
