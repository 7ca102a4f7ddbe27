"""
The git side of a workbench: where the user's repository stands, what a checkpoint recorded of it, how it would move.

Nothing of what reads or moves a repository is loaded before it is needed. The steps of a move are in
`restore.git`, the repository itself is `usergit`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mulligan.errors import GitNotMoved, UserError
from mulligan.model.checkpoint import GitState
from mulligan.model.objects import BLOB
from mulligan.scan.trees import Defaults, Scan
from mulligan.timeline.commits import Entry
from mulligan.timeline.store import Store
from mulligan.timeline.trees import Permissions, Trees

if TYPE_CHECKING:
    from mulligan.model.gitposition import GitMove, GitPosition, GitRecord
    from mulligan.usergit.moving import PlannedMove


class GitSide:
    """The user's repository, as the procedures of one workspace see it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def position(self) -> GitPosition | None:
        """Returns where the repository stands, None where there is none."""
        from mulligan.restore.git import where_git_stands

        record = where_git_stands(self._store.settings)
        return record.position if record is not None else None

    def record(self) -> tuple[GitRecord | None, str]:
        """Returns what a checkpoint keeps of where git stands, None where there is no repository, or with it why it cannot be read."""
        from mulligan.restore.git import to_record

        return to_record(self._store.settings)

    def staged(self) -> GitRecord | None:
        """Returns where git stands if anything is staged; None where nothing is, or it cannot be read."""
        from mulligan.restore.git import staged_record

        return staged_record(self._store.settings)

    def records(self, entry: Entry, git: GitRecord) -> bool:
        """Returns whether a checkpoint recorded git exactly where it stands, all branches that are about to move included."""
        from mulligan.timeline.commits import read_record

        record = read_record(self._store.objects, entry.commit_id)
        return record is not None and record.position == git.position

    def plan(self, entry: Entry) -> PlannedMove | None:
        """Returns how git would move to where it stood at a checkpoint, None when it need not; raises GitNotMoved."""
        from mulligan.restore.git import plan_git

        return plan_git(self._store, entry)

    def plan_staging(self, commit: str) -> PlannedMove | None:
        """Returns how what is staged would become what a commit holds, None when it is; raises GitNotMoved."""
        from mulligan.restore.git import plan_staging_of

        return plan_staging_of(self._store, commit)

    def plan_back(self, entry: Entry) -> PlannedMove | None:
        """As `plan`, for an undo or a redo: who cannot have it with git can have the files."""
        try:
            return self.plan(entry)
        except GitNotMoved as error:
            short = entry.checkpoint.short_id
            raise GitNotMoved(error.message, hint=f"{error.hint}; the files alone: mulligan restore {short}") from None

    def journalled(self, git: PlannedMove, about: str, safety: str, when: int) -> GitMove:
        """Keeps the index to be in the store until the restore is done, and returns the move as it is journalled."""
        index = ""
        if git.index_data is not None:
            with self._store.objects.writer() as writer:
                index = writer.add(BLOB, git.index_data).hex()
                writer.finish()
        return git.move._replace(index_object=index, when=when, about=about, keep=safety)

    def scan_commit(self, commit: str, writer: Any) -> tuple[Scan, GitState]:
        """Returns what a commit holds as if it had been scanned, its blobs given to the writer, and where it belongs."""
        from mulligan.restore.git import users_repository
        from mulligan.scan.from_commit import ImportRules, find_commit, scan_commit

        with users_repository(self._store.settings) as repo:
            if repo is None:
                raise UserError("There is no git repository here to take a commit from. Nothing was saved.")
            full = find_commit(repo, commit)
            rules = ImportRules(self._store.settings.capture, *self._known_bits(), self._store.objects.has)
            return scan_commit(repo, full, rules, writer), GitState(full, repo.head().branch)

    def _known_bits(self) -> tuple[Defaults, Callable[[bytes, int], int | None]]:
        """Returns the usual permission bits at the position, and those of single paths: a commit knows neither."""
        here = self._store.checkpoints.current()
        if here is None:
            return Defaults(), lambda _path, _mode: None
        source, tree = Trees(self._store.objects), here.files_tree
        known = Permissions(source, here.modes_tree, Defaults(*here.defaults))

        def bits(path: bytes, mode: int) -> int | None:
            found = source.lookup(tree, path)
            return known.of(path, mode) if found is not None and found.mode == mode else None

        return Defaults(*here.defaults), bits
