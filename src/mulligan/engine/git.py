"""
What a checkpoint knows of the user's repository, and a commit as a scan.

The steps of a move of git are in `restore.git`, the repository itself is `usergit`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mulligan.errors import GitNotMoved, UserError
from mulligan.model.checkpoint import GitState
from mulligan.model.objects import BLOB
from mulligan.restore.git import plan_git, users_repository
from mulligan.scan.trees import Defaults, Scan
from mulligan.timeline.commits import Entry
from mulligan.timeline.store import Store
from mulligan.timeline.trees import Permissions, Trees

if TYPE_CHECKING:
    from mulligan.model.gitposition import GitMove, GitRecord
    from mulligan.usergit.moving import PlannedMove


def is_recorded(store: Store, entry: Entry, git: GitRecord) -> bool:
    """Returns whether a checkpoint recorded git exactly where it stands, all branches that are about to move included."""
    from mulligan.timeline.read_commits import read_record

    record = read_record(store.objects, entry.commit_id)
    return record is not None and record.position == git.position


def plan_back(store: Store, entry: Entry) -> PlannedMove | None:
    """As `plan_git`, for an undo or a redo; the error says how to get the files alone."""
    try:
        return plan_git(store, entry)
    except GitNotMoved as error:
        short = entry.checkpoint.short_id
        raise GitNotMoved(error.message, hint=f"{error.hint}; the files alone: mulligan restore {short}") from None


def journalled(store: Store, git: PlannedMove, about: str, safety: str, when: int) -> GitMove:
    """Keeps the index to be in the store until the restore is done, and returns the move as it is journalled."""
    index = ""
    if git.index_data is not None:
        with store.objects.writer() as writer:
            index = writer.add(BLOB, git.index_data).hex()
            writer.finish()
    return git.move._replace(index_object=index, when=when, about=about, keep=safety)


def scan_commit(store: Store, commit: str, writer: Any) -> tuple[Scan, GitState]:
    """Returns what a commit holds as if it had been scanned, its blobs given to the writer, and where it belongs."""
    from mulligan.scan import from_commit

    with users_repository(store.settings) as repo:
        if repo is None:
            raise UserError("There is no git repository here to take a commit from. Nothing was saved.")
        full = from_commit.find_commit(repo, commit)
        rules = from_commit.ImportRules(store.settings.capture, *_known_bits(store), store.objects.has)
        return from_commit.scan_commit(repo, full, rules, writer), GitState(full, repo.head().branch)


def _known_bits(store: Store) -> tuple[Defaults, Callable[[bytes, int], int | None]]:
    """Returns the usual permission bits at the position, and those of single paths: a commit knows neither."""
    here = store.checkpoints.current()
    if here is None:
        return Defaults(), lambda _path, _mode: None
    source, tree = Trees(store.objects), here.files_tree
    known = Permissions(source, here.modes_tree, Defaults(*here.defaults))

    def bits(path: bytes, mode: int) -> int | None:
        found = source.lookup(tree, path)
        return known.of(path, mode) if found is not None and found.mode == mode else None

    return Defaults(*here.defaults), bits
