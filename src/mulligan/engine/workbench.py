"""
The workbench: one open workspace, as the functions of this package take it.

It holds the settings, the store, the lock, the scanner and the handlers. Functions that read take no lock and change nothing;
functions that write hold the store for as long as they run and first end a restore that an earlier process left half done.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any

from mulligan.errors import ContentsElsewhere, MulliganError, NothingSaved, UserError
from mulligan.model.checkpoint import SECRET, Secrets, within_bounds
from mulligan.model.policy import Settings
from mulligan.scan.scanner import Scanner
from mulligan.scan.trees import Scan
from mulligan.timeline.root import Root, refuse_unprotectable
from mulligan.timeline.store import Store
from mulligan.timeline.trees import NO_STORE, WorkspaceView

if TYPE_CHECKING:
    from mulligan.state.providers import Provider
    from mulligan.timeline.commits import Entry
    from mulligan.timeline.pruning import Tidier

EVENTS = ("saved", "restored", "deleted", "pruned", "partial", "error")
Handler = Callable[[Any], object]
Progress = Callable[[str, int, int | None], None]

_RESTORING = frozenset({"restore", "undo", "redo", "revert"})


class Workbench:
    """The parts of an open workspace."""

    def __init__(self, settings: Settings, now_ns: Callable[[], int]) -> None:
        refuse_unprotectable(settings)
        self.settings = settings
        self.now_ns = within_bounds(now_ns)
        self.store = Store(settings)
        self.root = Root(self.store)
        self.scanner = Scanner(settings, self.now_ns)
        self.providers: dict[str, Provider] = {}
        self.mutex = RLock()
        self.progress: Progress | None = None
        self.watched = False
        self.before_fetching: Callable[[], None] | None = None  # called before a network is used; may raise
        self.last_recovery = ""
        #: Safety checkpoints that the budget removed before their time, during the last operation that wrote.
        self.evicted: list[Entry] = []
        self._handlers: dict[str, list[Handler]] = {}
        self._tidier: Tidier | None = None

    def close(self) -> None:
        """Releases files and memory, and ends the watching."""
        with self.mutex:
            self.unwatch()
            self.store.close()
            self.scanner.forget()

    def unwatch(self) -> None:
        """Ends the watching; idempotent."""
        with self.mutex:
            self.watched = False
            self.scanner.unwatch()

    @property
    def tidier(self) -> Tidier:
        """What tidies up the store in idle time."""
        if self._tidier is None:
            from mulligan.timeline.pruning import Tidier

            self._tidier = Tidier(self.store, self.scanner)
        return self._tidier

    def counted(self, label: str) -> Callable[[int, int | None], None] | None:
        """Returns how to report progress of some work, None without a listener."""
        tell = self.progress
        return None if tell is None else lambda done, total: tell(label, done, total)

    def capture_state(self) -> dict[str, Any]:
        """Returns the state of every provider."""
        return {name: provider.capture() for name, provider in self.providers.items()}

    def stage_state(self, state: dict[str, Any]) -> list[Callable[[], None]]:
        """Lets every provider check its part of a state; returns the calls that make it current."""
        return [provider.stage(state[name]) for name, provider in self.providers.items() if name in state]

    # -- notifying ------------------------------------------------------------------------------

    def handlers(self, event: str) -> list[Handler]:
        """Returns the handlers of an event, to add to or to take from; raises UserError for an unknown event."""
        if event not in EVENTS:
            raise UserError(f"There is no event {event!r}; there are {', '.join(EVENTS)}.")
        return self._handlers.setdefault(event, [])

    def emit(self, event: str, value: Any) -> None:
        """Calls the handlers of an event, with the store free again; what fails in one is logged and has no other effect."""
        for handler in tuple(self._handlers.get(event, ())):
            try:
                handler(value)
            except Exception:
                import logging

                logging.getLogger("mulligan").debug("a handler of %r failed", event, exc_info=True)

    # -- the store ------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[Store | None]:
        """Gives the store, None before the first save; what the disk refuses becomes an error of ours."""
        try:
            with self.mutex:
                yield self.store if self.store.exists() else None
        except MulliganError:
            raise
        except OSError as error:
            from mulligan.safefs.errors import unreadable

            raise unreadable(error) from error
        except MemoryError as error:
            from mulligan.safefs.errors import out_of_memory

            raise out_of_memory() from error

    @contextmanager
    def needing(self) -> Iterator[Store]:
        """Gives the store; raises NothingSaved before the first save."""
        with self.reading() as store:
            if store is None:
                raise NothingSaved(f"Nothing was saved in {self.settings.workspace} yet.", hint="mulligan save")
            yield store

    @contextmanager
    def writing(self, purpose: str, *, create: bool = False, needed: bool = False) -> Iterator[Store]:
        """Holds the store; first ends a restore that was interrupted. Notifies `error` handlers of what went wrong."""
        try:
            with self.mutex:
                if needed:
                    with self.needing():
                        pass
                with self.store.writing(purpose, create=create):
                    # A scan makes objects by the hundred thousand and no cycles: to look for some took a tenth of its time.
                    was_on = gc.isenabled()
                    gc.disable()
                    try:
                        self.evicted = []
                        self.last_recovery = _end_interrupted(self)
                        yield self.store
                    finally:
                        if was_on:
                            gc.enable()
            for old in self.evicted if purpose in _RESTORING else ():
                self.emit("pruned", old.checkpoint)
        except (OSError, MemoryError) as error:
            from mulligan.safefs.errors import out_of_memory, typed

            trouble = typed(error) if isinstance(error, OSError) else out_of_memory()
            self.emit("error", trouble)
            raise trouble from error
        except ContentsElsewhere:
            raise  # it is fetched, and the verb runs again
        except MulliganError as error:
            self.emit("error", error)
            raise

    # -- the workspace --------------------------------------------------------------------------

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
        if exists and self.watched and not gone:
            self.scanner.watch(store.directory)
        report = self.counted("reading")
        count = None if report is None else lambda done: report(done, None)
        base = store.checkpoints.current if exists else None
        scan, git, note = self.scanner.scan(cache, sink, count, by_name, with_git=with_git, base=base, gone=gone)
        scan = self.seal_secrets(scan, sink)
        named = self.settings.capture.naming(by_name).by_name
        return WorkspaceView(scan, git, note, store.objects if exists else NO_STORE, named)

    def seal_secrets(self, scan: Scan, sink: Any, directory: str = "") -> Scan:
        """Returns the scan with its secrets sealed; loads the code for it only where there is one."""
        if self.settings.capture.secrets == "skip":
            return scan
        if not any(missed.reason == SECRET for missed in scan.missed.values()):
            return replace(scan, secrets=Secrets())
        from mulligan.timeline.secrets import seal_workspace

        return seal_workspace(self.store, scan, sink, directory)


def _end_interrupted(bench: Workbench) -> str:
    """Ends what an earlier process left half done; returns a sentence about it, mostly none."""
    database = bench.store.database
    _unpin_the_dead(bench.store)
    if database.meta("forks"):
        from mulligan.forks.fork import end_interrupted

        end_interrupted(bench.store)
    said = ""
    if not database.is_empty("journal"):
        from mulligan.engine.restore import recover

        said = recover(bench)
    reverted = database.meta("landing")
    if reverted and not bench.root.is_gone():
        from mulligan.engine.revert import land_revert

        land_revert(bench, reverted)
    return said


def _unpin_the_dead(store: Store) -> None:
    """Removes the pins of processes that are no more."""
    if store.database.is_empty("pin"):
        return
    from mulligan.safefs.pins import is_pinned

    pins = {row["pid"] for row in store.database.select("pin")}
    dead = [number for number in pins if not is_pinned(store.directory, number)]
    if dead:
        with store.database.transaction():
            for number in dead:
                store.database.run("DELETE FROM pin WHERE pid=?", number)
