"""
After a crash: finishing a restore, or taking it back.

Touches only paths that still are in the plan's old or new state. A restore that had only staged its files is taken back by
removing them; one that had begun is finished from the store, and if that cannot be done (an object is damaged, the disk is
full), the paths already changed are put back from the safety checkpoint. A path that somebody else changed, moved or locked
meanwhile is left alone and listed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from mulligan.errors import DurabilityLost, MulliganError
from mulligan.model.paths import parent_of, to_text
from mulligan.model.plan import Action, Keep
from mulligan.restore.executor import Executor, Outcome
from mulligan.restore.layout import Layout
from mulligan.restore.place import Handles, is_absence, stands
from mulligan.restore.staging import BlobSource, Stager
from mulligan.restore.unlocking import lock_again, unlock
from mulligan.safefs.directory import Directory
from mulligan.timeline.journal import STAGING, Journal

FINISHED, TAKEN_BACK = "finished", "taken back"


class Recovered(NamedTuple):
    """How an interrupted restore ended."""

    how: str
    outcome: Outcome


def recover(root: Directory, store: BlobSource, journal: Journal) -> Recovered:
    """Ends the restore that a journal describes; raises only if neither way is possible, with the journal still open."""
    handles = Handles(root)
    try:
        if journal.phase == STAGING:
            return Recovered(TAKEN_BACK, _unstage(root, handles, store, journal))
        with suppress(OSError):  # one that is gone or refuses shows when its paths are changed
            unlock(handles, journal.locked)
        # A crash may have cut short the taking back itself.
        Executor(root, handles, _backward(journal.token), Layout(_reversed(journal)), seen=_nothing).tidy()
        try:
            return Recovered(FINISHED, _resume(root, handles, store, journal, forward=True))
        except DurabilityLost:
            raise
        except MulliganError:
            return Recovered(TAKEN_BACK, _resume(root, handles, store, journal, forward=False))
    finally:
        handles.close()


def _unstage(root: Directory, handles: Handles, store: BlobSource, journal: Journal) -> Outcome:
    outcome = Outcome()
    if not Stager(root, handles, store, journal.token, Layout(journal.actions)).clear():
        outcome.kept.append(Keep(".", "left behind", f"a temporary (.mulligan-{journal.token}-…) could not be removed", failed=True))
    for path in lock_again(handles, journal.locked):
        outcome.kept.append(Keep(to_text(path), "left writable", "it could not be closed again", failed=True))
    return outcome


def _resume(root: Directory, handles: Handles, store: BlobSource, journal: Journal, *, forward: bool) -> Outcome:
    """Goes all the way to the new state, or back to the old one from wherever things stand."""
    actions = journal.actions if forward else _reversed(journal)
    token = journal.token if forward else _backward(journal.token)
    layout = Layout(actions)
    if not forward:
        Executor(root, handles, journal.token, Layout(journal.actions), seen=_nothing).tidy()
    executor = Executor(root, handles, token, layout, seen=_nothing, locked=journal.locked)
    stuck = executor.tidy()
    stager = Stager(root, handles, store, token, layout)
    pending = [(n, a) for n, a in layout.places if n not in stuck and _awaits(handles, layout, a)]
    # What neither way can be had is left as it is and listed; a damaged object must not block the store for ever.
    return executor.run(stager.stage(pending, skip_damaged=not forward))


def _awaits(handles: Handles, layout: Layout, action: Action) -> bool:
    """Whether a file is still to be put in place, and can be staged: its directories are there and may be written."""
    try:
        stage = handles.get(layout.stage_of(action.path))
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=stage.fd, effective_ids=True):
            return False
        directory, name = handles.get(parent_of(action.path)), os.path.basename(action.path)
        return not stands(directory, name, action.after) if action.before is None else stands(directory, name, action.before)
    except OSError as error:
        return is_absence(error) and action.before is None  # its directory is yet to be made


def _reversed(journal: Journal) -> tuple[Action, ...]:
    return tuple(Action(a.path, a.after, a.before) for a in journal.actions)


def _backward(token: str) -> str:
    """Returns the token of the way back, so that no temporary is met twice."""
    return token + "b"


def _nothing(_: bytes) -> None:
    """Trusts no stat fields: after a crash only bytes count."""
