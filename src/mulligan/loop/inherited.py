"""
Records that another tool left in the same place: a commit, and copies of the state files.

They are listed and can be rolled back to, as far as they go: the files of the commit, HEAD, branch and index, then the copies.
What was uncommitted at that time is in none of them. Nothing of them is changed, counted or removed unless asked for.
"""

from __future__ import annotations

from collections.abc import Collection

from mulligan.engine.workspace import Workspace
from mulligan.errors import UserError
from mulligan.loop.project_values import Checkpoint
from mulligan.loop.records import COPIES, ProjectRecords
from mulligan.model.checkpoint import Checkpoint as Saved
from mulligan.safefs.workfile import write_work_file


class InheritedRecords:
    """The records of a project that mulligan did not write."""

    def __init__(self, records: ProjectRecords, workspace: Workspace) -> None:
        self._records = records
        self._workspace = workspace

    def all(self, known: Collection[str] = ()) -> list[Checkpoint]:
        """Returns those that can be read and are not known otherwise, newest first."""
        names = [name for name in self._records.ids() if name not in known]
        found = [each for name in names if (each := self.get(name)) is not None]
        return sorted(found, key=lambda each: (each.timestamp, each.id), reverse=True)

    def get(self, checkpoint_id: str) -> Checkpoint | None:
        """Returns one, None where there is none that can be read."""
        try:
            data = self._records.read(checkpoint_id)
            return None if "mulligan" in data else Checkpoint.from_dict(data)
        except ValueError:
            return None

    def as_saved(self, checkpoint: Checkpoint) -> Saved:
        """Makes an engine's checkpoint of what a record's commit holds; raises, with nothing changed, where there is none."""
        commit = checkpoint.git_state.commit_hash
        if not commit:
            raise UserError(
                f"The record of {checkpoint.id} was made by another tool and names no commit. Nothing was changed.",
                hint=f"Its copies of the state files are in {self._records.place}/{checkpoint.id}",
            )
        about = f"from the record {checkpoint.id}"
        return self._workspace.import_commit(commit, name=checkpoint.name, description=about, kind="automatic")

    def lay_over(self, checkpoint: Checkpoint) -> list[str]:
        """Puts the copies of the state files in place where they differ from the commit's; returns which."""
        written = []
        for name in COPIES:
            copy = self._records.read_file(checkpoint.id, name)
            if copy is not None and copy != self._records.read_beside(name):
                write_work_file(self._workspace.root, name.encode(), copy)
                written.append(name)
        return written
