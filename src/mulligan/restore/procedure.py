"""
A restore from journal to acknowledgement.

The safety checkpoint is durable before this begins. Then: journal, staging, one last look at every path, the changes, one
sync, and the transaction that closes the journal and moves the position. Whatever is cut short is ended by `end_interrupted`.
"""

from __future__ import annotations

from collections.abc import Callable

from mulligan.errors import PlanStale
from mulligan.model.paths import to_text
from mulligan.restore.executor import Executor, Outcome, Seen
from mulligan.restore.layout import Layout
from mulligan.restore.place import Handles
from mulligan.restore.recovery import FINISHED, Recovered, recover
from mulligan.restore.staging import Stager
from mulligan.safefs.directory import Directory
from mulligan.timeline.journal import APPLYING, Journal, close_journal, open_journal, read_journal, set_phase
from mulligan.timeline.moves import Move
from mulligan.timeline.vault import Vault

Progress = Callable[[int, int], None]


def carry_out(vault: Vault, root: Directory, journal: Journal, *, seen: Seen, progress: Progress | None = None) -> Outcome:
    """Applies the journal's actions; raises PlanStale, NoRoom or StoreDamaged with nothing changed."""
    database = vault.database
    with database.transaction():
        open_journal(database, journal)
    handles = Handles(root)
    try:
        layout = Layout(journal.actions)
        stager = Stager(root, handles, vault.objects, journal.token, layout)
        executor = Executor(root, handles, journal.token, layout, seen=seen)
        try:
            stage = stager.run(progress)
            surprise = executor.first_surprise()
            if surprise is not None:
                stager.clear()
                raise PlanStale(f"{to_text(surprise)!r} changed while the restore was prepared. Nothing was changed.", hint="Run the command again.")
        except Exception:
            with database.transaction():
                close_journal(database)
            raise
        set_phase(database, APPLYING)
        try:
            outcome = executor.run(stage)
        except KeyboardInterrupt:
            # Half a restore is worse than a second's wait.
            end_interrupted(vault, root)
            raise
    finally:
        handles.close()
    with database.transaction():
        conclude(vault, journal)
    return outcome


def conclude(vault: Vault, journal: Journal) -> None:
    """Moves position and undo stack as the restore's verb says, and closes the journal (inside a transaction)."""
    moves, left, there = vault.moves, Move(journal.safety, journal.what), Move(journal.target, journal.what)
    if journal.verb == "undo":
        moves.undone(journal.depth, left)
    elif journal.verb == "redo":
        moves.redone(skipped=journal.depth)
        moves.push(left, there, keep_redo=True)
    else:
        moves.push(left, *((there,) if journal.position else ()))
    if journal.position:
        vault.checkpoints.set_position(journal.position)
    vault.record_workspace()
    close_journal(vault.database)


def end_interrupted(vault: Vault, root: Directory) -> tuple[Journal, Recovered] | None:
    """Finishes or takes back a restore that was cut short; None when there is none."""
    journal = read_journal(vault.database)
    if journal is None:
        return None
    recovered = recover(root, vault.objects, journal)
    with vault.database.transaction():
        if recovered.how == FINISHED:
            conclude(vault, journal)
        else:
            close_journal(vault.database)
    return journal, recovered
