"""
What differs between two states, as JSON: the list of files first, the lines of a file when the page shows it.

`NOTHING` as the first state means that the second is shown whole; `NOW` as the second is the workspace as it is. Either may be a
fork of the project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mulligan.errors import UserError
from mulligan.ui.forks import FORK, NOTHING, NOW, difference

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.model.diff import Diff, FileStat

#: Up to so many files the lines are counted for all of them at once; more are counted file by file, as they are shown.
COUNTED = 200
#: Files whose lines one request may ask for, and what is sent of one file at most.
FILES = 50
LINES, LONGEST_LINE = 120_000, 2000
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)", re.DOTALL)
_NOTES = ("Binary files ", "Files ", "old mode ", "new mode ", "similarity index ")


def overview(workspace: Workspace, a: str, b: str) -> dict[str, Any]:
    """Returns which files differ from one state to another, with line counts where there are not too many."""
    with _diff(workspace, a, b, None) as diff:
        files = [{"path": path, "status": "added"} for path in diff.added]
        files += [{"path": path, "status": "modified"} for path in diff.modified]
        files += [{"path": path, "status": "deleted"} for path in diff.deleted]
        files += [{"path": new, "status": "renamed", "old_path": old} for old, new in diff.renamed]
        if len(files) <= COUNTED:
            files = [stat.to_dict() for stat in diff.stat]
        return {"from": diff.from_, "to": diff.to, "files": sorted(files, key=lambda each: str(each["path"]))}


def lines_of(workspace: Workspace, a: str, b: str, paths: list[str]) -> dict[str, Any]:
    """Returns the hunks of some files."""
    if len(paths) > FILES:
        raise UserError(f"At most {FILES} files at a time. Nothing was read.")
    wanted = set(paths)
    with _diff(workspace, a, b, paths) as diff:
        sections = zip(diff.stat, _sections(diff.patch), strict=False)
        return {"files": [_file(stat, *section) for stat, section in sections if stat.path in wanted]}


@contextmanager
def _diff(workspace: Workspace, a: str, b: str, paths: list[str] | None) -> Iterator[Diff]:
    if a.startswith(FORK) or b.startswith(FORK):
        with difference(workspace, a, b, paths) as found:
            yield found
    elif a != NOTHING:
        yield workspace.diff(a, None if b == NOW else b, paths=paths)
    elif b == NOW:
        raise UserError("The workspace is compared with a checkpoint, not with nothing.")
    else:
        yield workspace.contents(b)


def _file(stat: FileStat, head: list[str], body: list[str]) -> dict[str, Any]:
    hunks: list[dict[str, Any]] = []
    for line in body[:LINES]:
        found = _HUNK.fullmatch(line) if line.startswith("@@") else None
        if found:
            hunks.append({"old": int(found[1]), "new": int(found[3]), "about": found[5], "lines": []})
        else:
            hunks[-1]["lines"].append(line if len(line) <= LONGEST_LINE else _cut(line))
    return {
        **stat.to_dict(),
        "hunks": hunks,
        "notes": [line for line in head if line.startswith(_NOTES)],
        "left_out": max(len(body) - LINES, 0),
    }


def _cut(line: str) -> str:
    return f"{line[:LONGEST_LINE]} … {len(line) - LONGEST_LINE:,} more characters"


def _sections(patch: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yields head and body of each file of a patch; the counts of a hunk, not its looks, tell where it ends."""
    head: list[str] = []
    body: list[str] = []
    old = new = 0
    for line in patch.split("\n")[:-1]:
        if old > 0 or new > 0 or line.startswith("\\"):
            old -= line[:1] in {" ", "-"}
            new -= line[:1] in {" ", "+"}
            body.append(line)
        elif found := _HUNK.fullmatch(line):
            old, new = int(found[2] or 1), int(found[4] or 1)
            body.append(line)
        else:
            if line.startswith("diff --git ") and head:
                yield head, body
                head, body = [], []
            head.append(line)
    if head:
        yield head, body
