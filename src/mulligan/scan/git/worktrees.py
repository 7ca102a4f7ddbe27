"""
Linked worktrees of a repository that stand inside a workspace: workspaces of their own.

A directory counts only if both sides say so: its `.git` file names `worktrees/ID` of the repository, and the `gitdir` file
there names that `.git` file. A `.git` file alone, which anyone can plant, takes no directory out of protection.
LIMIT: worktrees of a repository that is itself nested in the workspace are plain files of the workspace.
"""

from __future__ import annotations

import os

from mulligan.scan.git.files import notice, open_directory, read_file
from mulligan.scan.git.repository import POINTER_LIMIT, Repository, pointed

_MOST = 10_000


def worktrees_inside(repo: Repository, workspace: str) -> frozenset[bytes]:
    """Returns the linked worktrees of a repository that stand inside a workspace, by their paths in it."""
    try:
        with repo.common.child(b"worktrees") as listed:
            names = sorted(listed.names())[:_MOST]
    except OSError as error:
        notice(error)
        return frozenset()
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
