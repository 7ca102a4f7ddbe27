"""
One open workspace and its store: looking at the one, keeping its state in the other, and bringing a state back.

The procedures behind the verbs. The caller (`engine`) holds the store's lock for everything here that writes, and tells
others about it afterwards.
"""

from __future__ import annotations

import os

from mulligan.errors import PlanStale, UserError
from mulligan.gitside import GitSide
from mulligan.model.paths import parent_of, to_text
from mulligan.model.policy import Settings
from mulligan.model.small import Callable, Mapping, partial, suppress
from mulligan.model.typed import TYPE_CHECKING, Any
from mulligan.safefs.directory import Directory, random_name
from mulligan.safefs.lock import is_alive
from mulligan.safefs.room import naming_need
from mulligan.scan.observer import Observer
from mulligan.scan.result import Defaults, Scan
from mulligan.scan.scope import IGNORE_FILE
from mulligan.state.providers import Providers
from mulligan.store.objects import MANY_PACKS
from mulligan.timeline import budget, saving
from mulligan.timeline.commits import ABSENT, BY_NAME, HELD, Entry
from mulligan.timeline.moves import Move
from mulligan.timeline.root import Root
from mulligan.timeline.sources import NO_STORE, Look, Way
from mulligan.timeline.vault import Vault

if TYPE_CHECKING:
    from mulligan.model.gitposition import GitRecord
    from mulligan.model.plan import Node, RestorePlan, RestoreReport
    from mulligan.timeline.tidying import Tidier
    from mulligan.usergit.planning import Planned

Progress = Callable[[str, int, int | None], None]
# Where somebody watches, who joins packs when he has nothing else to do: more than these slow every command that begins.
_TOO_MANY_PACKS = 256


def _moves_scope(plan: RestorePlan) -> bool:
    """Returns whether a plan changes rules of what is captured."""
    return any(os.path.basename(action.path) == IGNORE_FILE for action in plan.actions)


class Workbench:
    """The parts of an open workspace."""

    def __init__(self, settings: Settings, now_ns: Callable[[], int]) -> None:
        self.settings = settings
        self.now_ns = now_ns
        self.vault = Vault(settings)
        self.root = Root(self.vault)
        self.git = GitSide(self.vault)
        self.observer = Observer(settings, now_ns)
        self._tidier: Tidier | None = None
        self.providers = Providers()
        self.progress: Progress | None = None
        self._watched = False
        self._way: Way | None = None

    def close(self) -> None:
        """Releases files and memory, and ends the watching."""
        self.unwatch()
        self.vault.close()
        self.observer.forget()

    @property
    def tidier(self) -> Tidier:
        """Who tidies the store up while nobody waits for it."""
        if self._tidier is None:
            from mulligan.timeline.tidying import Tidier

            self._tidier = Tidier(self.vault, self.observer)
        return self._tidier

    # -- watching -------------------------------------------------------------------------------

    def watch(self) -> None:
        """Watches from the next look on, or from the first checkpoint."""
        self._watched = self.vault.lasting = True

    def unwatch(self) -> None:
        """Ends the watching."""
        self._watched = self.vault.lasting = False
        self.observer.unwatch()

    def watcher_state(self) -> dict[str, Any] | None:
        """Returns whether the workspace is watched and, if it cannot be, why; None where nobody asked for it."""
        if not self._watched:
            return None
        watcher = self.observer.watcher
        if watcher is None:
            return {"active": False, "directories": 0, "reason": "it begins with the next look at the workspace"}
        return {"active": watcher.usable, "directories": watcher.directories, "reason": watcher.reason}

    def counted(self, label: str) -> Callable[[int, int | None], None] | None:
        """Returns how to report progress of some work, None when nobody watches."""
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
        later: bool = False,
    ) -> Look:
        """
        Scans the workspace; with a sink the bytes that changed go there, some of them `later`. `fresh` trusts nothing remembered.

        Of `by_name`, what a checkpoint captured because it was asked for, the state is looked at too, whatever hides it.
        """
        vault = self.vault
        exists = vault.exists()
        if fresh:
            self.observer.forget()
        if exists and not fresh:
            cache = self.observer.load(vault.directory, vault.epoch(), vault.checkpoints.holds_tree)
        else:
            cache = self.observer.load(None, vault.epoch() if exists else 0, lambda _: False)
        gone = self.root.is_gone()
        if exists and self._watched and not gone:
            self.observer.watch(vault.directory)
        report = self.counted("reading")
        count = None if report is None else lambda done: report(done, None)
        base = vault.checkpoints.current if exists else None
        scanned = self.observer.scan(cache, sink, count, by_name, with_git=with_git, base=base, later=later, gone=gone)
        named = self.settings.capture.naming(by_name).by_name
        return Look(*scanned, vault.objects if exists else NO_STORE, named, self._way)

    # -- keeping --------------------------------------------------------------------------------

    def draft(self, name: str, description: str, kind: str, **parts: Any) -> saving.Draft:
        """Returns the beginning of a new checkpoint."""
        if not isinstance(name, str) or not isinstance(description, str):
            raise TypeError("name and description are text")
        return saving.Draft(random_name(8), self.now_ns(), name, description, kind, **parts)

    def save(
        self,
        draft: saving.Draft,
        *,
        if_changed: bool,
        with_state: bool,
        also: Callable[[], None] | None = None,
        finish: Callable[[saving.Draft, Look], saving.Draft] | None = None,
    ) -> tuple[Entry | None, list[Entry]]:
        """Saves the workspace and makes that the position; returns the new entry (None: nothing changed) and what went."""
        self.root.refuse_gone()
        with self.vault.objects.writer() as writer:
            look, base = self.look(writer), self.vault.checkpoints.current()
            more_changed = with_state and base is not None and base.checkpoint.state != draft.state
            more_changed |= draft.git is not None and base is not None and not self.git.records(base, draft.git)
            if if_changed and not more_changed and saving.same_state(base, look.scan):
                # The same trees, so every object is there: what was too young to be trusted last time can be now.
                self.observer.confirm(self.vault.directory, look.scan, look.note)
                return None, []
            return self.keep(finish(draft, look) if finish else draft, look, writer, as_position=True, also=also)

    def keep(
        self,
        draft: saving.Draft,
        look: Look,
        writer: Any,
        *,
        as_position: bool,
        sparing: str = "",
        also: Callable[[], None] | None = None,
    ) -> tuple[Entry, list[Entry]]:
        """Writes a checkpoint of what was seen; returns it and what retention or the budget let go for it, never `sparing`."""
        entry, gone = self._write(draft, look, writer, as_position=as_position, sparing=sparing, also=also)
        vault = self.vault
        self.observer.remember(vault.directory, look.scan, look.note, passing=not as_position)
        if vault.objects.pack_count() > (_TOO_MANY_PACKS if self._watched else MANY_PACKS):
            self.tidier.join()
        return entry, gone

    def keep_copy(self, draft: saving.Draft, directory: str) -> tuple[Entry, list[Entry]]:
        """Writes a checkpoint of what another directory holds, by the same rules; nothing is remembered of that directory."""
        from mulligan.scan.cache import Cache
        from mulligan.scan.ignore import Rules
        from mulligan.scan.scope import Scope, nothing_tracked
        from mulligan.scan.walk import Options, Scanner

        policy = self.settings.capture
        scope = Scope(policy, Rules.base(policy.global_excludes), nothing_tracked())
        with self.vault.objects.writer() as writer, Directory.open(directory) as root:
            scan = Scanner(root, scope, Cache(), Defaults(), self.now_ns, Options(writer)).run()
            look = Look(scan, None, {}, self.vault.objects, policy.by_name)
            return self._write(draft, look, writer, as_position=False)

    def keep_commit(self, draft: saving.Draft, commit: str) -> tuple[Entry, list[Entry]]:
        """Writes a checkpoint of what a commit of the user's repository holds; nothing is remembered of it."""
        with self.vault.objects.writer() as writer:
            scan, git = self.git.scan_commit(commit, writer)
            return self._write(draft, Look(scan, git, {}, self.vault.objects), writer, as_position=False)

    def _write(
        self,
        draft: saving.Draft,
        look: Look,
        writer: Any,
        *,
        as_position: bool,
        sparing: str = "",
        also: Callable[[], None] | None = None,
    ) -> tuple[Entry, list[Entry]]:
        vault, scan, base = self.vault, look.scan, self.vault.checkpoints.current()
        changed = saving.paths_since(base, scan, look.source)
        if self.settings.append_only and self.settings.retention.limit(draft.kind) is not None:
            # Restore after restore would push out the oldest, and with it what a person had not saved yet.
            draft = draft._replace(metadata={**draft.metadata, HELD: True})
        if look.by_name:
            draft = draft._replace(metadata={**draft.metadata, BY_NAME: list(look.by_name)})
        drafted = saving.draft_entry(draft, scan, look.git, base, changed)
        entry = saving.write_objects(drafted, scan, writer, draft.git)
        pinned = partial(self._pinned, sparing)
        gone = self._within_budget(writer.pending_bytes, pinned, scan)
        with naming_need("This checkpoint", writer.pending_bytes, vault.directory):
            saving.finish(entry, writer)
        gone += saving.record(vault, entry, now_ns=self.now_ns(), pinned=pinned, as_position=as_position, also=also)
        return entry, gone

    def _within_budget(self, need: int, pinned: Callable[[], set[str]], scan: Scan) -> list[Entry]:
        vault = self.vault
        if budget.used(vault) + need <= self.settings.retention.budget:
            return []
        reused = [scan.cache.root_tree] if scan.cache.root_tree else []
        return budget.make_room(vault, need, pinned=pinned() | vault.needed(), extra=reused)

    def trim(self, keep: int, match: Mapping[str, Any]) -> list[Entry]:
        """Deletes all but the newest `keep` checkpoints with these metadata, except what is in use; returns what went."""
        vault = self.vault
        with vault.database.transaction():
            found = [entry for entry in vault.checkpoints.newest() if entry.checkpoint.has(match)]
            used = self._pinned() | vault.needed()
            gone = [entry for entry in found[keep:] if entry.id not in used]
            for entry in gone:
                saving.remove(vault, entry)
            budget.expect_waste(vault)
        vault.settle()
        return gone

    def _pinned(self, *also: str) -> set[str]:
        # Asked anew each time: whoever pins one does not wait for the store's lock.
        return {*also, *(row["id"] for row in self.vault.database.sealed("pin"))}

    def _unpin_the_dead(self) -> None:
        """Lets go of what processes held that are no more: their numbers will be given to others."""
        database = self.vault.database
        pins = set() if database.is_empty("pin") else {row["pid"] for row in database.sealed("pin")}
        dead = [pid for pid in pins if not is_alive(pid)]
        if dead:
            with database.transaction():
                for pid in dead:
                    database.run("DELETE FROM pin WHERE pid=?", pid)

    # -- going back -----------------------------------------------------------------------------

    def plan(
        self,
        entry: Entry,
        look: Look | None,
        paths: tuple[bytes, ...] | None,
        what: str,
        *,
        git: Planned | None = None,
    ) -> RestorePlan:
        """Returns what would bring the workspace to a checkpoint; without a look at it, nothing (state only)."""
        from mulligan.model.plan import RestorePlan
        from mulligan.restore.planner import Target, draw
        from mulligan.restore.settings_files import spare_settings

        shown = tuple(to_text(path) for path in paths) if paths is not None else None
        if look is None:
            return RestorePlan(entry.id, what, shown)
        target = Target(entry.files_tree, entry.modes_tree, Defaults(*entry.defaults), entry.checkpoint.not_captured)
        certain = (*self.settings.capture.certain, *entry.by_name, *entry.absent)
        rules = self.settings.capture._replace(certain=certain) if certain else self.settings.capture
        drawn = draw(look.source, look.scan, target, paths, already=self._already, rules=rules)
        if paths is None:
            drawn = spare_settings(drawn, look, entry, self.vault)
        move = git.move if git is not None else None
        return RestorePlan(entry.id, what, shown, drawn.actions, drawn.keeps, move, drawn.absent)

    def _already(self, path: bytes, node: Node) -> bool:
        """Returns whether a path that is not captured is, all the same, what a checkpoint holds."""
        from mulligan.restore.place import stands

        try:
            with Directory.open(self.settings.workspace) as root, root.descend(parent_of(path)) as directory:
                return stands(directory, os.path.basename(path), node)
        except OSError:
            return False  # not reachable, so not the same

    def restore(
        self,
        entry: Entry,
        *,
        paths: tuple[bytes, ...] | None = None,
        what: str = "files",
        git: bool = False,
        stage: str = "",
        promised: RestorePlan | None = None,
    ) -> RestoreReport:
        """Brings a checkpoint back, with git or with a commit to `stage`. With `promised`, exactly that plan or PlanStale."""
        self.root.prepare()
        with self.vault.objects.writer() as writer:
            look = self.look(writer, by_name=entry.by_name, later=True)
            planned = self.git.plan(entry) if git else self.git.plan_staging(stage) if stage else None
            plan = self.plan(entry, look if what != "state" else None, paths, what, git=planned)
            if promised is not None and not promised.is_as(plan):
                raise PlanStale(
                    "The workspace is no longer what the plan was made for. Nothing was changed.",
                    hint="Plan again: mulligan restore REF --dry-run",
                )
            report = self.go(entry, plan, look, writer, verb="restore", git=planned)
            if self._watched:
                # Whoever goes back to a checkpoint goes back to it again, and what the next look remembers is what this one saw.
                self._way = look.source.way_to(entry.files_tree)
            return report

    def step(self, verb: str, states: list[Move], *, skip: range = range(0)) -> RestoreReport | None:
        """Restores the first of some states, but for those to skip, that differs from the workspace; None when none does."""
        self.root.prepare()
        with self.vault.objects.writer() as writer:
            look: Look | None = None
            for depth, move in enumerate(states):
                entry = self.vault.checkpoints.by_id(move.id)
                # Where undo stands already, no step is taken back; redo begins with the first.
                crossed = any(state.git for state in states[int(verb == "undo") : depth + 1])
                if entry is None or depth in skip:
                    continue
                if look is None or look.by_name != self.settings.capture.naming(entry.by_name).by_name:
                    look = self.look(writer, by_name=entry.by_name)
                git = self.git.plan_back(entry) if crossed else None
                if git is not None or self._differs(entry, move, look):
                    plan = self.plan(entry, look if move.what != "state" else None, None, move.what, git=git)
                    return self.go(entry, plan, look, writer, verb=verb, depth=depth + (verb == "redo"), git=git)
        return None

    def go(
        self,
        entry: Entry,
        plan: RestorePlan,
        look: Look,
        writer: Any,
        *,
        verb: str,
        depth: int = 0,
        git: Planned | None = None,
    ) -> RestoreReport:
        """Applies a plan: state staged, safety checkpoint, journalled changes, state made current."""
        from mulligan.model.plan import RestoreReport
        from mulligan.restore import procedure
        from mulligan.restore.hiding import written_in_hiding
        from mulligan.timeline.journal import Journal, state_given

        self.root.refuse_elsewhere(entry)
        what = plan.what
        state = entry.checkpoint.state if what != "files" else {}
        staged = self.providers.stage(state)
        with_state = what != "files" and bool(self.providers)
        hidden = written_in_hiding(plan, self.observer, self.vault.objects)
        look.by_name = (*look.by_name, *map(to_text, hidden))
        safety, save = self._safety(entry, look, writer, plan, verb, with_state=with_state, git=git and git.seen)
        if git is not None and save is not None:
            save(None)  # what the store keeps for git is written by another writer, after this one
            save = None
        about = f"mulligan: {verb} to {entry.checkpoint.short_id}"
        move = self.git.journalled(git, about, safety, self.now_ns() // 1_000_000_000) if git is not None else None
        position = entry.id if what != "state" and plan.paths is None else ""
        journal = Journal(random_name(6), entry.id, safety, what, position, verb, depth, actions=plan.actions, git=move)
        with Directory.open(self.settings.workspace) as root:
            done = procedure.carry_out(
                self.vault, root, journal,
                seen=look.scan, progress=self.counted("restoring"), save_first=save, meanwhile=self.observer.catch_up,
            )  # fmt: skip
        for make_current in staged:
            make_current()
        if staged or not state:  # otherwise nobody took it: it is owed to the next program that registers a provider
            state_given(self.vault.database)
        kept = [*plan.keeps, *done.kept]
        if position and (kept or git is not None or _moves_scope(plan)):
            # The restore is acknowledged: what fails now may cost the next undo a step, and not this one its success.
            with suppress(OSError, UserError):
                self._remember_landing(entry, verb, look.by_name)
        return RestoreReport(entry.id, done.created, done.modified, done.deleted, kept, safety, state, git=move)

    def _remember_landing(self, entry: Entry, verb: str, by_name: tuple[str, ...]) -> None:
        """
        Saves what a restore left, if that is not quite its target: it is the state that the next undo starts from.

        Without it, a file that was kept because an ignore rule hid it, or one that a rule hid until this restore took the
        rule away, would look like an edit made since, and the undo would only take that back.
        """
        with self.vault.objects.writer() as writer:
            look = self.look(writer, by_name=by_name)
            if saving.same_state(entry, look.scan) or self.plan(entry, look, None, "files").is_noop:
                return
            about = f"after {verb} to {entry.checkpoint.name or entry.checkpoint.short_id}, with what was kept"
            landed, _ = self.keep(self.draft("", about, "safety"), look, writer, as_position=False)
        with self.vault.database.transaction():
            self.vault.moves.replace_top(Move(landed.id))

    def _differs(self, entry: Entry, move: Move, look: Look) -> bool:
        same = move.what == "state" or saving.same_state(entry, look.scan)
        if not same and not self.plan(entry, look, None, "files").is_noop:
            return True
        return move.what != "files" and bool(self.providers) and self.providers.capture() != entry.checkpoint.state

    def _safety(
        self,
        entry: Entry,
        look: Look,
        writer: Any,
        plan: RestorePlan,
        verb: str,
        *,
        with_state: bool,
        git: GitRecord | None = None,
    ) -> tuple[str, Callable[[Callable[[], None] | None], object] | None]:
        """Returns the id of a checkpoint that holds the workspace as it is, and how to save it unless the position is it."""
        here = self.vault.checkpoints.current()
        same = here is not None and saving.same_state(here, look.scan) and (git is None or self.git.records(here, git))
        # What that one did not look at may be about to change: its undo must concern it.
        same = same and here is not None and {*look.by_name} <= {*here.by_name} and {*plan.absent} <= {*here.absent}
        same = same and here is not None and not saving.could_not_see(here, plan.actions)
        if git is not None or _moves_scope(plan):
            # What is hidden now may be seen by the undo, which must not take it for something made since.
            same = same and here is not None and saving.lists_hidden(here, look.scan)
        if here is not None and not with_state and (plan.is_noop or same):
            return here.id, None
        about = f"before {verb} to {entry.checkpoint.name or entry.checkpoint.short_id}"
        known = {ABSENT: list(plan.absent)} if plan.absent else {}
        draft = self.draft("", about, "safety", state=self.providers.capture(), metadata=known, git=git)
        # The target itself may be the next to go.
        return draft.id, lambda also: self.keep(draft, look, writer, as_position=False, sparing=entry.id, also=also)

    def keep_now(self, about: str) -> str:
        """Saves what is there now, files and state, as a safety checkpoint; returns its id."""
        with self.vault.objects.writer() as writer:
            draft = self.draft("", about, "safety", state=self.providers.capture())
            return self.keep(draft, self.look(writer), writer, as_position=False)[0].id

    def recover(self) -> str:
        """Ends what was cut short; returns a sentence about a restore that was, empty when there was none."""
        self._unpin_the_dead()
        if self.vault.database.is_empty("journal"):
            return ""
        from mulligan.restore import procedure
        from mulligan.restore.recovery import FINISHED

        if self.root.is_gone():
            procedure.drop_interrupted(self.vault)
            return "A restore had been interrupted; it was dropped, because the directory is gone."
        with Directory.open(self.settings.workspace) as root:
            ended = procedure.end_interrupted(self.vault, root)
        if ended is None:
            return ""
        journal, recovered = ended
        kept = "".join(f" Kept: {keep.path} ({keep.reason})." for keep in recovered.outcome.kept)
        how = "was finished" if recovered.how == FINISHED else "was taken back"
        moved = recovered.how == FINISHED and journal.git is not None and not recovered.outcome.kept
        git = f" Git stands on {journal.git.after.words()}." if moved and journal.git is not None else ""
        return f"A restore to {journal.target[:8]} that had been cut short {how}.{git}{kept}"

    def heal_objects(self) -> list[str]:
        """Brings back objects that were lost: what the workspace still holds, and what the timeline says of checkpoints."""
        from mulligan.timeline.health import derived_objects, lost_objects

        lost = lost_objects(self.vault)
        if not lost:
            return []
        with self.vault.objects.writer(anew=lost) as writer:
            there = derived_objects(self.vault) | self.look(writer, fresh=True).scan.objects
            for oid in lost & there.keys():
                writer.add_hashed(oid, *there[oid])
            writer.finish()
        healed = len(lost) - len(lost_objects(self.vault))
        return [f"Took {healed} lost objects from the workspace and the timeline."] if healed else []
