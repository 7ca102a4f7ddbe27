"""
The verbs: save, see, restore, undo.

The only module that knows every layer, and small for it: each verb opens the store, asks the layer that owns the rule, and
reports. Reading verbs take no lock and change nothing; writing verbs hold the store for as long as they run and first end
a restore that an earlier process left half done.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mulligan.errors import MulliganError, NothingSaved, NothingToRedo, NothingToUndo, PlanStale, UnknownPath, UserError, WorkspaceReplaced
from mulligan.events import Events, Handler
from mulligan.model.checkpoint import KINDS, Checkpoint, GitState, as_json_object
from mulligan.model.diff import Diff
from mulligan.model.objects import BLOB, MODE_DIR
from mulligan.model.paths import parse_path, to_text
from mulligan.model.plan import RestorePlan, RestoreReport
from mulligan.model.policy import Settings
from mulligan.restore import procedure
from mulligan.restore.planner import Target, draw
from mulligan.restore.recovery import FINISHED
from mulligan.timeline.sources import Source
from mulligan.safefs.directory import Directory
from mulligan.scan.observer import Observer
from mulligan.scan.result import Defaults, Scan
from mulligan.state.providers import Provider, Providers
from mulligan.store.collect import merge_small
from mulligan.timeline import budget, differences, forgetting, health, saving
from mulligan.timeline import stores as all_stores
from mulligan.timeline.commits import Entry
from mulligan.timeline.forgetting import ForgetReport
from mulligan.timeline.health import CheckReport, DoctorReport
from mulligan.timeline.journal import Journal, read_journal
from mulligan.timeline.moves import Move
from mulligan.timeline.vault import Vault

Ref = str | Checkpoint
Paths = Iterable[str | os.PathLike[str]]
Progress = Callable[[str, int, int | None], None]
WHAT = ("files", "state", "all")
_MANY_PACKS = 48


class Workspace:
    """A directory under protection. Use `mulligan.open`; threads may share one."""

    def __init__(self, settings: Settings, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        all_stores.refuse_unprotectable(settings)
        self.settings = settings
        self.progress: Progress | None = None
        self.last_recovery = ""
        self._now_ns = now_ns
        self._vault = Vault(settings)
        self._observer = Observer(settings, now_ns)
        self._events = Events()
        self._providers = Providers()
        self._mutex = threading.RLock()

    def __repr__(self) -> str:
        return f"<mulligan.Workspace {self.root!r}>"

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def root(self) -> str:
        """The workspace's directory."""
        return self.settings.workspace

    @property
    def store_path(self) -> str:
        """The directory of its store."""
        return self.settings.store

    def close(self) -> None:
        """Releases files and memory; the next use opens them again."""
        with self._mutex:
            self._vault.close()
            self._observer.forget()

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
    ) -> Checkpoint | None:
        """Saves the whole workspace; with `if_changed`, returns None when nothing changed since the position."""
        if kind not in KINDS:
            raise UserError(f"There is no kind {kind!r}; there are {', '.join(KINDS)}. Nothing was saved.")
        plain = [as_json_object(value, what) for value, what in ((context, "context"), (state, "state"), (metadata, "metadata"))]
        draft = self._draft(name or "", description, kind)
        with self._writing("save", create=True):
            given = {**self._providers.capture(), **plain[1]}
            draft = saving.Draft(draft.id, draft.created_ns, draft.name, draft.description, draft.kind, plain[0], given, plain[2])
            entry, gone = self._save(draft, if_changed=if_changed, only_state_changes=bool(state))
        if entry is None:
            return None
        self._tell_saved(entry, gone)
        return entry.checkpoint

    def _draft(self, name: str, description: str, kind: str) -> saving.Draft:
        if not isinstance(name, str) or not isinstance(description, str):
            raise TypeError("name and description are text")
        return saving.Draft(secrets.token_hex(8), self._now_ns(), name, description, kind)

    def _save(self, draft: saving.Draft, *, if_changed: bool, only_state_changes: bool = False) -> tuple[Entry | None, list[Entry]]:
        with self._vault.objects.writer() as writer:
            scan, git, note = self._look(writer)
            base = self._vault.checkpoints.current()
            state_changed = only_state_changes and base is not None and base.checkpoint.state != draft.state
            if if_changed and not state_changed and saving.same_state(base, scan):
                return None, []
            return self._keep(draft, scan, git, note, writer, moves=[])

    def _keep(self, draft: saving.Draft, scan: Scan, git: GitState | None, note: dict[str, Any], writer: Any, *, moves: list[Move] | None) -> tuple[Entry, list[Entry]]:
        """Writes a checkpoint of what a scan found; with `moves` it becomes the position."""
        vault, base = self._vault, self._vault.checkpoints.current()
        source = Source(vault.objects, scan.objects)
        saving.mark_newly_ignored(base, scan, source)
        changes = saving.changes_since(base, scan, source)
        entry = saving.write_objects(saving.draft_entry(draft, scan, git, base, changes), scan, writer)
        pinned = self._pinned()
        gone = self._within_budget(writer.pending_bytes, pinned, scan)
        writer.finish()
        after = [*moves, Move(entry.id)] if moves is not None else None
        gone += saving.record(vault, entry, now_ns=self._now_ns(), pinned=pinned, moves=after)
        self._observer.remember(vault.directory, scan, note)
        if len(vault.objects.packs()) > _MANY_PACKS:
            merge_small(vault.objects)
        return entry, gone

    def _within_budget(self, need: int, pinned: set[str], scan: Scan) -> list[Entry]:
        vault = self._vault
        if budget.used(vault) + need <= self.settings.retention.budget:
            return []
        keep = pinned | vault.moves.needed() | {vault.checkpoints.position()}
        reused = [scan.cache.root_tree] if scan.cache.root_tree else []
        return budget.make_room(vault, need, pinned=keep, extra=reused)

    def _pinned(self) -> set[str]:
        rows = self._vault.database.rows("SELECT id, pid FROM pin")
        return {row["id"] for row in rows if all_stores.is_alive(row["pid"])}

    def _tell_saved(self, entry: Entry, gone: list[Entry]) -> None:
        self._events.emit("saved", entry.checkpoint)
        if not entry.checkpoint.complete:
            self._events.emit("partial", entry.checkpoint)
        for old in gone:
            self._events.emit("pruned", old.checkpoint)

    # -- seeing ---------------------------------------------------------------------------------

    def log(self, *, limit: int | None = None, kind: str | None = None, path: str | os.PathLike[str] | None = None) -> list[Checkpoint]:
        """Returns the checkpoints, newest first; with `path`, those that changed it or something below it."""
        with self._reading() as vault:
            if vault is None:
                return []
            wanted = parse_path(path) if path is not None else None
            entries = vault.checkpoints.newest(kind=kind, limit=limit if wanted is None else None)
            if wanted is not None:
                entries = [entry for entry in entries if differences.touches(entry, wanted)][:limit]
            return [entry.checkpoint for entry in entries]

    def get(self, ref: Ref) -> Checkpoint:
        """Returns the checkpoint a reference means; raises UnknownCheckpoint."""
        with self._needing() as vault:
            return vault.checkpoints.resolve(ref).checkpoint

    def position(self) -> str | None:
        """Returns the id of the checkpoint last saved or restored to."""
        with self._reading() as vault:
            return (vault.checkpoints.position() or None) if vault is not None else None

    def diff(self, a: Ref | None = None, b: Ref | None = None) -> Diff:
        """Returns what differs from `a` (default: the position) to `b` (default: the workspace as it is now)."""
        with self._needing() as vault:
            start = vault.checkpoints.resolve(a if a is not None else "@")
            if b is not None:
                return differences.between(vault, start, vault.checkpoints.resolve(b))
            scan, _, _ = self._look(None)
            return differences.since(vault, start, scan, self.root)

    def cat(self, ref: Ref, path: str | os.PathLike[str]) -> bytes:
        """Returns the bytes of one file at a checkpoint (of a link: where it points)."""
        with self._needing() as vault:
            entry, wanted = vault.checkpoints.resolve(ref), parse_path(path)
            found = Source(vault.objects).lookup(entry.files_tree, wanted)
            if found is None or found.mode == MODE_DIR:
                what = "is a directory in" if found is not None else "is not in"
                raise UnknownPath(f"{to_text(wanted)!r} {what} checkpoint {entry.checkpoint.short_id}.", hint=f"mulligan show {entry.checkpoint.short_id}")
            return vault.objects.read(found.oid, BLOB)

    def stats(self) -> dict[str, Any]:
        """Returns what the store holds and uses."""
        with self._reading() as vault:
            kinds = vault.checkpoints.by_kind() if vault is not None else {}
            used = budget.used(vault) if vault is not None else 0
            return {
                "workspace": self.root,
                "store": self.store_path,
                "checkpoints": sum(kinds.values()),
                "by_kind": kinds,
                "bytes": used,
                "budget": self.settings.retention.budget,
                "position": (vault.checkpoints.position() or None) if vault is not None else None,
            }

    def status(self) -> dict[str, Any]:
        """Returns the state of protection: what changed since the position, what is not captured, what is pending."""
        stats = self.stats()
        with self._reading() as vault:
            base = vault.checkpoints.current() if vault is not None else None
            scan, git, _ = self._look(None)
            source = Source(vault.objects if vault is not None else _NoStore(), scan.objects)
            saving.mark_newly_ignored(base, scan, source)
            changes = saving.changes_since(base, scan, source)
            replaced = vault.is_replaced() if vault is not None else False
        counts = {
            "added": sum(c.old is None for c in changes),
            "modified": sum(c.old is not None and c.new is not None for c in changes),
            "deleted": sum(c.new is None for c in changes),
        }
        return {
            **stats,
            "files": scan.files,
            "unsaved": counts,
            "complete": scan.complete,
            "not_captured": [row.to_dict() for row in scan.not_captured()],
            "git": git.to_dict() if git else None,
            "pending": self.pending(),
            "watcher": None,
            "warnings": [*self.settings.warnings, *all_stores.warnings(self.settings, replaced=replaced)],
        }

    def pending(self) -> dict[str, Any] | None:
        """Returns a restore that was cut short and waits for the next writing command, None if there is none."""
        with self._reading() as vault:
            journal = read_journal(vault.database) if vault is not None else None
        return {"target": journal.target, "phase": journal.phase, "total": len(journal.actions)} if journal else None

    # -- restoring ------------------------------------------------------------------------------

    def plan(self, ref: Ref, *, paths: Paths | None = None, what: str = "files") -> RestorePlan:
        """Returns what a restore would do. Changes nothing."""
        chosen = _parse_paths(paths, what)
        with self._needing() as vault:
            entry = vault.checkpoints.resolve(ref)
            scan = self._look(None)[0] if what != "state" else None
            return self._plan(entry, scan, chosen, what)

    def _plan(self, entry: Entry, scan: Scan | None, paths: tuple[bytes, ...] | None, what: str) -> RestorePlan:
        shown = tuple(to_text(path) for path in paths) if paths is not None else None
        if scan is None:
            return RestorePlan(entry.id, what, shown)
        target = Target(entry.files_tree, entry.modes_tree, Defaults(*entry.defaults), entry.checkpoint.not_captured)
        drawn = draw(Source(self._vault.objects, scan.objects), scan, target, paths)
        return RestorePlan(entry.id, what, shown, drawn.actions, drawn.keeps)

    def restore(self, ref: Ref, *, paths: Paths | None = None, what: str = "files") -> RestoreReport:
        """Takes the workspace (or some paths) back to a checkpoint; one `undo` takes that back."""
        chosen = _parse_paths(paths, what)
        with self._writing("restore", needed=True):
            entry = self._vault.checkpoints.resolve(ref)
            report = self._restore(entry, "restore", paths=chosen, what=what)
        self._events.emit("restored", report)
        return report

    def apply(self, plan: RestorePlan) -> RestoreReport:
        """Applies exactly this plan; raises PlanStale, with nothing changed, if the workspace moved under it."""
        chosen = tuple(parse_path(path) for path in plan.paths) if plan.paths is not None else None
        with self._writing("restore", needed=True):
            entry = self._vault.checkpoints.resolve(plan.target)
            report = self._restore(entry, "restore", paths=chosen, what=plan.what, promised=plan)
        self._events.emit("restored", report)
        return report

    def undo(self) -> RestoreReport:
        """Goes one operation back, to the newest earlier state that differs from the workspace."""
        with self._writing("undo", needed=True):
            report = self._step("undo", self._vault.moves.down())
        if report is None:
            raise NothingToUndo("There is no earlier state that differs from the workspace. Nothing was changed.", hint="mulligan log")
        self._events.emit("restored", report)
        return report

    def redo(self) -> RestoreReport:
        """Goes forward again to what the last undo left."""
        with self._writing("redo", needed=True):
            report = self._step("redo", self._vault.moves.redoable())
        if report is None:
            raise NothingToRedo("Nothing was undone since the last save or restore. Nothing was changed.", hint="mulligan log")
        self._events.emit("restored", report)
        return report

    def _step(self, verb: str, states: list[Move]) -> RestoreReport | None:
        """Restores the first of some states that differs from the workspace."""
        scan, _, _ = self._look(None)
        for depth, move in enumerate(states):
            entry = self._vault.checkpoints.by_id(move.id)
            if entry is not None and self._differs(entry, move, scan):
                return self._restore(entry, verb, what=move.what, depth=depth + (verb == "redo"))
        return None

    def _differs(self, entry: Entry, move: Move, scan: Scan) -> bool:
        if move.what != "state" and not saving.same_state(entry, scan) and not self._plan(entry, scan, None, "files").is_noop:
            return True
        return move.what != "files" and bool(self._providers) and self._providers.capture() != entry.checkpoint.state

    def _restore(
        self, entry: Entry, verb: str, *, paths: tuple[bytes, ...] | None = None, what: str = "files", depth: int = 0, promised: RestorePlan | None = None
    ) -> RestoreReport:
        vault = self._vault
        self._refuse_replaced()
        state = entry.checkpoint.state if what != "files" else {}
        staged = self._providers.stage(state)
        with vault.objects.writer() as writer:
            scan, git, note = self._look(writer)
            plan = self._plan(entry, scan if what != "state" else None, paths, what)
            if promised is not None and promised.actions != plan.actions:
                raise PlanStale("The workspace is no longer what the plan was made for. Nothing was changed.", hint="Plan again: mulligan restore REF --dry-run")
            safety = self._safety(entry, scan, git, note, writer, verb=verb, what=what, needed=bool(plan.actions) or what != "files")
        moves_position = what != "state" and paths is None
        journal = Journal(
            secrets.token_hex(6), entry.id, safety, what, entry.id if moves_position else "", verb, depth, actions=plan.actions
        )
        with Directory.open(self.root) as root:
            outcome = procedure.carry_out(vault, root, journal, seen=_seen(scan), progress=self._progress_for("restoring"))
        for make_current in staged:
            make_current()
        kept = [*plan.keeps, *outcome.kept]
        return RestoreReport(entry.id, outcome.created, outcome.modified, outcome.deleted, kept, safety, state)

    def _refuse_replaced(self) -> None:
        """Another directory with files of its own stands here: saving it first is the user's word that it belongs."""
        if self._vault.is_replaced() and os.listdir(self.root):
            raise WorkspaceReplaced(
                f"{self.root} is not the directory this history was made in; it may be another project. Nothing was changed.",
                hint="If it is the same project, save it as it is first: mulligan save",
            )

    def _safety(self, entry: Entry, scan: Scan, git: GitState | None, note: dict[str, Any], writer: Any, *, verb: str, what: str, needed: bool) -> str:
        """Returns the id of a checkpoint that holds the workspace as it is, saving one unless the position is it."""
        here = self._vault.checkpoints.current()
        if here is not None and (saving.same_state(here, scan) or not needed) and not (what != "files" and self._providers):
            return here.id
        draft = self._draft("", f"before {verb} to {entry.checkpoint.name or entry.checkpoint.short_id}", "safety")
        draft = saving.Draft(draft.id, draft.created_ns, draft.name, draft.description, draft.kind, state=self._providers.capture())
        return self._keep(draft, scan, git, note, writer, moves=None)[0].id

    # -- forgetting -----------------------------------------------------------------------------

    def delete(self, ref: Ref) -> Checkpoint:
        """Deletes a checkpoint; its disk is freed by the next `prune`. The workspace is not touched."""
        with self._writing("delete", needed=True):
            entry = self._vault.checkpoints.resolve(ref)
            with self._vault.database.transaction():
                saving.remove(self._vault, entry)
            self._vault.settle()
        self._events.emit("deleted", entry.checkpoint)
        return entry.checkpoint

    def prune(self, *, dry_run: bool = False) -> int:
        """Frees the disk that no checkpoint needs and packs the rest; returns the bytes freed."""
        if dry_run:
            with self._reading() as vault:
                return budget.prunable(vault) if vault is not None else 0
        with self._reading() as vault:
            if vault is None:
                return 0
        with self._writing("gc"):
            freed = budget.prune(self._vault, progress=self._progress_for("packing"))
            self._observer.forget()
        self._events.emit("pruned", freed)
        return freed

    def forget(self, path: str | os.PathLike[str]) -> ForgetReport:
        """Removes a path from every checkpoint, provably. The workspace is not touched."""
        wanted = parse_path(path)
        if not wanted:
            raise UserError("The whole workspace cannot be forgotten. Nothing was changed.", hint="mulligan stores --purge")
        with self._writing("forget", needed=True):
            report = forgetting.forget(self._vault, wanted)
            self._observer.forget()
        self._events.emit("pruned", report.freed_bytes)
        return report

    # -- health ---------------------------------------------------------------------------------

    def check(self, progress: Callable[[int, int], None] | None = None) -> CheckReport:
        """Reads every byte of the store and returns what is wrong with it. Changes nothing."""
        with self._reading() as vault:
            return health.check(vault, progress or self._progress_for("checking")) if vault is not None else CheckReport()

    def doctor(self) -> DoctorReport:
        """Ends what was cut short and repairs what can be repaired."""
        with self._mutex:
            if not os.path.isdir(self.store_path):
                return DoctorReport()
            self.last_recovery = ""
            repaired = health.repair(self._vault)
            self._observer.forget()
            with self._writing("doctor"):
                repaired += health.mend_damaged_indexes(self._vault) + health.mend_refs(self._vault)
                repaired += self._heal_objects()
                problems = health.check(self._vault).problems
            if self.last_recovery:
                repaired.insert(0, self.last_recovery)
            return DoctorReport(problems, repaired)

    def _heal_objects(self) -> list[str]:
        """Reads the workspace once more: an object that was lost and is still there comes back with it."""
        lost = health.lost_objects(self._vault)
        if not lost:
            return []
        self._observer.forget()
        with self._vault.objects.writer(anew=lost) as writer:
            scan, _, _ = self._look(writer, fresh=True)
            for oid, (kind, data) in scan.objects.items():
                writer.add_hashed(oid, kind, data)
            writer.finish()
        healed = len(lost) - len(health.lost_objects(self._vault))
        return [f"Took {healed} lost objects from the workspace."] if healed else []

    def adopt(self, old: str | os.PathLike[str]) -> dict[str, Any]:
        """Takes over the history of a project that moved here from `old` (its former directory, or its store)."""
        with self._mutex:
            self._vault.close()
            moved = all_stores.adopt(self.settings, os.fspath(old))
            self._observer.forget()
            with self._writing("adopt"), self._vault.database.transaction():
                self._vault.record_workspace()
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
        self._pin(checkpoint.id)
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
            self._unpin(checkpoint.id)

    def _pin(self, checkpoint_id: str) -> None:
        with self._mutex, self._vault.database.transaction():
            self._vault.database.run("INSERT INTO pin VALUES (?, ?)", checkpoint_id, os.getpid())

    def _unpin(self, checkpoint_id: str) -> None:
        with self._mutex, self._vault.database.transaction():
            self._vault.database.run("DELETE FROM pin WHERE id=? AND pid=?", checkpoint_id, os.getpid())

    def on(self, event: str, handler: Handler) -> None:
        """Calls a handler after each such event: saved, restored, deleted, pruned, partial, error."""
        self._events.on(event, handler)

    def off(self, event: str, handler: Handler) -> None:
        """Stops calling a handler."""
        self._events.off(event, handler)

    def provide(self, name: str, provider: Provider) -> None:
        """Registers a provider of agent state, captured at each save and handed back by a restore of state."""
        self._providers.add(name, provider)

    # -- opening --------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[Vault | None]:
        with self._mutex:
            yield self._vault if self._vault.exists() else None

    @contextmanager
    def _needing(self) -> Iterator[Vault]:
        with self._reading() as vault:
            if vault is None:
                raise _nothing_saved(self.root)
            yield vault

    @contextmanager
    def _writing(self, purpose: str, *, create: bool = False, needed: bool = False) -> Iterator[None]:
        """Holds the store; first ends a restore that was cut short. Tells `error` handlers what went wrong."""
        try:
            with self._mutex:
                if needed and not self._vault.exists():
                    raise _nothing_saved(self.root)
                with self._vault.writing(purpose, create=create):
                    self._recover()
                    yield
        except MulliganError as error:
            self._events.emit("error", error)
            raise

    def _recover(self) -> None:
        self.last_recovery = ""
        if read_journal(self._vault.database) is None:
            return
        with Directory.open(self.root) as root:
            ended = procedure.end_interrupted(self._vault, root)
        if ended is not None:
            journal, recovered = ended
            kept = "".join(f" Kept: {keep.path} ({keep.reason})." for keep in recovered.outcome.kept)
            how = "was finished" if recovered.how == FINISHED else "was taken back"
            self.last_recovery = f"A restore to {journal.target[:8]} that had been cut short {how}.{kept}"

    def _look(self, sink: Any, *, fresh: bool = False) -> tuple[Scan, GitState | None, dict[str, Any]]:
        vault = self._vault
        known = vault.exists() and not fresh
        cache = self._observer.load(vault.directory if known else None, vault.epoch() if vault.exists() else 0, lambda oid: vault.objects.has(oid))
        counted = self._progress_for("reading")
        return self._observer.scan(cache, sink, None if counted is None else lambda done: counted(done, None))

    def _progress_for(self, label: str) -> Callable[[int, int | None], None] | None:
        tell = self.progress
        return None if tell is None else lambda done, total=None: tell(label, done, total)


class _NoStore:
    """Objects of a store that does not exist yet."""

    def read(self, oid: bytes, kind: bytes) -> bytes:
        """Knows nothing."""
        raise UserError(f"There is no store yet to read {kind.decode()} {oid.hex()} from.")

    def read_tree(self, oid: bytes) -> list[Any]:
        """Knows nothing."""
        raise UserError(f"There is no store yet to read tree {oid.hex()} from.")


def _seen(scan: Scan) -> Callable[[bytes], Any]:
    """Returns the stat fields to trust: a file that was young when it was read is compared by its bytes."""

    def seen(path: bytes) -> Any:
        found = None if path in scan.observed else scan.entry(path)
        return found[0] if found is not None else None

    return seen


def _parse_paths(paths: Paths | None, what: str) -> tuple[bytes, ...] | None:
    if what not in WHAT:
        raise UserError(f"what is one of {', '.join(WHAT)}, not {what!r}. Nothing was changed.")
    if isinstance(paths, str | bytes | Path):
        raise TypeError("paths is a list of paths, not one path")
    return None if paths is None else tuple(parse_path(path) for path in paths)


def _nothing_saved(root: str) -> NothingSaved:
    return NothingSaved(f"Nothing was saved in {root} yet.", hint="mulligan save")


stores = all_stores.stores
purge = all_stores.purge
