"""
Checkpoints that are commits on the user's branch and checkpoints of the engine at once.

The commit is for people and their tools: `git log --grep` lists it, a colleague can read it. The engine's checkpoint is for
coming back: it holds the exact bytes, also of what a commit leaves out, and where git stood. Going back saves everything
first, and one `undo` takes it back, files and branch together. Secrets, ignored and excluded files never get into a commit.
In a directory without a repository the engine's checkpoint stands alone, under its own commit's name.
RACE: a file that is edited between the commit and the engine's checkpoint is newer in the checkpoint; none is lost by it.
In a subdirectory of a repository only its own files are committed and restored: the branch belongs to others too, so it never
moves back.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, NamedTuple

from mulligan.committing.commands import Git
from mulligan.committing.commits import InScope, MadeCommit, commit
from mulligan.committing.labels import Label, changed_since, checkpoint_commits, files_of, resolve, write_message
from mulligan.engine.workspace import Workspace
from mulligan.errors import GitFailed, MulliganError, UnknownCheckpoint
from mulligan.model.checkpoint import Checkpoint
from mulligan.model.plan import RestoreReport
from mulligan.scan.trees import commit_scope

DIALECT = {"dialect": "architect"}
IMPORTED = {"dialect": "architect", "imported": True}
_HASH = re.compile(r"[0-9a-f]{7,64}")


class Created(NamedTuple):
    """A new checkpoint; `left_out` are changed files that only a program could turn into what the repository keeps."""

    commit: str
    files: tuple[str, ...]
    when: float
    left_out: tuple[str, ...] = ()
    trouble: MulliganError | None = None


class ListedCommit(NamedTuple):
    """A checkpoint that can be gone back to."""

    commit: str
    label: Label
    when: float
    files: tuple[str, ...] = ()


class CommitCheckpoints:
    """The checkpoint commits of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    # -- saving ---------------------------------------------------------------------------------

    def create(self, label: Label, *, allow_empty: bool = False) -> Created | None:
        """
        Commits what changed and saves it with the engine; None where nothing changed.

        Raises GitFailed when no commit can be made, in the middle of a merge for one: the engine has saved all the same.
        """
        git = Git(self.workspace.root)
        if not git.is_repository:
            return self._without_repository(label, if_changed=not allow_empty)
        label = label._replace(path=os.fsdecode(git.prefix or b""))
        try:
            made = commit(self.workspace.root, write_message(label), self._scope(), allow_empty=allow_empty)
        except GitFailed:
            self._save(label, "", if_changed=True)
            raise
        left_out = tuple(os.fsdecode(path) for path in made.left_out)
        if not made.commit:
            if made.left_out:
                self._save(label, "", if_changed=True)
            return None
        return self._after_commit(label, made, left_out)

    def _after_commit(self, label: Label, made: MadeCommit, left_out: tuple[str, ...]) -> Created:
        trouble: MulliganError | None = None
        try:
            self._save(label, made.commit)
        except MulliganError as error:
            # The commit is there and can be gone back to without the engine's checkpoint; the caller says so.
            trouble = error
        return Created(made.commit, tuple(os.fsdecode(path) for path in made.files), time.time(), left_out, trouble)

    def _without_repository(self, label: Label, *, if_changed: bool) -> Created | None:
        saved = self._save(label, "", if_changed=if_changed, listed=True)
        return Created(saved.commit, saved.files_changed, time.time()) if saved is not None else None

    def _save(self, label: Label, name: str, *, if_changed: bool = False, listed: bool = False) -> Checkpoint | None:
        metadata: dict[str, Any] = {**DIALECT, "step": label.step, "name": label.name, "message": label.message}
        metadata |= {"commit": name, "listed": listed or bool(name)}
        return self.workspace.save(label.subject, kind="step", metadata=metadata, if_changed=if_changed, git=bool(name))

    def _scope(self) -> InScope:
        """Returns who decides on changed paths; the workspace is looked at when the first one is asked about."""
        known: list[InScope] = []

        def decide(path: bytes, tracked: bool) -> bool:  # noqa: FBT001 - the shape that commits ask for
            if not known:
                known.append(commit_scope(self.workspace.not_captured(with_sealed=True)))
            return known[0](path, tracked)

        return decide

    # -- seeing ---------------------------------------------------------------------------------

    def listed(self, *, with_files: bool = False) -> list[ListedCommit]:
        """Returns every checkpoint that can be gone back to, newest first; a rollback hides none."""
        git = Git(self.workspace.root)
        records = self._records()
        alone = [
            ListedCommit(r.commit, _label(r), r.created_at.timestamp(), r.files_changed)
            for r in records
            if not r.metadata["commit"]
        ]
        if not git.is_repository:
            return alone
        exact = {r.metadata["commit"]: r.created_at.timestamp() for r in records if r.metadata["commit"]}
        here = os.fsdecode(git.prefix or b"")
        found = [
            ListedCommit(each.commit, each.label, each.when)
            for each in checkpoint_commits(git, exact)
            if each.label.path == here
        ]
        if with_files:
            files = files_of(git, [each.commit for each in found])
            found = [each._replace(files=files.get(each.commit, ())) for each in found]
        # Git knows seconds; the engine knows which of two within one second came later.
        return sorted([*found, *alone], key=lambda each: exact.get(each.commit, each.when), reverse=True)

    def others(self) -> list[Checkpoint]:
        """Returns the checkpoints of the timeline that are no commits, newest first; safety copies are left out."""
        listed = {record.id for record in self._records()}
        return [each for each in self.workspace.log() if each.kind != "safety" and each.id not in listed]

    def _records(self) -> list[Checkpoint]:
        return [r for r in self.workspace.log(match=DIALECT) if r.metadata.get("listed") and "commit" in r.metadata]

    def find(self, *, step: int | None = None, name: str | None = None) -> ListedCommit | None:
        """Returns the newest checkpoint of a step's number (0: those with a name), or of a pipeline step's name."""
        for each in self.listed():
            numbered = step is not None and (each.label.step or 0) == step
            if numbered or (name is not None and each.label.step is None and each.label.name == name):
                return each
        return None

    def changed_since(self, text: str) -> bool:
        """Returns whether the workspace differs from a checkpoint or commit; raises UnknownCheckpoint for any other text."""
        git = Git(self.workspace.root)
        name = self._resolve(git, text)
        record = self._record(name)
        if record is not None:
            seen = self.workspace.diff(record)
            return bool(seen.added or seen.modified or seen.deleted or seen.renamed)
        in_scope = self._scope()
        return any(in_scope(path, tracked) for path, tracked in changed_since(git, name))

    # -- going back -----------------------------------------------------------------------------

    def rollback(self, text: str) -> RestoreReport:
        """Goes back to a checkpoint or commit, files and branch together; raises UnknownCheckpoint for any other text."""
        git = Git(self.workspace.root)
        name = self._resolve(git, text)
        target = self._record(name)
        if target is None:
            target = self.workspace.import_commit(
                name, name=f"commit {name[:12]}", metadata={**IMPORTED, "commit": name}
            )
        moves = git.is_repository and not git.prefix and bool(target.metadata.get("commit"))
        return self.workspace.restore(target, git=moves)

    def _resolve(self, git: Git, text: str) -> str:
        """Returns the commit that a text means: of the user's repository, or of the engine where that stands alone."""
        name = resolve(git, text) if git.is_repository else None
        if name is None and _HASH.fullmatch(text):
            found = {r.commit for r in self._records() if not r.metadata["commit"] and r.commit.startswith(text)}
            name = found.pop() if len(found) == 1 else None
        if name is None:
            raise UnknownCheckpoint(
                f"{text!r} is no commit here. Nothing was changed.", hint="mulligan architect history"
            )
        return name

    def _record(self, name: str) -> Checkpoint | None:
        """Returns the engine's checkpoint of a commit."""
        for record in self.workspace.log(match=DIALECT):
            if record.metadata.get("commit") == name or (record.commit == name and not record.metadata.get("commit")):
                return record
        return None


def _label(record: Checkpoint) -> Label:
    kept = record.metadata
    return Label(kept["step"], kept["name"], kept["message"])
