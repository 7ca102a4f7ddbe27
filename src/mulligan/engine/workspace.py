"""
The verbs: save, see, restore, undo.

Small on purpose: each verb opens the store (`opened`), asks the layer that owns the rule, and tells others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mulligan.engine.access import without_staged
from mulligan.engine.agents import Hunks, Paths, parse_paths
from mulligan.engine.questions import WithQuestions
from mulligan.errors import MulliganError, UserError
from mulligan.model.bounded import read_json
from mulligan.model.checkpoint import KINDS, Checkpoint, NotCaptured, as_json_object, sealed_rows
from mulligan.model.paths import parse_path, to_text
from mulligan.safefs.lock import Pin
from mulligan.timeline.drafts import remove_checkpoint

if TYPE_CHECKING:
    from mulligan.doctor.check import CheckReport, DoctorReport
    from mulligan.doctor.forget import ForgetReport
    from mulligan.model.diff import Diff
    from mulligan.model.gitposition import GitPosition
    from mulligan.model.plan import RestorePlan, RestoreReport
    from mulligan.remotes.pull import PulledReport
    from mulligan.remotes.push import Pushed
    from mulligan.remotes.verbs import Remotes
    from mulligan.steps.hunk import FileHunks

Ref = str | Checkpoint


class Workspace(WithQuestions):
    """A directory under protection. Use `mulligan.open`; threads may share one."""

    # -- saving ---------------------------------------------------------------------------------

    def save(
        self,
        name: str | None = None,
        *,
        description: str = "",
        kind: str = "manual",
        context: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        if_changed: bool = False,
        git: bool = False,
    ) -> Checkpoint | None:
        """
        Saves the whole workspace; with `if_changed`, returns None when nothing changed since the position.

        With `git`, where the user's repository stands (HEAD, branch, index) is recorded too, for `restore(…, git=True)`;
        where it cannot be read, the checkpoint lists `.git` as not captured and is not complete.
        """
        _refuse_unknown_kind(kind)
        parts = {"context": as_json_object(context, "context"), "metadata": as_json_object(metadata, "metadata")}
        given = as_json_object(state, "state")
        with self._writing("save", create=True):
            if name and self._bench.store.checkpoints.is_reserved(name):
                raise UserError(f"{name!r} is a reserved word. Nothing was saved.", hint="Choose another name.")
            if self.settings.append_only and name and self._bench.store.checkpoints.is_prefix(name):
                # A name is found before an id prefix: in append-only mode a new name must not hide an older checkpoint.
                raise UserError(
                    f"An earlier checkpoint's id begins with {name!r}. Nothing was saved: choose another name."
                )
            draft = self._bench.draft(
                name or "", description, kind, state={**self._bench.providers.capture(), **given}, **parts
            )
            if git:
                record, problem = self._bench.git.record()
                draft = draft._replace(git=record, git_problem=problem)
            entry, gone = self._bench.save(draft, if_changed=if_changed, with_state=bool(draft.state))
        if entry is None:
            return None
        self._tell_saved(entry, gone)
        return entry.checkpoint

    # -- seeing ---------------------------------------------------------------------------------

    def log(
        self,
        *,
        limit: int | None = None,
        kind: str | None = None,
        path: str | os.PathLike[str] | None = None,
        match: Mapping[str, Any] | None = None,
        **bounds: Any,
    ) -> list[Checkpoint]:
        """
        Returns the checkpoints, newest first.

        With `path`, those that changed it or something below it; with `match`, those whose metadata hold these pairs.
        `bounds` are `since` and `until` (times, or texts like "yesterday"), `grep` (in names, descriptions, commands and
        prompts), `agent` and `session` (the beginning is enough).
        """
        wanted = parse_path(path) if path is not None else None
        with self._reading() as store:
            if store is None:
                return []
            from mulligan.engine.see import log

            return log(store, limit, kind, wanted, match, bounds)

    # -- other machines ---------------------------------------------------------------------------

    @property
    def remotes(self) -> Remotes:
        """The remotes of this history: storage elsewhere that it is pushed to and pulled from."""
        from mulligan.remotes.verbs import Remotes

        return Remotes(self)

    def push(self, remote: str | None = None) -> Pushed:
        """Sends what is new to a remote (default: the only one)."""
        return self.remotes.push(remote)

    def pull(self, remote: str | None = None) -> PulledReport:
        """Brings other machines' checkpoints here, verified; the workspace is not touched."""
        return self.remotes.pull(remote)

    def get(self, ref: Ref) -> Checkpoint:
        """Returns the checkpoint a reference means; raises UnknownCheckpoint."""
        with self._needing() as store:
            return store.checkpoints.resolve(ref).checkpoint

    def position(self) -> str | None:
        """Returns the id of the checkpoint last saved or restored to."""
        with self._reading() as store:
            return (store.checkpoints.position() or None) if store is not None else None

    def diff(self, a: Ref | None = None, b: Ref | None = None, *, paths: Paths | None = None) -> Diff:
        """Returns what differs from `a` (default: the position) to `b` (default: the workspace); `paths` limits it."""
        from mulligan.timeline.differences import diff_entries, diff_workspace

        chosen = parse_paths(paths, "files")
        with self._needing() as store:
            start = store.checkpoints.resolve(a if a is not None else "@")
            if b is not None:
                return diff_entries(store.objects, start, store.checkpoints.resolve(b), chosen)
            look = self._bench.look(by_name=start.by_name)
            return diff_workspace(store, start, look.scan, self.root, chosen)

    def cat(self, ref: Ref, path: str | os.PathLike[str], *, reveal: bool = False) -> bytes:
        """Returns the bytes of one file at a checkpoint (of a link: where it points); of a secret only to `reveal` it."""
        from mulligan.engine.see import cat

        wanted = parse_path(path)
        with self._needing() as store:
            return cat(store, store.checkpoints.resolve(ref), wanted, reveal=reveal)

    def stats(self) -> dict[str, Any]:
        """Returns what the store holds and uses."""
        from mulligan.engine.see import stats

        with self._reading() as store:
            return stats(self.settings, store)

    def status(self) -> dict[str, Any]:
        """Returns the state of protection: what changed since the position, what is not captured, what is pending."""
        from mulligan.engine.see import status

        with self._reading() as store:
            found = status(self._bench, store)
        pending = self.pending()
        missed = without_staged(found.missed, pending)
        return {
            **self.stats(),
            **found.document,
            "not_captured": [row.to_dict() for row in missed],
            "pending": pending,
            **self.protection(),
        }

    def changed_paths(self) -> int:
        """Returns how many paths differ from the position; cheaper than `status`, and cheap where a watcher knows them."""
        from mulligan.engine.see import changed_paths

        with self._reading() as store:
            return changed_paths(self._bench, store)

    def not_captured(self, *, with_sealed: bool = False) -> list[NotCaptured]:
        """Returns what a save would leave out now, and why (`with_sealed`, what it would seal too); cheaper than `status`."""
        with self._reading():
            scan = self._bench.look(with_git=False).scan
        found = scan.not_captured()
        return found + sealed_rows(map(to_text, sorted(scan.sealed))) if with_sealed else found

    # -- restoring ------------------------------------------------------------------------------

    def plan(
        self,
        ref: Ref,
        *,
        paths: Paths | None = None,
        what: str = "files",
        git: bool = False,
        hunks: Hunks | None = None,
    ) -> RestorePlan:
        """Returns what a restore would do, or with `hunks` (their ids) a part of it. Changes nothing."""
        from mulligan.engine.asked import Asked, parse_hunks
        from mulligan.engine.restore import plan_asked

        asked = Asked(parse_paths(paths, what, git=git), git, hunks=parse_hunks(hunks, git=git))
        with self._needing() as store:
            entry = store.checkpoints.resolve(ref)
            look = self._bench.look(by_name=entry.by_name) if what != "state" else None
            move = self._bench.git.plan(entry) if git else None
            return plan_asked(self._bench, entry, look, asked, what, git=move)

    def restore(
        self,
        ref: Ref,
        *,
        paths: Paths | None = None,
        what: str = "files",
        git: bool = False,
        stage: str = "",
        hunks: Hunks | None = None,
    ) -> RestoreReport:
        """
        Takes the workspace (or some paths, or some `hunks` by their ids) back to a checkpoint; one `undo` takes that back.

        With `git`, HEAD, its branch and the index go back too; commits made since stay reachable.
        With `stage`, the full id of a commit, the index alone becomes what that commit holds.
        """
        from mulligan.engine.asked import Asked, parse_hunks
        from mulligan.engine.restore import restore

        if git and stage:
            raise UserError("Either git goes back, or a commit is staged, not both. Nothing was changed.")
        asked = Asked(
            parse_paths(paths, what, git=git or bool(stage)), git, hunks=parse_hunks(hunks, git=git or bool(stage))
        )
        with self._writing("restore", needed=True):
            entry = self._bench.store.checkpoints.resolve(ref)
            report = restore(self._bench, entry, asked, what=what, stage=stage)
        self._tell_restored("restore", report)
        return report

    def apply(self, plan: RestorePlan, *, strict: bool = True) -> RestoreReport:
        """
        Applies exactly this plan, of a restore, undo, redo or revert, as if that verb had been called.

        Raises PlanStale, with nothing changed, if the workspace moved under it. Without `strict`, paths that moved are left
        alone and listed. No path is written differently from the plan.
        """
        from mulligan.engine.undo import apply_plan, request_of

        request = request_of(plan)
        with self._writing(request.verb, needed=True):
            report = apply_plan(self._bench, plan, strict=strict)
        self._tell_restored(request.verb, report)
        return report

    def hunks(self, ref: Ref | RestorePlan, *, paths: Paths | None = None, revert: bool = False) -> list[FileHunks]:
        """
        Returns the changes that a restore to `ref`, a revert of it, or a plan would make, in hunks that can be chosen.

        The ids of some of them are the `hunks` of `plan`, `restore`, `undo` and `revert`.
        """
        from mulligan.model.plan import RestorePlan
        from mulligan.steps.choose import Contents, list_hunks

        if isinstance(ref, RestorePlan):
            plan = ref
        else:
            plan = self.revert(ref, paths=paths, dry_run=True) if revert else self.plan(ref, paths=paths)
        with self._needing():
            return list_hunks(Contents(self.root, self._bench.store.objects), plan)

    # -- forgetting -----------------------------------------------------------------------------

    def delete(self, ref: Ref) -> Checkpoint:
        """Deletes a checkpoint; its disk is freed by the next `prune`. The workspace is not touched."""
        from mulligan.timeline.pruning import expect_waste

        self._refuse_taking()
        with self._writing("delete", needed=True):
            store = self._bench.store
            entry = store.checkpoints.resolve(ref)
            with store.database.transaction():
                remove_checkpoint(store, entry)
                expect_waste(store)
            store.settle_refs()
        self._events.emit("deleted", entry.checkpoint)
        return entry.checkpoint

    def trim(self, keep: int, *, match: Mapping[str, Any]) -> list[Checkpoint]:
        """
        Deletes all but the newest `keep` checkpoints whose metadata hold these pairs; returns what went.

        The position, what the next undos need and what a guard holds stay; the disk is freed by the next `prune`.
        """
        self._refuse_taking()
        if keep < 0 or not match:
            raise UserError(
                "trim keeps a number from 0 on, of the checkpoints that match something. Nothing was deleted."
            )
        with self._writing("trim", needed=True):
            gone = self._bench.trim(keep, match)
        for entry in gone:
            self._events.emit("pruned", entry.checkpoint)
        return [entry.checkpoint for entry in gone]

    def prune(self, *, dry_run: bool = False) -> int:
        """Frees the disk that no checkpoint needs and packs the rest; returns the bytes freed."""
        from mulligan.timeline.pruning import prunable, prune

        with self._reading() as store:
            if store is None or dry_run:
                return prunable(store) if store is not None else 0
        with self._writing("gc"):
            freed = prune(self._bench.store, progress=self._bench.counted("packing"))
        self._events.emit("pruned", freed)
        return freed

    def forget(self, path: str | os.PathLike[str]) -> ForgetReport:
        """Removes a path from every checkpoint, provably. The workspace is not touched."""
        from mulligan.doctor.forget import forget

        self._refuse_taking()
        wanted = parse_path(path)
        if not wanted:
            raise UserError(
                "The whole workspace cannot be forgotten. Nothing was changed.", hint="mulligan stores --purge"
            )
        with self._writing("forget", needed=True):
            report = forget(self._bench.store, wanted)
        self._events.emit("pruned", report.freed_bytes)
        return report

    def _refuse_taking(self) -> None:
        if self.settings.append_only:
            raise UserError("This workspace was opened to add to history, never to take from it. Nothing was deleted.")

    # -- health ---------------------------------------------------------------------------------

    def check(self, progress: Callable[[int, int], None] | None = None) -> CheckReport:
        """Reads every byte of the store and returns what is wrong with it. Changes nothing."""
        from mulligan.doctor.check import CheckReport, check

        with self._reading() as store:
            if store is None:
                return CheckReport()
            return check(store, progress or self._bench.counted("checking"))

    def doctor(self) -> DoctorReport:
        """Ends what was cut short and repairs what can be repaired."""
        from mulligan.doctor import repair
        from mulligan.doctor.check import DoctorReport, look

        with self._mutex:
            if not os.path.isdir(self.store_path):
                return DoctorReport()
            repaired = repair.repair(self._bench.store)
            self._bench.scanner.forget()
            with self._writing("doctor"):
                store = self._bench.store
                repaired += repair.mend_damaged_indexes(store) + repair.mend_refs(store) + self._bench.heal_objects()
                repaired += repair.retire_damaged(store)
                problems = look(store).problems
            if self.last_recovery:
                repaired.insert(0, self.last_recovery)
            return DoctorReport(problems, repaired)

    def adopt(self, old: str | os.PathLike[str]) -> dict[str, Any]:
        """Takes over the history of a project that moved here from `old` (its former directory, or its store)."""
        from mulligan.timeline.adopt import adopt

        with self._mutex:
            if self._bench.store.exists():
                # Finishes an interrupted restore first; a store that an interrupted adoption left here is not ours yet.
                with suppress(UserError), self._writing("adopt"):
                    pass
            self._bench.close()
            moved = adopt(self.settings, os.fspath(old))
            with self._writing("adopt"), self._bench.store.database.transaction():
                self._bench.store.record_workspace()
            return {"store": self.store_path, "workspace": self.root, **moved}

    # -- staying close --------------------------------------------------------------------------

    @contextmanager
    def guard(self, name: str = "", *, on_error: str = "restore") -> Iterator[Checkpoint]:
        """Saves on entry; on an exception restores (unless `on_error="keep"`) and raises it again."""
        if on_error not in ("restore", "keep"):
            raise UserError(f"on_error is 'restore' or 'keep', not {on_error!r}. Nothing was saved.")
        checkpoint = self.save(name, kind="automatic")
        if checkpoint is None:
            raise UserError("Nothing was saved.")  # only with if_changed, which is off
        with self._needing() as store:
            pin = Pin(store.directory)
            with store.database.transaction():
                store.database.insert("pin", checkpoint.id, pin.number)
        try:
            yield checkpoint
        except BaseException as error:
            if on_error == "restore":
                try:
                    self.restore(checkpoint)
                except MulliganError as trouble:
                    error.add_note(f"mulligan could not restore {checkpoint.short_id}: {trouble}")
            raise
        finally:
            # A pin that stays ends with this process; the caller's own exception must not be hidden by it.
            with suppress(MulliganError):
                self._unpin(checkpoint.id, pin)

    def _unpin(self, checkpoint_id: str, pin: Pin) -> None:
        try:
            with self._needing() as store, store.database.transaction():
                store.database.run("DELETE FROM pin WHERE id=? AND pid=?", checkpoint_id, pin.number)
        finally:
            pin.close()

    # -- for those who build on it --------------------------------------------------------------

    def note(self, key: str, default: Any = None) -> Any:
        """Returns a value that `update_note` keeps in the store beside the checkpoints."""
        with self._reading() as store:
            text = store.database.meta(f"note:{key}") if store is not None else ""
        return read_json(text) if text else default

    def update_note(self, key: str, change: Callable[[Any], Any]) -> Any:
        """Puts what `change` makes of a note (None before the first) in its place, in one step; returns the new value."""
        with self._writing("note", create=True), self._bench.store.database.transaction():
            database = self._bench.store.database
            text = database.meta(f"note:{key}")
            changed = change(read_json(text) if text else None)
            database.set_meta(f"note:{key}", json.dumps(changed, allow_nan=False))
        return changed

    def git_position(self) -> GitPosition | None:
        """Returns where the user's own repository stands, None where there is none; `problem` says why it cannot be moved."""
        with self._mutex:
            return self._bench.git.position()

    def import_commit(
        self,
        commit: str,
        *,
        name: str = "",
        description: str = "",
        kind: str = "automatic",
        metadata: Mapping[str, Any] | None = None,
    ) -> Checkpoint:
        """
        Makes a checkpoint from a commit of the user's repository; neither that nor the workspace is touched.

        `commit` is its id, or a beginning that no other commit has. What is out of scope is left out and listed.
        """
        _refuse_unknown_kind(kind)
        said = as_json_object(metadata, "metadata")
        with self._writing("import", create=True):
            draft = self._bench.draft(name, description, kind, metadata=said)
            entry, gone = self._bench.keep_commit(draft, commit)
        self._tell_saved(entry, gone)
        return entry.checkpoint

    def import_directory(
        self,
        directory: str | os.PathLike[str],
        *,
        name: str = "",
        kind: str = "manual",
        metadata: Mapping[str, Any] | None = None,
    ) -> Checkpoint:
        """Makes a checkpoint of this workspace from a copy that stands elsewhere; neither is touched, the position stays."""
        said = as_json_object(metadata, "metadata")
        with self._writing("import", create=True):
            draft = self._bench.draft(name, "", kind, metadata=said)
            entry, gone = self._bench.keep_copy(draft, os.path.realpath(directory))
        self._tell_saved(entry, gone)
        return entry.checkpoint


def _refuse_unknown_kind(kind: str) -> None:
    if kind not in KINDS:
        raise UserError(f"There is no kind {kind!r}; there are {', '.join(KINDS)}. Nothing was saved.")
