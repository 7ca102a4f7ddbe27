"""
The checkpoints of one workspace as PraisonAI counts them: saving, finding, going back, pruning.

Synchronous; the service awaits it in a worker thread, the command line and the session manager call it. Its checkpoints
are ordinary ones of the workspace, marked in their metadata, so `mulligan log` shows them and `mulligan undo` takes a
restore back. The first is made by `begin`: the workspace as it was then, never an empty baseline, so that going back to
it loses nothing. Raises mulligan's own errors; turns none into a result.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from mulligan.dialects.praisonai.types import (
    ChangedFiles,
    Checkpoint,
    CheckpointConfig,
    CheckpointDiff,
    CheckpointResult,
    FileDiff,
)
from mulligan.engine.workspace import Workspace
from mulligan.errors import AmbiguousCheckpoint, MulliganError, UnknownCheckpoint, UserError
from mulligan.loop.makers import maker
from mulligan.model.checkpoint import Checkpoint as Saved
from mulligan.model.diff import RENAMED, Diff
from mulligan.model.plan import RestoreReport
from mulligan.model.policy import Settings
from mulligan.settings import resolve
from mulligan.state.conversation import NAME as CONVERSATION
from mulligan.state.conversation import Conversation
from mulligan.timeline.commits import COUNTED
from mulligan.timeline.stores import discard

OURS = {"dialect": "praisonai"}
INITIAL = "Initial checkpoint"
NO_CHANGES = "No changes to checkpoint"
WAIT = 30.0
#: So many checkpoints beyond the limit stay within reach of `rewind` until the session ends.
GRACE = 100
_ANY_SIZE = 1 << 62
_STEP = re.compile(r"\A\[step-(\d+)\]\s*")


class NotSaved(UserError):
    """Nothing changed, so no checkpoint was made; `held_by` is the checkpoint that holds this state already."""

    def __init__(self, held_by: str) -> None:
        super().__init__(NO_CHANGES)
        self.held_by = held_by


class MadeCheckpoint(NamedTuple):
    """A new checkpoint, and how many the limit took off the list for it."""

    checkpoint: Checkpoint
    pruned: int


def tagged(message: str, step: int | None) -> str:
    """Returns the message with its step in front, in place of one it may carry already."""
    return message if step is None else f"[step-{step}] {_STEP.sub('', message)}"


class History:
    """The checkpoints of one workspace, opened by `begin`."""

    def __init__(self, config: CheckpointConfig, settings: Settings | None = None) -> None:
        self.config = config
        self.conversation: Conversation | None = None
        self.recovered = ""
        self._given = settings
        self._open: Workspace | None = None
        self._hidden = 0

    @property
    def workspace(self) -> Workspace:
        """The workspace; raises UserError before `begin`."""
        if self._open is None:
            raise UserError("Service not initialized")
        return self._open

    @property
    def store_path(self) -> str:
        """The path of the store, which may not exist yet."""
        return self._open.store_path if self._open is not None else self._settings().store

    # -- opening and closing --------------------------------------------------------------------

    def open(self) -> Workspace:
        """Opens the workspace. Writes nothing, unless a restore was interrupted before the conversation."""
        if self._open is None:
            self._open = Workspace(self._settings())
            if self.conversation is not None:
                self.attach(self.conversation)
        return self._open

    def begin(self) -> None:
        """Opens the workspace, keeps it as it is if nothing of ours was saved before, and prunes what is over the limit."""
        try:
            workspace = self.open()
            if not workspace.log(limit=1, match=OURS):
                empty = not workspace.status()["files"]
                self._record(INITIAL, {"initial": True, "empty": empty}, "manual", if_changed=False)
            self.prune()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Releases the workspace."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _settings(self) -> Settings:
        config = self.config
        settings = self._given
        if settings is None:
            store = os.path.join(config.get_checkpoint_dir(), "mulligan") if config.own_storage else None
            settings = resolve(config.workspace_dir, store=store, wait=WAIT)
        capture = settings.capture
        patterns = (*capture.exclude, *(p for p in config.exclude_patterns if p.strip()), *self._own_place(settings))
        largest = config.max_file_size
        size = capture.max_file_size if largest is None else largest or _ANY_SIZE
        return settings._replace(capture=capture._replace(exclude=patterns, max_file_size=size))

    def _own_place(self, settings: Settings) -> list[str]:
        """Returns the pattern that keeps the directory of all stores out, where it is inside the workspace."""
        place = os.path.realpath(self.config.storage_dir or "")
        if not self.config.own_storage or not place.startswith(settings.workspace + "/"):
            return []
        inside = os.path.relpath(place, settings.workspace)
        return ["/" + re.sub(r"([\\*?\[\]])", r"\\\1", inside) + "/"]

    # -- conversation ---------------------------------------------------------------------------

    def attach(self, conversation: Conversation) -> None:
        """Makes a conversation part of every checkpoint; ends a restore that stopped between files and conversation."""
        self.conversation = conversation
        if self._open is None:
            return
        self._open.provide(CONVERSATION, conversation)
        owed = self._open.state_owed()
        if owed is None or not self._holds_conversation(owed):
            return
        about = f"A restore to {owed[:8]} ended with the files and before the conversation."
        if self._open.settle_state():
            self.recovered = f"{about} The conversation was restored now, so files and conversation match again."
        else:
            self.recovered = f"{about} The files have moved on since; the conversation was left as it is."

    def _holds_conversation(self, checkpoint_id: str) -> bool:
        try:
            return CONVERSATION in self.workspace.get(checkpoint_id).state
        except UnknownCheckpoint:
            return False  # deleted since: there is nothing to hand back

    # -- saving ---------------------------------------------------------------------------------

    def save(
        self,
        message: str,
        *,
        allow_empty: bool = False,
        step: int | None = None,
        kind: str = "manual",
        extra: dict[str, Any] | None = None,
    ) -> MadeCheckpoint:
        """Saves; raises NotSaved where nothing changed and an empty checkpoint is not wanted."""
        if not isinstance(message, str):
            raise UserError(f"A message is text, not {type(message).__name__}. Nothing was saved.")
        if step is not None and (isinstance(step, bool) or not isinstance(step, int) or step < 0):
            raise UserError("step must be a non-negative integer")
        about = {"step": step, **(extra or {})} if step is not None else dict(extra or {})
        saved = self._record(tagged(message, step), about, kind, if_changed=not allow_empty)
        if saved is None and self._unmarked():
            saved = self._record(tagged(message, step), about, kind, if_changed=False)
        if saved is None:
            raise NotSaved(self.workspace.position() or "")
        return MadeCheckpoint(view(saved), self._hide())

    def _record(self, message: str, about: dict[str, Any], kind: str, *, if_changed: bool) -> Saved | None:
        title, _, rest = message.partition("\n")
        author = f"{self.config.user_name} <{self.config.user_email}>"
        return self.workspace.save(
            title,
            description=message if rest else "",
            kind=kind,
            metadata={**OURS, COUNTED: True, "message": message, "author": author, **about},
            if_changed=if_changed,
        )

    def _unmarked(self) -> bool:
        """
        Returns whether a state that is not new is worth a checkpoint of ours all the same.

        The first save after `begin` is: the user asked for it, and the beginning is not theirs. So is one of a state that
        only another part of mulligan (a hook, `mulligan save`) has saved since.
        """
        ours = self.line()
        if not ours:
            return True
        newest, position = ours[0], self.workspace.position()
        if newest.metadata.get("initial") and not newest.metadata.get("empty"):
            return True
        return newest.id != position and not self.workspace.diff(newest.id, position).is_empty

    # -- finding --------------------------------------------------------------------------------

    def all(self) -> list[Saved]:
        """Returns every checkpoint of ours, newest first."""
        return self.workspace.log(match=OURS)

    def listed(self) -> list[Saved]:
        """Returns those within the limit, newest first; the initial one while nothing has been pruned."""
        found, limit = self.all(), self.config.max_checkpoints
        saves = [each for each in found if not each.metadata.get("initial")]
        return saves[:limit] if 0 < limit < len(saves) else found

    def with_others(self) -> list[tuple[str, Checkpoint]]:
        """Returns what is listed and what other tools saved in the same workspace, newest first, each with its maker."""
        listed = {each.id for each in self.listed()}
        everything = [each for each in self.workspace.log() if each.kind != "safety"]
        return [(maker(each), view(each)) for each in everything if each.id in listed or not each.has(OURS)]

    def line(self) -> list[Saved]:
        """Returns ours from the position backward: the newest, the one it was saved from, and so on."""
        known = {each.id: each for each in self.workspace.log()}
        at, found = self.workspace.position(), []
        while at and (saved := known.pop(at, None)) is not None:
            if saved.has(OURS):
                found.append(saved)
            at = saved.parent
        return found

    def find(self, ref: object) -> Saved:
        """Returns what an id, the beginning of one, a checkpoint or a result means; raises UserError otherwise."""
        text = identity(ref)
        ours = [each for each in self.all() if each.id.startswith(text)]
        exact = [each for each in ours if each.id == text]
        if len(exact or ours) == 1:
            return (exact or ours)[0]
        if ours:
            raise AmbiguousCheckpoint(f"Ambiguous checkpoint reference: {text}. Nothing was changed.")
        try:
            found = self.workspace.get(text)
        except UnknownCheckpoint:
            found = None
        # Not by name, and not by a reserved word: those are mulligan's own.
        if found is None or not found.id.startswith(text):
            raise UnknownCheckpoint(f"No checkpoint found for: {text}. Nothing was changed.")
        return found

    def find_step(self, step: int) -> Saved | None:
        """Returns the newest checkpoint of a step, None if there is none."""
        return next((each for each in self.listed() if step_of(each) == step), None)

    def latest(self) -> Saved | None:
        """Returns the newest checkpoint that holds files; an empty beginning does not count."""
        return next((each for each in self.listed() if not each.metadata.get("empty")), None)

    def details(self, saved: Saved) -> Checkpoint:
        """Returns a checkpoint with the lines it added and removed."""
        found = view(saved)
        if saved.parent is not None:
            stat = self.workspace.diff(saved.parent, saved.id).stat
            found.insertions = sum(file.additions for file in stat)
            found.deletions = sum(file.deletions for file in stat)
        return found

    # -- going back -----------------------------------------------------------------------------

    def restore(self, saved: Saved) -> RestoreReport:
        """Takes the workspace back, and the conversation with it if there is one; one undo takes that back."""
        return self.workspace.restore(saved.id, what="all" if self.conversation is not None else "files")

    def rewind_target(self, steps: int) -> Saved:
        """Returns the checkpoint that lies so many of ours before the position; raises UserError where none does."""
        if steps < 1:
            raise UserError("steps must be >= 1")
        line = self.line()
        if steps >= len(line):
            raise UserError(f"Cannot rewind {steps} step(s): only {len(line)} checkpoint(s) available")
        if line[steps].metadata.get("empty"):
            raise UserError(
                f"Cannot rewind {steps} step(s): the workspace was empty before its first checkpoint. Nothing was changed."
            )
        return line[steps]

    def diff(self, old: object = None, new: object = None) -> CheckpointDiff:
        """Returns what differs; `old` defaults to what `new` was saved from, or to the position, `new` to the workspace."""
        to = self.find(new) if new is not None else None
        start = self.find(old).id if old is not None else to.parent if to is not None else self.workspace.position()
        if start is None:
            raise UserError("There is no earlier checkpoint to compare with.")
        diff = self.workspace.diff(start, to.id if to is not None else None)
        files = file_diffs(diff, self.config.workspace_dir, lambda path: self.workspace.cat(start, path))
        return CheckpointDiff(
            files=files, from_id=start, to_id=to.id if to is not None else None, diff_content=diff.patch
        )

    # -- pruning --------------------------------------------------------------------------------

    def _over(self) -> int:
        limit = self.config.max_checkpoints
        return max(sum(not each.metadata.get("initial") for each in self.all()) - limit, 0) if limit > 0 else 0

    def _hide(self) -> int:
        """Counts what the limit takes off the list since last time; deletes what is out of reach of `rewind`, too."""
        over, before = self._over(), self._hidden
        if over > GRACE:
            self.workspace.trim(self.config.max_checkpoints + GRACE, match=OURS)
        self._hidden = self._over() if over > GRACE else over
        return max(over - before, 0)

    def prune(self, *, free: bool = True) -> int:
        """Deletes what is over the limit, and frees its disk if that is wanted; returns how many checkpoints went."""
        gone = self.workspace.trim(self.config.max_checkpoints, match=OURS) if self._over() else []
        self._hidden = self._over() if gone else 0
        if gone and free:
            self.workspace.prune()
        return len(gone)

    def delete(self, saved: Saved) -> Checkpoint:
        """Deletes one checkpoint."""
        return view(self.workspace.delete(saved.id))

    def delete_all(self) -> int:
        """
        Deletes every checkpoint of ours; the store too, if it holds no other checkpoint.

        Returns how many there were. What `mulligan save` or another dialect saved in the same store stays.
        """
        workspace = self._open or Workspace(self._settings())
        try:
            ours = workspace.log(match=OURS)
            others = [each for each in workspace.log() if not each.has(OURS) and each.kind != "safety"]
            for saved in ours:
                workspace.delete(saved.id)
            if ours and others:
                workspace.prune()
        finally:
            workspace.close()
            self._open = None
        if not others:
            discard(workspace.settings, below=self.config.get_checkpoint_dir() if self.config.own_storage else "")
        return len(ours)


# -- values ---------------------------------------------------------------------------------------


def identity(ref: object) -> str:
    """Returns the id that a reference is; raises UserError for one that means no checkpoint."""
    if isinstance(ref, CheckpointResult) and not ref.success and not len(ref):
        raise UserError(f"That checkpoint was never made: {ref.error}. Nothing was changed.")
    text = ref.id if isinstance(ref, Checkpoint | Saved) else ref
    if not isinstance(text, str):
        raise UserError(f"A checkpoint id is text, not {type(ref).__name__}. Nothing was changed.")
    plain = str.__str__(text)  # a failed result is false, and may be an id all the same
    if not plain:
        raise UserError("No checkpoint id or step provided")
    return plain


def step_of(saved: Saved) -> int | None:
    """Returns the step of a checkpoint, from its metadata or from the tag of its message."""
    said = saved.metadata.get("step")
    if isinstance(said, int):
        return said
    tag = _STEP.match(str(saved.metadata.get("message", "")))
    return int(tag[1]) if tag else None


def view(saved: Saved) -> Checkpoint:
    """Returns a checkpoint of the workspace in PraisonAI's shape."""
    about = {key: value for key, value in saved.metadata.items() if key not in ("message", "step", COUNTED)}
    return Checkpoint(
        id=saved.id,
        message=saved.metadata.get("message", saved.name or saved.description),
        timestamp=saved.created_at,
        files_changed=ChangedFiles(saved.files_changed),
        step=step_of(saved),
        metadata={**about, "kind": saved.kind, "commit": saved.commit, "parent": saved.parent},
    )


def file_diffs(diff: Diff, workspace: str, before: Callable[[str], bytes]) -> list[FileDiff]:
    """Returns the files of a diff by what happened to them; a rename as the two names it touches."""
    found = []
    for file in diff.stat:
        where = os.path.join(workspace, file.path)
        if file.status == RENAMED and file.old_path is not None:
            lines = 0 if file.binary else len(before(file.old_path).splitlines())
            found.append(FileDiff(file.old_path, os.path.join(workspace, file.old_path), "deleted", 0, lines))
            found.append(FileDiff(file.path, where, "added", max(lines + file.additions - file.deletions, 0)))
        else:
            found.append(FileDiff(file.path, where, file.status, file.additions, file.deletions))
    return sorted(found, key=lambda file: file.path)


def words(error: MulliganError | Exception) -> str:
    """Returns what an error says."""
    return error.message if isinstance(error, MulliganError) else str(error)
