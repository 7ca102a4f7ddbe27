"""
An open workspace: what every verb stands on.

The settings, the store, the lock and the events. Reading verbs take no lock and change nothing; writing verbs hold the store
for as long as they run and first end a restore that an earlier process left half done.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any, Self, cast

from mulligan.engine.events import Events, Handler
from mulligan.engine.save import Progress, Workbench
from mulligan.errors import MulliganError, NothingSaved
from mulligan.model.checkpoint import within_bounds
from mulligan.model.policy import Settings
from mulligan.state.providers import Provider
from mulligan.timeline.commits import Entry
from mulligan.timeline.root import refuse_unprotectable
from mulligan.timeline.store import Store

if TYPE_CHECKING:
    from mulligan.engine.watching import Watching
    from mulligan.engine.workspace import Workspace
    from mulligan.forks.bisect import Bisection, Test
    from mulligan.forks.record import Fork
    from mulligan.model.checkpoint import Checkpoint, NotCaptured
    from mulligan.model.diff import Diff

_RESTORING = frozenset({"restore", "undo", "redo", "revert"})


class Opened:
    """A workspace that is open; the verbs are in `engine`."""

    def __init__(self, settings: Settings, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        refuse_unprotectable(settings)
        self.settings = settings
        self.last_recovery = ""
        self._bench = Workbench(settings, within_bounds(now_ns))
        self._events = Events()
        self._mutex = RLock()

    def __repr__(self) -> str:
        return f"<mulligan.Workspace {self.root!r}>"

    def __enter__(self) -> Self:
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

    @property
    def progress(self) -> Progress | None:
        """Called as `progress(label, done, total)` during long work."""
        return self._bench.progress

    @progress.setter
    def progress(self, tell: Progress | None) -> None:
        self._bench.progress = tell

    def close(self) -> None:
        """Releases files and memory; the next use opens them again."""
        with self._mutex:
            self._bench.close()

    # -- watching -------------------------------------------------------------------------------

    def watch(self) -> Watching:
        """
        Watches the workspace until the answer is closed (or used in a `with` block), so that every verb costs what changed.

        Nothing else changes: where the system cannot watch, the verbs look at everything as before, and `reason` says why.
        """
        with self._mutex:
            self._bench.watch()
        from mulligan.engine.watching import Watching

        return Watching(self._bench, self._mutex)

    def notices(self) -> int:
        """Returns the descriptor that has something to read when something happened in a watched workspace, -1 for none."""
        watcher = self._bench.scanner.watcher
        return watcher.fd if watcher is not None else -1

    def catch_up(self) -> None:
        """Takes note of what happened so far, so that the kernel's queue of notices does not run over."""
        with self._mutex:
            self._bench.scanner.catch_up()

    def tidy(self) -> bool:
        """
        Does a little of what saves leave to do: joins packs, frees what retention let go; returns whether there may be more.

        For idle time. Each call is short, and most calls do not hold the store. A watcher that calls this until it returns
        False, or until a command comes in, keeps the store small without delaying commands.
        """
        with self._mutex:
            with self._reading() as store:
                portion = self._bench.tidier.portion() if store is not None else None
            if portion is not None and portion.act is not None:
                with self._writing("tidy"):
                    portion.act()
            return portion is not None

    def patience(self, seconds: float) -> None:
        """Says how long to wait for another process that writes."""
        self._bench.store.settings = self._bench.store.settings._replace(wait=seconds)

    def recognise(self) -> None:
        """Says that the directory that stands here is this history's project, although it was made in another one."""
        with self._writing("settle", needed=True):
            self._bench.root.recognise()

    def moved_from(self) -> str:
        """Returns where this directory stood before, if a history of it is still kept for there; see `adopt`."""
        from mulligan.timeline.stores import moved_from

        return moved_from(self.settings)

    # -- telling --------------------------------------------------------------------------------

    def on(self, event: str, handler: Handler) -> None:
        """Calls a handler after each such event: saved, restored, deleted, pruned, partial, error."""
        self._events.on(event, handler)

    def off(self, event: str, handler: Handler) -> None:
        """Stops calling a handler."""
        self._events.off(event, handler)

    def provide(self, name: str, provider: Provider) -> None:
        """Registers a provider of agent state, captured at each save and handed back by a restore of state."""
        self._bench.providers.add(name, provider)

    def state_owed(self, *, forgive: bool = False) -> str | None:
        """
        Returns the checkpoint whose files came back and whose state was cut off; with `forgive`, the state is dropped.

        A restore that was cut short is ended first: only then is it known.
        """
        from mulligan.timeline.journal import state_given, state_owed

        with self._reading() as store:
            unknown = store is not None and store.database.row("SELECT 1 FROM journal") is not None
        if unknown:
            with self._writing("settle"):
                pass
        with self._reading() as store:
            owed = state_owed(store.database) if store is not None else ""
        if owed and forgive:
            with self._writing("settle"):
                state_given(self._bench.store.database)
        return owed or None

    def settle_state(self) -> bool:
        """Hands owed state to the registered providers, if the files are where that restore left them; returns whether it did."""
        from mulligan.state.providers import settle

        if self.state_owed() is None:
            return False
        with self._writing("settle"):
            return settle(self._bench.store, self._bench.providers, self._bench.keep_now)

    def evicted(self) -> list[Checkpoint]:
        """Returns the safety checkpoints that the last operation removed for the budget before they were a week old."""
        return [entry.checkpoint for entry in self._bench.evicted]

    def new_key(self) -> str:
        """Returns the file of the key for secrets if this process made one since it was last asked, else nothing."""
        return self._bench.store.new_key()

    def _tell_saved(self, entry: Entry, gone: list[Entry]) -> None:
        self._events.emit("saved", entry.checkpoint)
        if not entry.checkpoint.complete:
            self._events.emit("partial", entry.checkpoint)
        for old in gone:
            self._events.emit("pruned", old.checkpoint)

    def holds(self, ref: str | Checkpoint, path: str) -> bool:
        """Returns whether a checkpoint holds a file, sealed or not, or a directory of this path."""
        from mulligan.model.paths import parse_path
        from mulligan.timeline.trees import Trees

        with self._needing() as store:
            entry = store.checkpoints.resolve(ref)
            wanted = parse_path(path)
            return wanted in entry.sealed or Trees(store.objects).lookup(entry.files_tree, wanted) is not None

    def contents(self, ref: str | Checkpoint) -> Diff:
        """Returns everything that a checkpoint holds, as a difference from nothing."""
        from mulligan.timeline.differences import contents

        with self._needing() as store:
            return contents(store, store.checkpoints.resolve(ref))

    def pending(self) -> dict[str, Any] | None:
        """Returns a restore that runs in another `process`, or was interrupted (`process` None); None if there is none."""
        with self._reading() as store:
            if store is None or store.database.row("SELECT 1 FROM journal") is None:
                return None
            from mulligan.safefs.lock import holder
            from mulligan.timeline.journal import read_journal

            process, journal = holder(store.directory), read_journal(store.database)
        if journal is None:
            return None
        said = {"target": journal.target, "phase": journal.phase, "total": len(journal.actions), "token": journal.token}
        return {**said, "process": process or None}

    # -- forks ----------------------------------------------------------------------------------

    def fork(
        self, ref: str | Checkpoint, directory: str | os.PathLike[str], *, with_ignored: bool = False
    ) -> Workspace:
        """Makes a second working directory, new or empty, at a checkpoint, with a timeline that starts there."""
        from mulligan.forks.verbs import fork

        return fork(self, ref, directory, with_ignored=with_ignored)

    def forks(self) -> list[Fork]:
        """Returns the forks that were made from this workspace and not removed, oldest first."""
        from mulligan.forks.verbs import forks

        return forks(self)

    def bisect(
        self, test: Test, *, good: str | Checkpoint | None = None, bad: str | Checkpoint | None = None
    ) -> Bisection:
        """Finds the step after which a command, or a function that gets a fork, fails; the workspace is not touched."""
        from mulligan.forks.bisect import bisect

        return bisect(cast("Workspace", self), test, good=good, bad=bad)

    # -- opening --------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[Store | None]:
        try:
            with self._mutex:
                yield self._bench.store if self._bench.store.exists() else None
        except MulliganError:
            raise
        except OSError as error:
            from mulligan.safefs.errors import unreadable

            raise unreadable(error) from error
        except MemoryError as error:
            from mulligan.safefs.errors import out_of_memory

            raise out_of_memory() from error

    @contextmanager
    def _needing(self) -> Iterator[Store]:
        with self._reading() as store:
            if store is None:
                raise NothingSaved(f"Nothing was saved in {self.root} yet.", hint="mulligan save")
            yield store

    def _end_interrupted(self) -> str:
        """Ends what an earlier process left half done; returns a sentence about it, mostly none."""
        self._bench.unpin_the_dead()
        if self._bench.store.database.meta("forks"):
            from mulligan.forks.fork import end_interrupted

            end_interrupted(self._bench.store)
        said = ""
        if not self._bench.store.database.is_empty("journal"):
            from mulligan.engine.restore import recover

            said = recover(self._bench)
        reverted = self._bench.store.database.meta("landing")
        if reverted and not self._bench.root.is_gone():
            from mulligan.engine.revert import land_revert

            land_revert(self._bench, reverted)
        return said

    @contextmanager
    def _writing(self, purpose: str, *, create: bool = False, needed: bool = False) -> Iterator[None]:
        """Holds the store; first ends a restore that was cut short. Tells `error` handlers what went wrong."""
        try:
            with self._mutex:
                if needed:
                    with self._needing():
                        pass
                with self._bench.store.writing(purpose, create=create):
                    # A scan makes objects by the hundred thousand and no cycles: to look for some took a tenth of its time.
                    was_on = gc.isenabled()
                    gc.disable()
                    try:
                        self._bench.evicted = []
                        self.last_recovery = self._end_interrupted()
                        yield
                    finally:
                        if was_on:
                            gc.enable()
            for old in self._bench.evicted if purpose in _RESTORING else ():
                self._events.emit("pruned", old.checkpoint)
        except (OSError, MemoryError) as error:
            from mulligan.safefs.errors import out_of_memory, typed

            trouble = typed(error) if isinstance(error, OSError) else out_of_memory()
            self._events.emit("error", trouble)
            raise trouble from error
        except MulliganError as error:
            self._events.emit("error", error)
            raise


def without_staged(rows: list[NotCaptured], pending: dict[str, Any] | None) -> list[NotCaptured]:
    """Returns what is not saved without the temporaries of a restore that has not ended: they go when it does."""
    if pending is None:
        return rows
    staged = f".mulligan-{pending['token']}-"
    return [row for row in rows if not row.path.rpartition("/")[2].startswith(staged)]
