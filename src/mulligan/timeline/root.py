"""
The workspace's own directory: there, gone, or replaced by another.

A directory that is gone is made again by the verb that brings its files back. In a directory that is not the one the history
was made in, nothing is restored until a person saves it or says that it is the same project.
"""

from __future__ import annotations

import os

from mulligan.errors import UserError, WorkspaceGone, WorkspaceReplaced
from mulligan.safefs.directory import is_missing
from mulligan.safefs.durable import make_directories
from mulligan.timeline.commits import Entry
from mulligan.timeline.identity import is_unmounted
from mulligan.timeline.vault import Vault


class Root:
    """The directory that a workspace is."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._path = vault.settings.workspace

    def is_gone(self) -> bool:
        """Returns whether the directory does not exist any more."""
        return is_missing(self._path)

    def is_lost(self) -> bool:
        """Returns whether the files are gone with their directory: it is missing, or an empty one was made in its place."""
        if self.is_gone():
            return True
        return self._vault.is_replaced() and not os.listdir(self._path)

    def refuse_gone(self) -> None:
        """Raises WorkspaceGone where there is no directory to save."""
        if self.is_gone():
            raise self.gone()

    def gone(self) -> WorkspaceGone:
        """Returns the error that says that the directory is gone, and what brings it back."""
        return WorkspaceGone(
            f"{self._path} does not exist any more, so there is nothing to save. Its checkpoints are safe.",
            hint=f"Bring it back: mulligan -C {self._path} undo",
        )

    def prepare(self) -> None:
        """Makes the directory ready for a restore: makes it again if it is gone; WorkspaceReplaced if it is another."""
        if self.is_gone():
            self._make_again()
        elif self._vault.is_replaced():
            if os.listdir(self._path):
                raise self._replaced()
            self.recognise()  # an empty one: nothing here can be lost

    def refuse_elsewhere(self, entry: Entry) -> None:
        """Raises WorkspaceReplaced for a checkpoint of the directory that stood here before this one."""
        if self._vault.is_elsewhere(entry):
            raise self._replaced()

    def recognise(self) -> None:
        """Notes that the directory that stands here is the project that this history is about."""
        with self._vault.database.transaction():
            self._vault.belong()
            self._vault.record_workspace()

    def _make_again(self) -> None:
        was = self._vault.made_again()
        if is_unmounted(was.mount):
            raise WorkspaceGone(
                f"{self._path} was on the disk at {was.mount}, which is not mounted now. Nothing was changed.",
                hint=f"Mount it, or bring the files back without it: mkdir -p {self._path} && mulligan -C {self._path} undo",
            )
        try:
            make_directories(self._path, was.mode)
        except OSError as error:
            raise UserError(
                f"{self._path} cannot be made again ({error.strerror}). Its checkpoints are safe.",
                hint=f"Make it yourself, then: mulligan -C {self._path} undo",
            ) from error
        self.recognise()

    def _replaced(self) -> WorkspaceReplaced:
        return WorkspaceReplaced(
            f"{self._path} looks like a different directory from the one its checkpoints belong to (deleted and made again?). "
            "Nothing was changed.",
            hint="If it is the same project, save it as it is first: mulligan save",
        )
