"""
One open workspace and its store: looking at the one, keeping its state in the other, and bringing a state back.

The procedures behind the verbs. The caller (`engine`) holds the store's lock for everything here that writes, and tells
others about it afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mulligan.engine.git import GitSide
from mulligan.model.checkpoint import SECRET
from mulligan.model.policy import Settings
from mulligan.model.sealed import Secrets
from mulligan.safefs.directory import Directory, random_name
from mulligan.safefs.lock import is_pinned
from mulligan.safefs.room import naming_need
from mulligan.scan.scanner import Scanner
from mulligan.scan.trees import Scan
from mulligan.state.providers import Providers
from mulligan.store.objects import MANY_PACKS
from mulligan.timeline import budget
from mulligan.timeline.commits import BY_NAME, HELD, Entry
from mulligan.timeline.drafts import (
    CheckpointDraft,
    draft_entry,
    finish_objects,
    record_checkpoint,
    remove_checkpoint,
    with_state_before,
    write_objects,
)
from mulligan.timeline.root import Root
from mulligan.timeline.store import Store
from mulligan.timeline.trees import NO_STORE, WorkspaceView, paths_since, same_state

if TYPE_CHECKING:
    from mulligan.timeline.pruning import Tidier

Progress = Callable[[str, int, int | None], None]
# With a watcher, which joins packs when idle. More packs than this slow down the start of every command.
_TOO_MANY_PACKS = 256


class Workbench:
    """The parts of an open workspace."""

    def __init__(self, settings: Settings, now_ns: Callable[[], int]) -> None:
        self.settings = settings
        self.now_ns = now_ns
        self.store = Store(settings)
        self.root = Root(self.store)
        self.git = GitSide(self.store)
        self.scanner = Scanner(settings, now_ns)
        self._tidier: Tidier | None = None
        self.providers = Providers()
        self.progress: Progress | None = None
        self._watched = False
        #: Safety checkpoints that the budget removed before their time, during the last operation that wrote.
        self.evicted: list[Entry] = []

    def close(self) -> None:
        """Releases files and memory, and ends the watching."""
        self.unwatch()
        self.store.close()
        self.scanner.forget()

    @property
    def tidier(self) -> Tidier:
        """What tidies up the store in idle time."""
        if self._tidier is None:
            from mulligan.timeline.pruning import Tidier

            self._tidier = Tidier(self.store, self.scanner)
        return self._tidier

    # -- watching -------------------------------------------------------------------------------

    def watch(self) -> None:
        """Watches from the next look on, or from the first checkpoint."""
        self._watched = True

    def unwatch(self) -> None:
        """Ends the watching."""
        self._watched = False
        self.scanner.unwatch()

    def watcher_state(self) -> dict[str, Any] | None:
        """Returns whether the workspace is watched and, if it cannot be, why; None where no watcher was asked for."""
        if not self._watched:
            return None
        watcher = self.scanner.watcher
        if watcher is None:
            return {"active": False, "directories": 0, "reason": "it begins with the next look at the workspace"}
        return {"active": watcher.usable, "directories": watcher.directories, "reason": watcher.reason}

    def counted(self, label: str) -> Callable[[int, int | None], None] | None:
        """Returns how to report progress of some work, None without a listener."""
        tell = self.progress
        if tell is None:
            return None

        def report(done: int, total: int | None) -> None:
            tell(label, done, total)

        return report

    # -- looking --------------------------------------------------------------------------------

    def look(
        self,
        sink: Any = None,
        *,
        fresh: bool = False,
        by_name: tuple[str, ...] = (),
        with_git: bool = True,
    ) -> WorkspaceView:
        """
        Scans the workspace; with a sink the bytes that changed go there. `fresh` trusts nothing remembered.

        Of `by_name`, what a checkpoint captured because it was asked for, the state is looked at too, whatever hides it.
        """
        store = self.store
        exists = store.exists()
        if fresh:
            self.scanner.forget()
        if exists and not fresh:
            cache = self.scanner.load(store.directory, store.epoch(), store.checkpoints.holds_tree)
        else:
            cache = self.scanner.load(None, store.epoch() if exists else 0, lambda _: False)
        gone = self.root.is_gone()
        if exists and store.database.meta("forks"):
            from mulligan.forks.fork import forks_inside

            self.scanner.forks = forks_inside(store)
        if exists and self._watched and not gone:
            self.scanner.watch(store.directory)
        report = self.counted("reading")
        count = None if report is None else lambda done: report(done, None)
        base = store.checkpoints.current if exists else None
        scan, git, note = self.scanner.scan(cache, sink, count, by_name, with_git=with_git, base=base, gone=gone)
        scan = self._with_secrets(scan, sink)
        named = self.settings.capture.naming(by_name).by_name
        return WorkspaceView(scan, git, note, store.objects if exists else NO_STORE, named)

    def _with_secrets(self, scan: Scan, sink: Any, directory: str = "") -> Scan:
        """Returns the scan with its secrets sealed; loads the code for it only where there is one."""
        if self.settings.capture.secrets == "skip":
            return scan
        if not any(missed.reason == SECRET for missed in scan.missed.values()):
            return replace(scan, secrets=Secrets())
        from mulligan.timeline.secrets import seal_workspace

        return seal_workspace(self.store, scan, sink, directory)

    # -- keeping --------------------------------------------------------------------------------

    def draft(self, name: str, description: str, kind: str, **parts: Any) -> CheckpointDraft:
        """Returns the beginning of a new checkpoint."""
        if not isinstance(name, str) or not isinstance(description, str):
            raise TypeError("name and description are text")
        return CheckpointDraft(random_name(8), self.now_ns(), name, description, kind, **parts)

    def save(
        self,
        draft: CheckpointDraft,
        *,
        if_changed: bool,
        with_state: bool,
        also: Callable[[], None] | None = None,
        finish: Callable[[CheckpointDraft, WorkspaceView], CheckpointDraft] | None = None,
    ) -> tuple[Entry | None, list[Entry]]:
        """Saves the workspace and makes that the position; returns the new entry (None: nothing changed) and what went."""
        self.root.refuse_gone()
        with self.store.objects.writer() as writer:
            look, base = self.look(writer), self.store.checkpoints.current()
            more_changed = with_state and base is not None and base.checkpoint.state != draft.state
            more_changed |= draft.git is not None and base is not None and not self.git.records(base, draft.git)
            if if_changed and not more_changed and same_state(base, look.scan):
                # The same trees, so every object is there: what was too young to be trusted last time can be now.
                self.scanner.confirm(self.store.directory, look.scan, look.note)
                return None, []
            return self.keep(finish(draft, look) if finish else draft, look, writer, as_position=True, also=also)

    def keep(
        self,
        draft: CheckpointDraft,
        look: WorkspaceView,
        writer: Any,
        *,
        as_position: bool,
        sparing: str = "",
        also: Callable[[], None] | None = None,
    ) -> tuple[Entry, list[Entry]]:
        """Writes a checkpoint of what was seen; returns it and what retention or the budget let go for it, never `sparing`."""
        entry, gone = self._write(draft, look, writer, as_position=as_position, sparing=sparing, also=also)
        store = self.store
        self.scanner.remember(store.directory, look.scan, look.note)
        if store.objects.pack_count() > (_TOO_MANY_PACKS if self._watched else MANY_PACKS):
            self.tidier.join()
        return entry, gone

    def keep_copy(self, draft: CheckpointDraft, directory: str) -> tuple[Entry, list[Entry]]:
        """Writes a checkpoint of what another directory holds, by the same rules; nothing is remembered of that directory."""
        from mulligan.scan.cache import Cache
        from mulligan.scan.ignore import IgnoreRules
        from mulligan.scan.scope import Scope, nothing_tracked
        from mulligan.scan.walk import Options, walk

        policy = self.settings.capture
        scope = Scope(policy, IgnoreRules.base(policy.global_excludes), nothing_tracked())
        with self.store.objects.writer() as writer, Directory.open(directory) as root:
            scan = walk(root, Cache(), Options(scope, writer, self.now_ns))
            scan = self._with_secrets(scan, writer, directory)
            look = WorkspaceView(scan, None, {}, self.store.objects, policy.by_name)
            return self._write(draft, look, writer, as_position=False)

    def keep_commit(self, draft: CheckpointDraft, commit: str) -> tuple[Entry, list[Entry]]:
        """Writes a checkpoint of what a commit of the user's repository holds; nothing is remembered of it."""
        with self.store.objects.writer() as writer:
            scan, git = self.git.scan_commit(commit, writer)
            return self._write(draft, WorkspaceView(scan, git, {}, self.store.objects), writer, as_position=False)

    def _write(
        self,
        draft: CheckpointDraft,
        look: WorkspaceView,
        writer: Any,
        *,
        as_position: bool,
        sparing: str = "",
        also: Callable[[], None] | None = None,
    ) -> tuple[Entry, list[Entry]]:
        store, scan, base = self.store, look.scan, self.store.checkpoints.current()
        changed = paths_since(base, scan, look.source)
        if self.settings.append_only and self.settings.retention.limit(draft.kind) is not None:
            # Restore after restore would push out the oldest, and with it what a person had not saved yet.
            draft = draft._replace(metadata={**draft.metadata, HELD: True})
        if look.by_name:
            draft = draft._replace(metadata={**draft.metadata, BY_NAME: list(look.by_name)})
        drafted = with_state_before(draft_entry(draft, scan, look.git, base, changed), base)
        entry = write_objects(drafted, scan, writer, draft.git)
        pinned = partial(self._pinned, sparing)
        gone = self._within_budget(writer.pending_bytes, pinned, scan)
        with naming_need("This checkpoint", writer.pending_bytes, store.directory):
            finish_objects(entry, writer)
        gone += record_checkpoint(store, entry, now_ns=self.now_ns(), pinned=pinned, as_position=as_position, also=also)
        return entry, gone

    def _within_budget(self, need: int, pinned: Callable[[], set[str]], scan: Scan) -> list[Entry]:
        store = self.store
        if budget.has_room(store, need):
            return []
        reused = [scan.cache.root_tree] if scan.cache.root_tree else []
        from mulligan.timeline.pruning import make_room
        from mulligan.timeline.retention import is_fresh_safety

        gone = make_room(store, need, pinned=pinned() | store.needed(), extra=reused)
        self.evicted += [entry for entry in gone if is_fresh_safety(entry, self.now_ns())]
        return gone

    def trim(self, keep: int, match: Mapping[str, Any]) -> list[Entry]:
        """Deletes all but the newest `keep` checkpoints with these metadata, except what is in use; returns what went."""
        from mulligan.timeline.pruning import expect_waste

        store = self.store
        with store.database.transaction():
            found = [entry for entry in store.checkpoints.newest() if entry.checkpoint.has(match)]
            used = self._pinned() | store.needed()
            gone = [entry for entry in found[keep:] if entry.id not in used]
            for entry in gone:
                remove_checkpoint(store, entry)
            expect_waste(store)
        store.settle_refs()
        return gone

    def _pinned(self, *also: str) -> set[str]:
        # Read each time: a pin is written without the store's lock.
        return {*also, *(row["id"] for row in self.store.database.select("pin"))}

    def unpin_the_dead(self) -> None:
        """Lets go of what processes held that are no more."""
        database, directory = self.store.database, self.store.directory
        pins = set() if database.is_empty("pin") else {row["pid"] for row in database.select("pin")}
        dead = [number for number in pins if not is_pinned(directory, number)]
        if dead:
            with database.transaction():
                for number in dead:
                    database.run("DELETE FROM pin WHERE pid=?", number)

    def keep_now(self, about: str) -> str:
        """Saves what is there now, files and state, as a safety checkpoint; returns its id."""
        with self.store.objects.writer() as writer:
            draft = self.draft("", about, "safety", state=self.providers.capture())
            return self.keep(draft, self.look(writer), writer, as_position=False)[0].id

    def heal_objects(self) -> list[str]:
        """Brings back objects that were lost: what the workspace still holds, and what the timeline says of checkpoints."""
        from mulligan.doctor.check import lost_objects
        from mulligan.doctor.repair import derived_objects

        lost = lost_objects(self.store)
        if not lost:
            return []
        with self.store.objects.writer(anew=lost) as writer:
            there = derived_objects(self.store) | self.look(writer, fresh=True).scan.objects
            for oid in lost & there.keys():
                writer.add_hashed(oid, *there[oid])
            writer.finish()
        healed = len(lost) - len(lost_objects(self.store))
        return [f"Took {healed} lost objects from the workspace and the timeline."] if healed else []
