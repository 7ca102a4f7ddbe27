"""
After a crash: finishing a restore, or taking it back.

Touches only paths that still are in the plan's old or new state. A restore that had only staged its files is taken back by
removing them; one that had begun is finished from the store, and if that cannot be done (an object is damaged, the disk is
full), the paths already changed are put back from the safety checkpoint. A path that another program changed, moved or locked
since then is left alone and listed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from mulligan.errors import DurabilityLost, MulliganError
from mulligan.model.paths import parent_of, to_text
from mulligan.model.plan import Action, Keep, is_sealed
from mulligan.restore.apply import Executor
from mulligan.restore.place import Handles, find_shared, is_absence, stands
from mulligan.restore.procedure import conclude, git_part, remove_unused
from mulligan.restore.reach import RestoreOutcome, is_writable, lock_again, unlock
from mulligan.restore.secrets import unsealed
from mulligan.restore.stage import BlobSource, Layout, Stager
from mulligan.safefs.directory import Directory
from mulligan.timeline.journal import APPLYING, RESUMING, STAGING, Journal, close_journal, read_journal, set_phase
from mulligan.timeline.store import Store

FINISHED, TAKEN_BACK = "finished", "taken back"


class Recovered(NamedTuple):
    """How an interrupted restore ended."""

    how: str
    outcome: RestoreOutcome


def drop_interrupted(store: Store) -> None:
    """Closes the journal of a restore whose workspace is gone: there is nothing left to finish or to take back."""
    with store.database.transaction():
        close_journal(store.database)


def end_interrupted(store: Store, root: Directory) -> tuple[Journal, Recovered] | None:
    """Finishes or takes back a restore that was cut short; None when there is none."""
    journal = read_journal(store.database)
    if journal is None:
        return None
    if store.is_replaced():
        # Another directory stands here now, perhaps another project: it was never part of that restore.
        recovered = Recovered(
            TAKEN_BACK, RestoreOutcome(kept=[Keep(".", "another directory stands here", failed=True)])
        )
    else:
        recovered = _recover(store, root, journal)
    with store.database.transaction():
        if recovered.how == FINISHED:
            conclude(store, journal)
        else:
            close_journal(store.database)
            if journal.phase == STAGING:
                remove_unused(store, journal)
    store.settle_refs()
    return journal, recovered


def _recover(store: Store, root: Directory, journal: Journal) -> Recovered:
    """Ends both halves of a restore, the files and git, in the same direction."""
    git = git_part(store, journal)
    secret = {number for number, action in enumerate(journal.actions) if is_sealed(action)}
    # Before anything was changed no content is needed: temporaries are removed.
    actions, objects = (
        (journal.actions, store.objects) if journal.phase == STAGING else unsealed(store, journal.actions)
    )
    recovered = _end(
        root,
        objects,
        replace(journal, actions=tuple(actions)),
        lambda phase: set_phase(store.database, phase),
        back=git is not None and journal.phase != STAGING and git.must_go_back(),
        first=secret,
    )
    if git is not None and recovered.how == FINISHED:
        recovered.outcome.kept += git.finish()
    elif git is not None:
        git.abandon()
    return recovered


def _end(
    root: Directory,
    store: BlobSource,
    journal: Journal,
    enter: Callable[[str], None],
    *,
    back: bool = False,
    first: Collection[int] = (),
) -> Recovered:
    """
    Ends the restore that a journal describes; raises only if neither way is possible, with the journal still open.

    `enter` writes the journal's next phase. The temporaries of the actions `first`, which hold secrets, go first. `back` says that it cannot be finished for another reason.
    """
    handles = Handles(root)
    try:
        if journal.phase == STAGING:
            return Recovered(TAKEN_BACK, _unstage(root, handles, store, journal, first))
        with suppress(OSError):  # one that is gone or refuses shows when its paths are changed
            unlock(handles, journal.locked)
        handles.spell(Layout(journal.actions).respelled)
        forward, backward = (_RecoveryWay(root, handles, store, journal, forward=forward) for forward in (True, False))
        stuck = forward.tidy(first) | backward.tidy(first)
        if not stuck:
            enter(RESUMING)
        if back:
            return Recovered(TAKEN_BACK, backward.go(enter))
        try:
            return Recovered(FINISHED, forward.go(enter))
        except DurabilityLost:
            raise
        except MulliganError:
            forward.unstage()
            return Recovered(TAKEN_BACK, backward.go(enter))
    finally:
        handles.close()


def _unstage(
    root: Directory, handles: Handles, store: BlobSource, journal: Journal, first: Collection[int]
) -> RestoreOutcome:
    outcome = RestoreOutcome()
    stager = Stager(root, handles, store, journal.token, Layout(journal.actions))
    if not stager.clear(first=first):
        outcome.kept.append(
            Keep(".", "left behind", f"a temporary (.mulligan-{journal.token}-…) could not be removed", failed=True)
        )
    for path in lock_again(handles, journal.locked):
        outcome.kept.append(Keep(to_text(path), "left writable", "it could not be closed again", failed=True))
    stager.sync_cleared(everything=bool(journal.locked))
    return outcome


class _RecoveryWay:
    """One of the two ways out: on to the new state, or back to the old one, from wherever things stand."""

    def __init__(
        self, root: Directory, handles: Handles, store: BlobSource, journal: Journal, *, forward: bool
    ) -> None:
        actions = journal.actions if forward else tuple(Action(a.path, a.after, a.before) for a in journal.actions)
        # The way back has names of its own, so that no temporary is met twice.
        token = journal.token if forward else journal.token + "b"
        self._handles = handles
        self._layout = Layout(actions)
        self._restaging = journal.phase == RESUMING
        self._forward = forward
        self._stuck: set[int] = set()
        self._stager = Stager(root, handles, store, token, self._layout)
        self._executor = Executor(root, handles, token, self._layout, locked=journal.locked)

    def tidy(self, first: Collection[int]) -> set[int]:
        """Sees to the temporaries of an earlier attempt, some of them first; returns those that stay."""
        if not self._restaging or not self._stager.clear(first=first):
            self._stuck = self._executor.tidy(first)
        return self._stuck

    def unstage(self) -> None:
        """Removes what was staged, and nothing that an earlier attempt left."""
        self._stager.clear(sparing=self._stuck)

    def go(self, enter: Callable[[str], None]) -> RestoreOutcome:
        """Stages what is still to be put in place, and applies."""
        self._layout.shared = find_shared(self._handles, self._layout.chmods)
        pending = [
            (n, a) for n, a in self._layout.staged if n not in self._stuck and _awaits(self._handles, self._layout, a)
        ]
        # What can be had neither way is left as it is and listed: a damaged object must not block the store for ever.
        stage = self._stager.stage(pending, skip_damaged=not self._forward)
        enter(APPLYING)
        return self._executor.run(stage)


def _awaits(handles: Handles, layout: Layout, action: Action) -> bool:
    """Whether a file is still to be put in place, and can be staged: its directories are there and may be written."""
    try:
        stage = handles.get(layout.stage_of(action.path))
        if not is_writable(stage.fd):
            return False
        directory, name = handles.get(parent_of(action.path)), os.path.basename(action.path)
        return (
            not stands(directory, name, action.after)
            if action.before is None
            else stands(directory, name, action.before)
        )
    except OSError as error:
        return is_absence(error) and action.before is None  # its directory is yet to be made
