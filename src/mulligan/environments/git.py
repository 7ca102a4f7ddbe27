"""
A directory in a git repository as an environment: a checkpoint is a commit on the branch that is checked out.

Ids are full commit hashes, and `git log` lists them, as Chimera promises. Every checkpoint is saved by the engine too, and a
restore goes through it: exact to the byte, files added later removed, ignored and secret files left alone, one `mulligan undo`
takes it back. A restore brings files and index to the commit; HEAD and the branch stay, so later commits stay on the branch.
A commit that was made without mulligan can be restored as well.

Hooks, filters and signing never run; secrets are not committed. A workspace that is a part of a repository commits and
restores that part alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from mulligan.committing.commands import Git
from mulligan.committing.commits import commit
from mulligan.committing.labels import resolve
from mulligan.environments.base import unknown_checkpoint
from mulligan.environments.local import LocalEnvironment
from mulligan.errors import GitFailed, GitNotMoved, UnknownCheckpoint
from mulligan.model.checkpoint import Checkpoint, NotCaptured, sealed_rows
from mulligan.restore.git import users_repository
from mulligan.safefs.directory import Directory, random_name
from mulligan.safefs.workfile import write_work_file
from mulligan.scan.trees import commit_scope
from mulligan.usergit.position import foreign_format

_HASH = re.compile(r"[0-9a-f]{7,64}", re.IGNORECASE)
_KNOWN = "chimera.git.commits"
_IDENTITY = (("user.name", "Chimera"), ("user.email", "chimera@local"))


class GitEnvironment(LocalEnvironment):
    """A directory in a git repository, made one if it is none."""

    kind = "git"

    # -- life -----------------------------------------------------------------------------------

    def setup(self) -> None:
        """Makes the directory, and a repository with a first commit where it lies in none."""
        super().setup()
        if Git(self._root()).is_repository:
            return
        root = self._root()
        if not os.listdir(root):
            write_work_file(root, b".gitkeep", b"")
        Git(root).run(["init", "-q"], check=True)
        self._introduce(Git(root))
        self._commit("initial", self.workspace.not_captured(with_sealed=True))

    @staticmethod
    def _introduce(git: Git) -> None:
        """Gives a repository that was made here Chimera's identity, unless its user has one."""
        known = {setting.key.lower() for setting in git.settings if setting.value}
        for key, value in _IDENTITY:
            if key not in known:
                git.run(["config", key, value], check=True)

    def clone(self, destination: str | os.PathLike[str] | None = None) -> GitEnvironment:
        """Returns an environment over a clone of the repository: what was committed, in a directory of its own."""
        self.setup()
        git = Git(self._root())
        place = os.path.abspath(destination) if destination is not None else self._new_directory()
        git.run(["clone", "-q", "--local", "--no-hardlinks", "--", git.top, place], check=True)
        below = os.path.join(place, os.fsdecode(git.prefix or b""))
        return type(self)(below, self.test_cmd, self.timeout, self.session)

    def _new_directory(self) -> str:
        parent, name = os.path.realpath(self.workspace.settings.temporary), f"chimera-clone-{random_name(6)}"
        with Directory.open(parent) as directory:
            directory.mkdir(os.fsencode(name))
        return os.path.join(parent, name)

    # -- checkpoints ----------------------------------------------------------------------------

    def checkpoint(self) -> str:
        """Saves the directory, commits it on the branch, and returns the commit's full hash."""
        self.setup()
        saved = self._save()
        made = self._commit("checkpoint", (*saved.not_captured, *sealed_rows(saved.sealed)))
        self.workspace.update_note(_KNOWN, lambda old: {**(old or {}), made: saved.id})
        return made

    def restore(self, checkpoint_id: str) -> None:
        """Brings files and index to a commit, exactly; the branch stays. One `mulligan undo` takes both back."""
        git = Git(self._root())
        name = self._resolve(git, str(checkpoint_id))
        saved = self._of_commit(name)
        try:
            self._bring_back(saved, stage=name)
        except GitNotMoved:
            if not self._is_foreign():
                raise
            # A format of repository that only git itself writes: an undo takes the files alone back.
            self._bring_back(saved)
            git.run(["reset", "-q", name, "--", "."], check=True)

    def checkpoint_ids(self) -> list[str]:
        """Returns the commits that `checkpoint` made, oldest first."""
        return list(self.workspace.note(_KNOWN, {}))

    def _commit(self, message: str, not_captured: Sequence[NotCaptured]) -> str:
        return commit(self._root(), message.encode(), commit_scope(not_captured), allow_empty=True).commit

    def _resolve(self, git: Git, checkpoint_id: str) -> str:
        """Returns the full hash of a commit; ValueError for anything that is none."""
        if not git.is_repository or not _HASH.fullmatch(checkpoint_id):
            raise unknown_checkpoint(checkpoint_id)
        name = resolve(git, checkpoint_id)
        if name is None:
            raise unknown_checkpoint(checkpoint_id)
        return name

    def _is_foreign(self) -> bool:
        with users_repository(self.workspace.settings) as repo:
            return repo is not None and bool(foreign_format(repo))

    def _of_commit(self, name: str) -> Checkpoint:
        """Returns the checkpoint saved with a commit; makes one from a commit that has none."""
        known: str = self.workspace.note(_KNOWN, {}).get(name, "")
        try:
            if known:
                return self.workspace.get(known)
        except UnknownCheckpoint:
            pass  # retention let it go; the commit is still there
        try:
            return self.workspace.import_commit(name, metadata={**self._mark, "commit": name})
        except GitFailed as error:
            raise ValueError(f"Checkpoint {name} cannot be read: {error}") from error
