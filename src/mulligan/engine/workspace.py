"""The public class: each method calls the function of this package that does it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Self, overload

from mulligan import engine
from mulligan.engine.workbench import Handler, Progress, Workbench
from mulligan.model.policy import Settings

if TYPE_CHECKING:
    from typing import Literal

    from mulligan.doctor.check import CheckReport, DoctorReport
    from mulligan.doctor.forget import ForgetReport
    from mulligan.engine.asked import Hunks, Paths
    from mulligan.engine.watching import Watching
    from mulligan.forks.bisect import Bisection, Test
    from mulligan.forks.record import Fork
    from mulligan.history.blame import Blame
    from mulligan.history.report import Report
    from mulligan.history.search import SearchResult
    from mulligan.model.checkpoint import Checkpoint, NotCaptured
    from mulligan.model.diff import Diff
    from mulligan.model.event import AgentEvent, RecordedEvent
    from mulligan.model.gitposition import GitPosition
    from mulligan.model.plan import RestorePlan, RestoreReport
    from mulligan.remotes.pull import PulledReport
    from mulligan.remotes.push import Pushed
    from mulligan.remotes.verbs import Remotes
    from mulligan.state.providers import Provider
    from mulligan.steps.hunk import FileHunks
    from mulligan.timeline.story import Chapter

    Ref = str | Checkpoint
    Path = str | os.PathLike[str]
    Values = Mapping[str, Any]


class Workspace:
    """A directory under protection. Use `mulligan.open`; threads may share one."""

    def __init__(self, settings: Settings, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self.settings = settings
        self.root = settings.workspace
        self.store_path = settings.store
        #: The parts, for the layers of mulligan; not a part of the public surface.
        self.bench = Workbench(settings, now_ns)

    def __repr__(self) -> str:
        return f"<mulligan.Workspace {self.root!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def last_recovery(self) -> str:
        """What the last verb that wrote ended first: a sentence about an interrupted restore, mostly none."""
        return self.bench.last_recovery

    @property
    def progress(self) -> Progress | None:
        """Called as `progress(label, done, total)` during long work."""
        return self.bench.progress

    @progress.setter
    def progress(self, tell: Progress | None) -> None:
        self.bench.progress = tell

    def close(self) -> None:
        """Releases files and memory; the next use opens them again."""
        self.bench.close()

    # -- saving ---------------------------------------------------------------------------------

    def save(
        self,
        name: str | None = None,
        *,
        description: str = "",
        kind: str = "manual",
        context: Values | None = None,
        state: Values | None = None,
        metadata: Values | None = None,
        if_changed: bool = False,
        git: bool = False,
    ) -> Checkpoint | None:
        """
        Saves the whole workspace; with `if_changed`, returns None when nothing changed since the position.

        With `git`, where the user's repository stands (HEAD, branch, index) is recorded too, for `restore(…, git=True)`;
        where it cannot be read, the checkpoint lists `.git` as not captured and is not complete.
        """
        parts = {"context": context, "state": state, "metadata": metadata}
        return engine.save.save(self.bench, name, description, kind, parts, if_changed=if_changed, git=git)

    def import_commit(
        self,
        commit: str,
        *,
        name: str = "",
        description: str = "",
        kind: str = "automatic",
        metadata: Values | None = None,
    ) -> Checkpoint:
        """
        Makes a checkpoint from a commit of the user's repository; neither that nor the workspace is touched.

        `commit` is its id, or a beginning that no other commit has. What is out of scope is left out and listed.
        """
        return engine.imports.import_commit(self.bench, commit, name, description, kind, metadata)

    def import_directory(
        self, directory: Path, *, name: str = "", kind: str = "manual", metadata: Values | None = None
    ) -> Checkpoint:
        """Makes a checkpoint of this workspace from a copy that stands elsewhere; neither is touched, the position stays."""
        return engine.imports.import_directory(self.bench, directory, name, kind, metadata)

    # -- seeing ---------------------------------------------------------------------------------

    def log(
        self,
        *,
        limit: int | None = None,
        kind: str | None = None,
        path: Path | None = None,
        match: Values | None = None,
        **bounds: Any,
    ) -> list[Checkpoint]:
        """
        Returns the checkpoints, newest first.

        With `path`, those that changed it or something below it; with `match`, those whose metadata hold these pairs.
        `bounds` are `since` and `until` (times, or texts like "yesterday"), `grep` (in names, descriptions, commands and
        prompts), `agent` and `session` (the beginning is enough).
        """
        return engine.see.log(self.bench, limit, kind, path, match, bounds)

    def get(self, ref: Ref) -> Checkpoint:
        """Returns the checkpoint a reference means; raises UnknownCheckpoint."""
        with self.bench.needing() as store:
            return store.checkpoints.resolve(ref).checkpoint

    def position(self) -> str | None:
        """Returns the id of the checkpoint last saved or restored to."""
        with self.bench.reading() as store:
            return (store.checkpoints.position() or None) if store is not None else None

    def diff(self, a: Ref | None = None, b: Ref | None = None, *, paths: Paths | None = None) -> Diff:
        """Returns what differs from `a` (default: the position) to `b` (default: the workspace); `paths` limits it."""
        return engine.see.diff(self.bench, a, b, paths)

    def cat(self, ref: Ref, path: Path, *, reveal: bool = False) -> bytes:
        """Returns the bytes of one file at a checkpoint (of a link: where it points); of a secret only to `reveal` it."""
        return engine.see.cat(self.bench, ref, path, reveal=reveal)

    def holds(self, ref: Ref, path: str) -> bool:
        """Returns whether a checkpoint holds a file, sealed or not, or a directory of this path."""
        return engine.see.holds(self.bench, ref, path)

    def contents(self, ref: Ref) -> Diff:
        """Returns everything that a checkpoint holds, as a difference from nothing."""
        return engine.see.contents(self.bench, ref)

    def stats(self) -> dict[str, Any]:
        """Returns what the store holds and uses."""
        return engine.see.stats(self.bench)

    def status(self) -> dict[str, Any]:
        """Returns the state of protection: what changed since the position, what is not captured, what is pending."""
        return engine.see.status(self.bench)

    def pending(self) -> dict[str, Any] | None:
        """Returns a restore that runs in another `process`, or was interrupted (`process` None); None if there is none."""
        return engine.remarks.pending(self.bench)

    def changed_paths(self) -> int:
        """Returns how many paths differ from the position; cheaper than `status`, and cheap where a watcher knows them."""
        return engine.see.changed_paths(self.bench)

    def not_captured(self, *, with_sealed: bool = False) -> list[NotCaptured]:
        """Returns what a save would leave out now, and why (`with_sealed`, what it would seal too); cheaper than `status`."""
        return engine.see.not_captured(self.bench, with_sealed=with_sealed)

    def blame(self, path: Path) -> Blame:
        """Returns which prompt, tool call, agent or person wrote each line of a file as it is now."""
        return engine.see.blame(self.bench, path)

    def search(self, text: str, *, changes: bool = False, **bounds: Any) -> SearchResult:
        """
        Returns where a text is: in prompts, commands, names, paths, and the files of the last checkpoint.

        With `changes`, the steps in which it appeared in a file or disappeared from one. `bounds` are as for `log`.
        """
        return engine.see.search(self.bench, text, changes=changes, bounds=bounds)

    def report(self, session: str | None = None) -> Report:
        """Returns what agents did, every path that changed and what was not saved; of a session, or of all that is kept."""
        return engine.see.report(self.bench, session)

    def git_position(self) -> GitPosition | None:
        """Returns where the user's own repository stands, None where there is none; `problem` says why it cannot be moved."""
        return engine.see.git_position(self.bench)

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
        return engine.restore.plan(self.bench, ref, paths, hunks, what=what, git=git)

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
        return engine.restore.restore(self.bench, ref, paths, hunks, what=what, git=git, stage=stage)

    def apply(self, plan: RestorePlan, *, strict: bool = True) -> RestoreReport:
        """
        Applies exactly this plan, of a restore, undo, redo or revert, as if that verb had been called.

        Raises PlanStale, with nothing changed, if the workspace moved under it. Without `strict`, paths that moved are left
        alone and listed. No path is written differently from the plan.
        """
        return engine.undo.apply(self.bench, plan, strict=strict)

    def hunks(self, ref: Ref | RestorePlan, *, paths: Paths | None = None, revert: bool = False) -> list[FileHunks]:
        """
        Returns the changes that a restore to `ref`, a revert of it, or a plan would make, in hunks that can be chosen.

        The ids of some of them are the `hunks` of `plan`, `restore`, `undo` and `revert`.
        """
        return engine.revert.hunks(self.bench, ref, paths, reverted=revert)

    @overload
    def undo(
        self,
        *,
        dry_run: Literal[False] = ...,
        session: str | None = ...,
        paths: Paths | None = ...,
        git: bool = ...,
        hunks: Hunks | None = ...,
    ) -> RestoreReport: ...
    @overload
    def undo(
        self,
        *,
        dry_run: Literal[True],
        session: str | None = ...,
        paths: Paths | None = ...,
        git: bool = ...,
        hunks: Hunks | None = ...,
    ) -> RestorePlan: ...
    def undo(
        self,
        *,
        dry_run: bool = False,
        session: str | None = None,
        paths: Paths | None = None,
        git: bool = False,
        hunks: Hunks | None = None,
    ) -> RestoreReport | RestorePlan:
        """
        Takes back the last operation: a restore; else the newest turn that is not undone; else what changed since the position.

        A turn is all that an agent did for one prompt. Changes since then are kept, merged by lines; what cannot be merged stays and
        is listed. With `session`, the newest turn of that session (the beginning of its id is enough). With `paths` or `hunks` (ids
        of `Workspace.hunks`), only those. With `git`, HEAD, its branch and the index go back too. With `dry_run`, returns the plan
        and changes nothing.
        """
        return engine.undo.undo(self.bench, session, paths, hunks, git=git, dry_run=dry_run)

    @overload
    def redo(self, *, dry_run: Literal[False] = ...) -> RestoreReport: ...
    @overload
    def redo(self, *, dry_run: Literal[True]) -> RestorePlan: ...
    def redo(self, *, dry_run: bool = False) -> RestoreReport | RestorePlan:
        """Brings forward what the last undo took back; with `dry_run`, returns the plan and changes nothing."""
        return engine.undo.redo(self.bench, dry_run=dry_run)

    @overload
    def revert(
        self,
        ref: Ref,
        *,
        paths: Paths | None = ...,
        hunks: Hunks | None = ...,
        dry_run: Literal[False] = ...,
        conflicts: str = ...,
    ) -> RestoreReport: ...
    @overload
    def revert(
        self,
        ref: Ref,
        *,
        paths: Paths | None = ...,
        hunks: Hunks | None = ...,
        dry_run: Literal[True],
        conflicts: str = ...,
    ) -> RestorePlan: ...
    def revert(
        self,
        ref: Ref,
        *,
        paths: Paths | None = None,
        hunks: Hunks | None = None,
        dry_run: bool = False,
        conflicts: str = "keep",
    ) -> RestoreReport | RestorePlan:
        """
        Takes back one step and keeps everything later: a prompt, a tool call, a session, or what led to a checkpoint.

        Files that changed since are merged by lines. What cannot be merged is in `conflicts` of the answer: those files are left
        alone, or get conflict markers ("markers"), or the lines in question are those of now ("ours") or of before the step
        ("theirs"). One `undo` takes the revert back. With `dry_run`, returns the plan and changes nothing.
        """
        return engine.revert.revert(self.bench, ref, paths, hunks, dry_run=dry_run, conflicts=conflicts)

    def evicted(self) -> list[Checkpoint]:
        """Returns the safety checkpoints that the last operation removed for the budget before they were a week old."""
        return [entry.checkpoint for entry in self.bench.evicted]

    def guard(self, name: str = "", *, on_error: str = "restore") -> AbstractContextManager[Checkpoint]:
        """Saves on entry; on an exception restores (unless `on_error="keep"`) and raises it again."""
        return engine.guard.guard(self, name, on_error)

    def record(self, event: AgentEvent, *, state: Callable[[int], Values] | None = None) -> Checkpoint | None:
        """
        Remembers one event of an agent; returns the checkpoint if one was needed, None when nothing changed since the position.

        `state` makes what goes into the checkpoint beside the files, if there is one, from where the transcript of this session
        stood at the last; it alone makes none necessary.
        """
        return engine.agents.record(self.bench, event, state)

    def agent_events(self, *, limit: int | None = None, session: str | None = None) -> list[RecordedEvent]:
        """Returns what agents did here, newest first; of one session, by the beginning of its id."""
        return engine.agents.agent_events(self.bench, limit, session)

    def agent_event_at(self, ref: str) -> AgentEvent | None:
        """Returns the event that a reference like `@prompt-2` means, None for any other reference."""
        return engine.agents.agent_event_at(self.bench, ref)

    def story(self, *, limit: int | None = None, session: str | None = None, **bounds: Any) -> list[Chapter]:
        """Returns what agents did, prompt by prompt, newest first; `bounds` are as for `log`."""
        return engine.agents.story(self.bench, limit, session, bounds)

    def protection(self) -> dict[str, Any]:
        """Returns when each agent was last heard of, and what hooks could not do since the last `doctor`."""
        return engine.agents.protection(self.bench)

    # -- forgetting and repairing -----------------------------------------------------------------

    def delete(self, ref: Ref) -> Checkpoint:
        """Deletes a checkpoint; its disk is freed by the next `prune`. The workspace is not touched."""
        return engine.delete.delete(self.bench, ref)

    def trim(self, keep: int, *, match: Values) -> list[Checkpoint]:
        """
        Deletes all but the newest `keep` checkpoints whose metadata hold these pairs; returns what went.

        The position, what the next undos need and what a guard holds stay; the disk is freed by the next `prune`.
        """
        return engine.delete.trim(self.bench, keep, match)

    def prune(self, *, dry_run: bool = False) -> int:
        """Frees the disk that no checkpoint needs and packs the rest; returns the bytes freed."""
        return engine.delete.prune(self.bench, dry_run=dry_run)

    def forget(self, path: Path) -> ForgetReport:
        """Removes a path from every checkpoint, provably. The workspace is not touched."""
        return engine.delete.forget(self.bench, path)

    def check(self, progress: Callable[[int, int], None] | None = None) -> CheckReport:
        """Reads every byte of the store and returns what is wrong with it. Changes nothing."""
        return engine.doctor.check_store(self.bench, progress)

    def doctor(self) -> DoctorReport:
        """Ends what was cut short and repairs what can be repaired."""
        return engine.doctor.repair_store(self.bench)

    def adopt(self, old: Path) -> dict[str, Any]:
        """Takes over the history of a project that moved here from `old` (its former directory, or its store)."""
        return engine.doctor.adopt(self.bench, old)

    # -- watching -------------------------------------------------------------------------------

    def watch(self) -> Watching:
        """
        Watches the workspace until the answer is closed (or used in a `with` block), so that every verb costs what changed.

        Nothing else changes: where the system cannot watch, the verbs look at everything as before, and `reason` says why.
        """
        return engine.watching.Watching(self.bench)

    def tidy(self) -> bool:
        """
        Does a little of what saves leave to do: joins packs, frees what retention let go; returns whether there may be more.

        For idle time. Each call is short, and most calls do not hold the store. A watcher that calls this until it returns
        False, or until a command comes in, keeps the store small without delaying commands.
        """
        return engine.watching.tidy(self.bench)

    # -- for those who build on it --------------------------------------------------------------

    def on(self, event: str, handler: Handler) -> None:
        """Calls a handler after each such event: saved, restored, deleted, pruned, partial, error."""
        self.bench.handlers(event).append(handler)

    def off(self, event: str, handler: Handler) -> None:
        """Stops calling a handler; one that was never added is harmless."""
        with suppress(ValueError):
            self.bench.handlers(event).remove(handler)

    def provide(self, name: str, provider: Provider) -> None:
        """Registers a provider of agent state, captured at each save and handed back by a restore of state."""
        self.bench.providers[name] = provider

    def state_owed(self, *, forgive: bool = False) -> str | None:
        """
        Returns the checkpoint whose files came back and whose state was cut off; with `forgive`, the state is dropped.

        A restore that was cut short is ended first: only then is it known.
        """
        return engine.notes.state_owed(self.bench, forgive=forgive)

    def settle_state(self) -> bool:
        """Hands owed state to the registered providers, if the files are where that restore left them; returns whether it did."""
        return engine.notes.settle_state(self.bench)

    def note(self, key: str, default: Any = None) -> Any:
        """Returns a value that `update_note` keeps in the store beside the checkpoints."""
        return engine.notes.note(self.bench, key, default)

    def update_note(self, key: str, change: Callable[[Any], Any]) -> Any:
        """Puts what `change` makes of a note (None before the first) in its place, in one step; returns the new value."""
        return engine.notes.update_note(self.bench, key, change)

    # -- forks and other machines -----------------------------------------------------------------

    def fork(self, ref: Ref, directory: Path, *, with_ignored: bool = False) -> Workspace:
        """Makes a second working directory, new or empty, at a checkpoint, with a timeline that starts there."""
        from mulligan.forks.verbs import fork

        return fork(self, ref, directory, with_ignored=with_ignored)

    def forks(self) -> list[Fork]:
        """Returns the forks that were made from this workspace and not removed, oldest first."""
        from mulligan.forks.verbs import forks

        return forks(self)

    def bisect(self, test: Test, *, good: Ref | None = None, bad: Ref | None = None) -> Bisection:
        """Finds the step after which a command, or a function that gets a fork, fails; the workspace is not touched."""
        from mulligan.forks.bisect import bisect

        return bisect(self, test, good=good, bad=bad)

    @property
    def remotes(self) -> Remotes:
        """The remotes of this history: storage elsewhere that it is pushed to and pulled from."""
        from mulligan.remotes.verbs import Remotes

        return Remotes(self)

    def push(self, remote: str | None = None) -> Pushed:
        """Sends what is new to a remote (default: the only one)."""
        return self.remotes.push(remote)

    def pull(self, remote: str | None = None, *, everything: bool = False) -> PulledReport:
        """Brings other machines' checkpoints here, verified; with `everything`, a lazy clone becomes a whole one."""
        return self.remotes.pull(remote, everything=everything)
