"""
The checkpoints of an agent's project: the engine's, with a readable record of each beside the project's own files.

A checkpoint is saved by the engine, files and git position together, and is what a rollback restores. Its record (metadata, the
feature list, the progress file) is made from that checkpoint, so both always say the same. A checkpoint whose record was
damaged is refused by a rollback, because the record may no longer describe the files. `repair` writes the record anew.

Blocking; `mulligan.dialects.skill` has the same as coroutines.
"""

from __future__ import annotations

import json
import os
import stat
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from mulligan.engine.workspace import Workspace
from mulligan.errors import MulliganError, NothingSaved, StoreError, UnknownCheckpoint, UnknownPath, UserError
from mulligan.loop.inherited import InheritedRecords
from mulligan.loop.project_values import Checkpoint, CheckpointType, FeatureState, GitState, RollbackResult
from mulligan.loop.records import COPIES, METADATA, PLACE, ProjectRecords, next_id
from mulligan.model.checkpoint import Checkpoint as Saved
from mulligan.model.checkpoint import GitState as Seen
from mulligan.model.paths import to_text
from mulligan.model.policy import as_pattern
from mulligan.safefs.directory import random_name
from mulligan.safefs.errors import typed
from mulligan.settings import resolve
from mulligan.state.project import FEATURE_LIST_FILE, read_features
from mulligan.timeline.commits import COUNTED
from mulligan.usergit.repository import Repository

MARK = {"dialect": "skill"}
KEPT = {CheckpointType.AUTOMATIC: 5, CheckpointType.SESSION: 3}
# Agents work side by side: waiting is better than a checkpoint that was not made.
_WAIT = 60.0
_IDENTITY = "skill:records"
_GIVEN = "skill:newest id"
_PLENTY = 100_000


class ProjectCheckpoints:
    """The checkpoints of one project directory; threads may share one."""

    def __init__(
        self,
        project_dir: str | os.PathLike[str],
        *,
        place: str = PLACE,
        kept: Mapping[CheckpointType, int] | None = None,
        with_git: bool = True,
    ) -> None:
        settings = resolve(project_dir, wait=_WAIT)
        # The state files are the point of a rollback: an ignore rule does not keep them out.
        named = settings.capture.naming(COPIES)
        self.records = ProjectRecords(settings.workspace, place)
        # Everybody leaves out the usual place; another one has to be said.
        unusual = () if self.records.place == PLACE else (f"{as_pattern(self.records.place)}/",)
        capture = named._replace(exclude=(*named.exclude, *unusual))
        self._settings = settings._replace(capture=capture)
        self._workspace: Workspace | None = None
        self._opening = threading.Lock()
        self._kept = dict(KEPT if kept is None else kept)
        self._with_git = with_git

    @property
    def workspace(self) -> Workspace:
        """The engine's workspace behind these checkpoints."""
        with self._opening:
            if self._workspace is None:
                self._workspace = Workspace(self._settings)
                # Users of the skill never close anything; what is open goes with this object.
                weakref.finalize(self, self._workspace.close)
            return self._workspace

    @property
    def inherited(self) -> InheritedRecords:
        """The records that another tool left here."""
        return InheritedRecords(self.records, self.workspace)

    def close(self) -> None:
        """Releases files and memory; the next use opens them again."""
        if self._workspace is not None:
            self._workspace.close()

    # -- making -----------------------------------------------------------------------------------

    def create(
        self,
        name: str = "",
        description: str = "",
        checkpoint_type: CheckpointType = CheckpointType.MANUAL,
        context: Mapping[str, Any] | None = None,
    ) -> Checkpoint:
        """Saves the project and writes the record of it; then lets go what its type does not keep."""
        moment = datetime.now(UTC).astimezone().replace(tzinfo=None, microsecond=0)
        # Asked first: a directory without a project is refused before anything is created in it.
        known = self.workspace.log(match=MARK)
        ids = {saved.metadata["id"] for saved in known}
        with _system_refusals():
            checkpoint_id = self.records.claim(self._new_ids(moment, ids))
            try:
                saved = self._save(name, description, checkpoint_type, context, checkpoint_id, moment)
            except BaseException:
                self.records.release(checkpoint_id)
                raise
            checkpoint = self._write_record(saved)
        same = [each for each in known if each.metadata["checkpoint_type"] == checkpoint_type.value]
        gone = self._trim(checkpoint_type) if len(same) >= self._kept.get(checkpoint_type, _PLENTY) else []
        self._remove_orphans({*ids, checkpoint_id}.difference(gone))
        return checkpoint

    def _new_ids(self, moment: datetime, known: set[str]) -> Iterator[str]:
        """
        Yields ids that no checkpoint of this project ever had.

        The newest one is a note in the store, and ids only grow: one that retention or `delete` freed stays unused.
        """
        while True:
            fresh = self.workspace.update_note(_GIVEN, lambda newest: next_id(moment, newest))
            if fresh not in known:
                yield fresh

    def _save(
        self,
        name: str,
        description: str,
        checkpoint_type: CheckpointType,
        context: Mapping[str, Any] | None,
        checkpoint_id: str,
        moment: datetime,
    ) -> Saved:
        about = {
            **MARK,
            COUNTED: True,
            "id": checkpoint_id,
            "checkpoint_type": checkpoint_type.value,
            "timestamp": moment.isoformat(),
            "not_copied": [name for name in COPIES if self._is_odd(name)],
            "below": self._below(),
        }
        saved = self.workspace.save(
            name,
            description=description,
            kind=checkpoint_type.value,
            context=context,
            metadata=about,
            git=self._with_git,
        )
        if saved is None:
            raise UserError("Nothing was saved.")  # only with if_changed, which is off
        return saved

    def _below(self) -> str:
        """Returns where in its repository the project lies, "" for all of it: git names files from there."""
        repo = Repository.find(self._settings.workspace, home=self._settings.home)
        if repo is None:
            return ""
        with repo:
            return to_text(repo.prefix)

    def _is_odd(self, name: str) -> bool:
        """Whether something other than a file stands there: a link is captured as the link it is, and has no copy."""
        try:
            return not stat.S_ISREG(os.lstat(os.path.join(self._settings.workspace, name)).st_mode)
        except OSError:
            return False  # nothing there, so nothing odd

    def _write_record(self, saved: Saved) -> Checkpoint:
        checkpoint = self._shown(saved)
        note = {"checkpoint": saved.id, "records": self._identity()}
        document = {**checkpoint.to_dict(), "mulligan": note}
        text = json.dumps(document, indent=2, ensure_ascii=True) + "\n"
        self.records.write(checkpoint.id, {**self._copies(saved), METADATA: text.encode("ascii")})
        return checkpoint

    def _identity(self) -> str:
        """Returns a word that tells this project's records from those that came with a clone."""
        known: str | None = self.workspace.note(_IDENTITY)
        if known is None:
            known = self.workspace.update_note(_IDENTITY, lambda old: old or random_name(8))
        return str(known)

    def _copies(self, saved: Saved) -> dict[str, bytes]:
        """Returns the state files as the checkpoint holds them."""
        return {name: data for name in COPIES if (data := self._copy(saved, name)) is not None}

    def _copy(self, saved: Saved, name: str) -> bytes | None:
        if name not in saved.metadata.get("not_copied", ()):
            # Retention of another process may remove a checkpoint between the save or the listing and this line.
            with suppress(UnknownPath, UnknownCheckpoint):
                return self.workspace.cat(saved, name)
        return None

    # -- seeing -----------------------------------------------------------------------------------

    def all(self) -> list[Checkpoint]:
        """Returns the checkpoints, newest first, and behind them the records that another tool left."""
        own = [self._shown(saved) for saved in self.workspace.log(match=MARK)]
        return own + self.inherited.all({checkpoint.id for checkpoint in own})

    def get(self, checkpoint_id: str) -> Checkpoint | None:
        """Returns one checkpoint, None where there is none of that id."""
        saved = self._find(checkpoint_id)
        return self._shown(saved) if saved is not None else self.inherited.get(checkpoint_id)

    def latest(self) -> Checkpoint | None:
        """Returns the newest checkpoint of any type, None where there is none."""
        found = self.workspace.log(match=MARK, limit=1)
        return self._shown(found[0]) if found else next(iter(self.inherited.all()), None)

    def _find(self, checkpoint_id: str) -> Saved | None:
        found = self.workspace.log(match={**MARK, "id": checkpoint_id}, limit=1)
        return found[0] if found else None

    def _shown(self, saved: Saved) -> Checkpoint:
        checkpoint_id = saved.metadata["id"]
        features = read_features(self._copy(saved, FEATURE_LIST_FILE))
        git = saved.git
        return Checkpoint(
            checkpoint_id,
            saved.name,
            saved.description,
            saved.metadata["timestamp"],
            CheckpointType.of(saved.metadata["checkpoint_type"]),
            _git_state(git, saved.metadata.get("below", "")),
            FeatureState(
                features.current,
                list(features.completed),
                self.records.path_of(checkpoint_id, FEATURE_LIST_FILE),
            ),
            dict(saved.context),
            saved.id,
        )

    def git_state(self) -> GitState:
        """Returns where the project's git repository stands now."""
        git = self.workspace.status()["git"]
        return _git_state(Seen(**git) if git else None, self._below())

    # -- going back -------------------------------------------------------------------------------

    def rollback(self, checkpoint_id: str) -> RollbackResult:
        """Restores files, HEAD, branch, index and state files; a refusal changes nothing and is false."""
        try:
            with _system_refusals():
                saved, inherited = self._usable(checkpoint_id)
                report = self.workspace.restore(saved, git=self._with_git)
                laid_over = self.inherited.lay_over(inherited) if inherited is not None else []
        except StoreError:
            raise  # not a refusal: what is stored, or the disk itself, is in trouble
        except MulliganError as refusal:
            return RollbackResult(False, checkpoint_id, refusal.message, refusal.hint)
        failed = [keep.path for keep in report.kept if keep.failed]
        error = f"{len(failed)} paths could not be restored and were kept: {', '.join(failed[:5])}" if failed else ""
        git = saved.git
        return RollbackResult(
            not failed,
            checkpoint_id,
            error,
            "mulligan undo" if failed else "",
            sorted({*report.created, *report.modified, *laid_over}),
            [path for path in report.deleted if path not in laid_over],
            [keep.path for keep in report.kept],
            git.commit_hash if git is not None else "",
            git.branch if git is not None else "",
            report.undo,
        )

    def preview(self, checkpoint_id: str) -> dict[str, Any]:
        """Returns what a rollback would do, as JSON can hold it; raises where it would be refused. Changes nothing."""
        saved, _ = self._usable(checkpoint_id)
        return self.workspace.plan(saved, git=self._with_git).to_dict()

    def rollback_to_latest(self) -> RollbackResult:
        """Goes back to the newest checkpoint of any type."""
        newest = self.latest()
        if newest is None:
            return RollbackResult(False, "", "There is no checkpoint yet. Nothing was changed.", "mulligan save")
        return self.rollback(newest.id)

    def _usable(self, checkpoint_id: str) -> tuple[Saved, Checkpoint | None]:
        """
        Returns the checkpoint of an id, its record proven whole; raises, with nothing changed, where it is not.

        Of a record that another tool left, a checkpoint is made from its commit, and the record is returned too.
        """
        if not isinstance(checkpoint_id, str):
            raise UserError("A checkpoint is named by its id, which is text. Nothing was changed.")
        self._finish_claimed()
        saved = self._find(checkpoint_id)
        if saved is None and (inherited := self.inherited.get(checkpoint_id)) is not None:
            return self.inherited.as_saved(inherited), inherited
        if saved is None:
            raise UnknownCheckpoint(
                f"There is no checkpoint {checkpoint_id!r}. Nothing was changed.", hint="List them: mulligan log"
            )
        try:
            Checkpoint.from_dict(self.records.read(checkpoint_id))
            for name, data in self._copies(saved).items():
                if self.records.read_file(checkpoint_id, name) != data:
                    where = self.records.path_of(checkpoint_id, name)
                    raise ValueError(f"{where} is missing or no longer what was saved")
        except ValueError as broken:
            raise UserError(
                f"The record of {checkpoint_id} is damaged: {broken}. Nothing was changed, and the files that it saved are safe.",
                hint=f"Write the record anew with repair_checkpoint({checkpoint_id!r}), or: mulligan restore {saved.short_id}",
            ) from None
        return saved, None

    def repair(self, checkpoint_id: str) -> Checkpoint | None:
        """Writes the record of a checkpoint anew from what was saved; None where there is no such checkpoint."""
        saved = self._find(checkpoint_id)
        if saved is None:
            return None
        with _system_refusals():
            self.records.remove(checkpoint_id)
            return self._write_record(saved)

    def _finish_claimed(self) -> None:
        """Writes the records that a killed process did not come to."""
        for checkpoint_id in self.records.claimed():
            saved = self._find(checkpoint_id)
            if saved is not None:
                self._write_record(saved)

    # -- letting go -------------------------------------------------------------------------------

    def delete(self, checkpoint_id: str) -> bool:
        """Deletes a checkpoint and its record; returns whether there was one."""
        saved = self._find(checkpoint_id)
        if saved is None and self.inherited.get(checkpoint_id) is None:
            return False
        with _system_refusals():
            if saved is not None:
                self.workspace.delete(saved)
            self.records.remove(checkpoint_id)
        return True

    def retain(self) -> list[str]:
        """Removes expired checkpoints and records without a checkpoint; returns the removed ids."""
        gone = [checkpoint_id for checkpoint_type in self._kept for checkpoint_id in self._trim(checkpoint_type)]
        self._remove_orphans(set())
        return gone

    def _trim(self, checkpoint_type: CheckpointType) -> list[str]:
        match = {**MARK, "checkpoint_type": checkpoint_type.value}
        try:
            gone = self.workspace.trim(self._kept[checkpoint_type], match=match)
        except NothingSaved:
            return []
        return [saved.metadata["id"] for saved in gone]

    def _remove_orphans(self, known: set[str]) -> None:
        """Removes the records of checkpoints that are gone; `known` are those that were there a moment ago."""
        with _system_refusals():
            # The names first: a record made after this line is not among them, and its checkpoint existed before it.
            names = self.records.ids()
            alive = {saved.metadata["id"] for saved in self.workspace.log(match=MARK)} if {*names} != known else known
            for name in names:
                if name not in alive and self._is_ours(name):
                    self.records.remove(name)
            self.records.sweep(lambda checkpoint_id: checkpoint_id in alive)

    def _is_ours(self, checkpoint_id: str) -> bool:
        try:
            note = self.records.read(checkpoint_id).get("mulligan")
        except ValueError:
            return False  # damaged, or another tool's: nothing that may be removed without being asked
        return isinstance(note, dict) and note.get("records") == self._identity()


def _git_state(git: Seen | None, below: str) -> GitState:
    """Returns where git stood, its files named as `git status` names them: from the top of the repository."""
    if git is None:
        return GitState("", "", [])
    return GitState(git.commit_hash, git.branch, [os.path.join(below, path) for path in git.dirty_files])


@contextmanager
def _system_refusals() -> Iterator[None]:
    """Turns what the system refuses about a record into an error of ours."""
    try:
        yield
    except OSError as error:
        raise typed(error) from error
