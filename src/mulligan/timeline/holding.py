"""
What a checkpoint holds of some paths, compared with what is there now.

Everything in a workspace is either in the scan or listed by it as not captured. A path is saved where it is in the scan and the
checkpoint has the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from mulligan.model.checkpoint import EXCLUDED, MOVING, NotCaptured
from mulligan.model.holding import Holding
from mulligan.model.objects import MODE_DIR
from mulligan.model.paths import covers, is_dot_git, to_text
from mulligan.timeline import saving
from mulligan.timeline.commits import Entry
from mulligan.timeline.sources import Look

_GIT = "git's own files are never saved"


def holdings(root: str, entry: Entry | None, look: Look, paths: Sequence[bytes]) -> list[Holding]:
    """Returns what an entry holds of each of these paths, which may be spellings of `.git`."""
    rows = [(os.fsencode(row.path) if row.path != "." else b"", row) for row in look.scan.not_captured()]
    changes = saving.changes_since(entry, look.scan, look.source)
    rows += [
        (change.path, NotCaptured(to_text(change.path), MOVING, "changed since the last checkpoint"))
        for change in changes
        if change.new is not None
    ]
    return [_holding(root, entry, look, path, rows) for path in paths]


def _holding(root: str, entry: Entry | None, look: Look, path: bytes, rows: list[tuple[bytes, NotCaptured]]) -> Holding:
    text = to_text(path)
    if any(map(is_dot_git, path.split(b"/"))):
        return Holding(text, 0, (NotCaptured(text, EXCLUDED, _GIT),))
    is_directory = os.path.isdir(os.path.join(root, text)) and not os.path.islink(os.path.join(root, text))
    above = next((row for where, row in rows if covers(where, path)), None)
    if above is not None:
        # Below an ignored directory, what git tracks is saved all the same.
        saved = above.reason != MOVING and (is_directory or look.scan.entry(path) is not None)
        files = _files(entry, look, path) if saved else 0
        lost = is_directory or not files
        return Holding(text, files, (NotCaptured(text, above.reason, above.detail),) if lost else (), is_directory)
    unsaved = [row for where, row in rows if covers(path, where)]
    own = os.path.join(text, ".git")
    if os.path.lexists(os.path.join(root, own)) and all(row.path != own for row in unsaved):
        unsaved.append(NotCaptured(own, EXCLUDED, _GIT))
    files = _files(entry, look, path) - sum(row.reason == MOVING for row in unsaved)
    return Holding(text, max(files, 0), tuple(unsaved), is_directory)


def _files(entry: Entry | None, look: Look, path: bytes) -> int:
    """Returns how many files and links an entry holds at or below a path, sealed ones included."""
    if entry is None:
        return 0
    found = look.source.lookup(entry.files_tree, path)
    sealed = sum(covers(path, each) for each in entry.sealed)
    if found is None or found.mode != MODE_DIR:
        return sealed + (found is not None)
    return sealed + sum(each.mode != MODE_DIR for _, each in look.source.walk(found.oid))
