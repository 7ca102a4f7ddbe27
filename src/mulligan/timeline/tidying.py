"""
What is done for a store while nobody waits for it: small packs are joined, and what retention let go is freed.

In portions that take a moment each. Most of them only read; what changes the store is handed out, to be done by the caller
while he holds it. Whoever stops asking leaves nothing half done, and whoever asks again goes on from there.
What is needed is found out without the lock. That is safe because it is asked again while the store is held: what came since
is followed then, and what only a checkpoint reached that went since is kept until the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mulligan.errors import StoreDamaged
from mulligan.store.gc import reach, reaching
from mulligan.store.objects import MANY_PACKS
from mulligan.store.repository import PERMANENT
from mulligan.timeline import budget
from mulligan.timeline.vault import Vault

if TYPE_CHECKING:
    from mulligan.scan.scanner import Scanner
    from mulligan.store.gc import Batch, Reclaiming
    from mulligan.store.objects import ObjectStore

# So many trees are read between two moments at which the work can be left off.
_AT_A_TIME = 64


class Portion(NamedTuple):
    """A portion of the work, done but for what needs the store held, if anything does."""

    act: Callable[[], None] | None = None


class Tidier:
    """Tidies one store up, a portion at a time."""

    def __init__(self, vault: Vault, scanner: Scanner) -> None:
        self._vault, self._scanner = vault, scanner
        self._store: ObjectStore | None = None
        self._work: Iterator[Portion] | None = None
        self._owed: Portion | None = None
        # When there was nothing to join, and when freeing was last begun: until something changes, neither is tried again.
        self._joined = -1
        self._tried = (-1, -1)

    def portion(self) -> Portion | None:
        """Does a portion of what needs no lock and returns the rest of it; None when there is nothing to do."""
        if self._work is not None and self._store is not self._vault.objects:
            self._give_up()  # another store stands there, or the same was opened anew
        if self._owed is not None:
            return self._owed  # the store was in use
        if self._work is None:
            if self._is_untidy():
                return Portion(self.join)
            if not self._is_due():
                return None
            self._store, self._work = self._vault.objects, self._free()
        portion = None
        # Somebody else removed what was being read; or it is damaged, which the next command tells.
        with suppress(OSError, StoreDamaged):
            portion = next(self._work, None)
        if portion is None:
            self._give_up()
        elif portion.act is not None:
            self._owed = portion
        return portion

    def _give_up(self) -> None:
        self._store = self._work = self._owed = None

    # -- joining --------------------------------------------------------------------------------

    def _is_untidy(self) -> bool:
        count = self._vault.objects.pack_count()
        return count > MANY_PACKS and count != self._joined

    def join(self) -> None:
        """Joins small packs into one; the store must be held."""
        from mulligan.store.gc import merge_small

        # What they hold is acknowledged already: joining them has time until the disk has room.
        with suppress(OSError):
            merge_small(self._vault.objects)
        self._joined = self._vault.objects.pack_count()

    # -- freeing --------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        return budget.may_be_wasteful(self._vault) and self._state() != self._tried

    def _state(self) -> tuple[int, int]:
        return self._vault.checkpoints.gone(), budget.packed(self._vault)

    def _free(self) -> Iterator[Portion]:
        """Finds out what is needed, copies it out of packs that hold much else, and lets those go."""
        from mulligan.store.gc import Reclaiming

        self._tried = self._state()
        store, live, read = self._vault.objects, set(PERMANENT), 0
        for commit in self._vault.checkpoints.roots().values():
            for _ in reaching(store, commit, live):
                read += 1
                if read % _AT_A_TIME == 0:
                    yield Portion()
        reclaiming = Reclaiming(store, live)
        for batch in reclaiming.batches():
            yield Portion(partial(self._place, reclaiming, batch, live) if batch is not None else None)
        yield Portion(self._note)

    def _place(self, reclaiming: Reclaiming, batch: Batch, live: set[bytes]) -> None:
        from mulligan.store.gc import Outdated

        self._owed = None
        try:
            for commit in self._vault.checkpoints.roots().values():
                reach(self._vault.objects, commit, live)
            reclaiming.place(batch, self._begin_epoch)
        except (OSError, Outdated):
            self._give_up()  # there is no room, or somebody else removed packs: it has time
        except BaseException:
            self._give_up()
            raise

    def _begin_epoch(self) -> None:
        """Before objects go: whatever is remembered of them counts no more, but for what a checkpoint holds."""
        before = self._vault.epoch()
        self._vault.next_epoch()
        self._scanner.outlive(before, self._vault.epoch(), self._vault.checkpoints.holds_tree)

    def _note(self) -> None:
        self._owed = None
        budget.note_freed(self._vault)
