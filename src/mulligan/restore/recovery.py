"""
After a crash: finishing a restore, or taking it back.

Touches only paths that still are in the plan's old or new state. A restore that had only staged its files is taken back by
removing them; one that had begun is finished from the store, and if that cannot be done (an object is damaged, the disk is
full), the paths already changed are put back from the safety checkpoint.
"""

from __future__ import annotations

from typing import NamedTuple

from mulligan.errors import DurabilityLost, MulliganError
from mulligan.model.paths import parent_of
from mulligan.model.plan import Action
from mulligan.restore.executor import Executor, Outcome
from mulligan.restore.layout import Layout, temporary_name
from mulligan.restore.place import Handles, stands
from mulligan.restore.staging import BlobSource, Stager
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
            Stager(root, handles, store, journal.token, Layout(journal.actions)).clear()
            return Recovered(TAKEN_BACK, Outcome())
        try:
            return Recovered(FINISHED, _resume(root, handles, store, journal.token, journal.actions))
        except DurabilityLost:
            raise
        except MulliganError:
            return Recovered(TAKEN_BACK, _take_back(root, handles, store, journal))
    finally:
        handles.close()


def _resume(root: Directory, handles: Handles, store: BlobSource, token: str, actions: tuple[Action, ...]) -> Outcome:
    full, pending = Layout(actions), Layout(actions)
    executor = Executor(root, handles, token, full, seen=lambda _: None)
    executor.tidy()
    pending.places = [(n, a) for n, a in full.places if _stands(handles, a.path, a)]
    stage = Stager(root, handles, store, token, pending).run()
    return executor.run(stage)


def _stands(handles: Handles, path: bytes, action: Action) -> bool:
    """Whether a path still is in its old state (or is free, where a directory in the way is yet to go)."""
    try:
        directory = handles.get(parent_of(path))
    except OSError:
        return action.before is None
    return action.before is None or stands(directory, path.rpartition(b"/")[2], action.before)


def _take_back(root: Directory, handles: Handles, store: BlobSource, journal: Journal) -> Outcome:
    """Puts back what was already changed; the numbers go on where the plan's ended, so no temporary is met twice."""
    backward = tuple(Action(a.path, a.after, a.before) for a in journal.actions)
    cleared = Layout(journal.actions)
    for number, action in cleared.places:
        try:
            handles.get(cleared.stage_of(action.path)).unlink(temporary_name(journal.token, number), missing_ok=True)
        except OSError:
            continue  # its directory is gone, and the temporary with it
    return _resume(root, handles, store, journal.token + "b", backward)
