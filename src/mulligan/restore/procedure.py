"""
A restore from journal to end, in one order for every restore.

The caller has saved the safety checkpoint. Then: the journal, staging under temporary names, one last check of every path,
the changes, one sync, and the transaction that closes the journal and moves the position. `restore.recover` ends a restore
that was interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from mulligan.errors import DurabilityLost, NoRoom, PlanStale
from mulligan.model.paths import parent_of, to_text
from mulligan.restore.apply import Executor, Seen
from mulligan.restore.place import Handles
from mulligan.restore.reach import BUSY, Attempts, RestoreOutcome, WritablePart, busy, left_out, lock_again, unlock
from mulligan.restore.stage import Layout, Stager
from mulligan.safefs.directory import Directory
from mulligan.safefs.room import HeldRoom, naming_need
from mulligan.timeline.commits import remove_checkpoint
from mulligan.timeline.journal import (
    APPLYING,
    STAGING,
    Journal,
    close_journal,
    open_journal,
    owe_state,
    set_phase,
)
from mulligan.timeline.store import Store
from mulligan.timeline.undo import Move, UndoMark

if TYPE_CHECKING:
    from mulligan.restore.git import GitPart

Progress = Callable[[int, int], None]
# What the last transaction writes: some pages, and those of the journal once more, which it overwrites.
_LAST_WORDS, _PER_ACTION = 128 << 10, 128
_SPARE_BLOCKS, _SPARE_FILES = 8, 4
# Holding room costs a restore of one file a tenth of its time. A disk with so much of it does not fill up in between; if it does,
# the next command finishes the restore, as after any interruption.
_FEW, _PLENTY = 16, 1 << 30


#: What was reverted, until a checkpoint holds what the revert left: the state that the next undo starts from.
LANDING = "landing"


def carry_out(
    store: Store, reach: WritablePart, journal: Journal, *, seen: Seen, progress: Progress | None = None
) -> RestoreOutcome:
    """Applies the journal's actions; raises with nothing changed, and the safety checkpoint removed."""
    root, layout = reach.root, reach.layout
    # Two sets of open directories: the last look before acting goes by name again, and notices one that was moved away.
    staged, handles = reach.handles, Handles(root, layout.respelled)
    git = git_part(store, journal)
    try:
        stager = Stager(root, staged, reach.objects, journal.token, layout)
        executor = Executor(
            root, handles, journal.token, layout, seen=seen, locked=journal.locked, discard=store.throw_away
        )
        room = ExitStack()
        _open(store, journal)
        with _abandoning(store, staged, journal, stager, git, room):
            unlock(staged, journal.locked)
            stage = stager.stage(layout.staged, progress=progress)
            if git is not None:
                git.prepare()
            _look_again(executor, journal, reach.attempts)
            names = _hold_names(root, layout)
            room.callback(names.close)
            room.callback(_hold_notes(store, journal).close)
            set_phase(store.database, APPLYING)
        try:
            names.close()
            outcome = executor.run(stage)
            outcome.kept += git.finish() if git is not None else []
        except (KeyboardInterrupt, MemoryError, OSError) as error:
            ended = _end_whole(store, root, room, staged, handles)
            if isinstance(error, OSError) and ended is not None:
                return ended
            raise
        finally:
            room.close()
    finally:
        if git is not None:
            git.close()
        staged.close()
        handles.close()
    if _changed_nothing(outcome, layout, journal):
        _close_unused(store, journal)
        raise stale([os.fsencode(keep.path) for keep in outcome.kept])
    with store.database.transaction():
        conclude(store, journal)
    return outcome


def _open(store: Store, journal: Journal) -> None:
    """Makes the journal durable; where that fails, removes the safety checkpoint that was made for it."""
    try:
        with store.database.transaction():
            open_journal(store.database, journal, STAGING)
    except DurabilityLost:
        raise  # such a disk is not asked again; the next command finds a journal of nothing, or none
    except BaseException:
        _close_unused(store, journal)
        raise


def _changed_nothing(outcome: RestoreOutcome, layout: Layout, journal: Journal) -> bool:
    """Returns whether every path of a restore moved in the very moment, so that the workspace is as it was."""
    if outcome.created or outcome.modified or outcome.deleted or not outcome.kept:
        return False
    alone = journal.git is None and journal.what == "files" and not layout.mkdirs and not layout.rmdirs
    return alone and all(keep.reason == BUSY and not keep.detail for keep in outcome.kept)


def _end_whole(store: Store, root: Directory, *held: ExitStack | Handles) -> RestoreOutcome | None:
    """Ends a restore that something came between; returns what became of it if it was finished."""
    # Half a restore is worse than a second's wait; and what was missing may be there once this lets go of its own.
    from mulligan.restore.recover import FINISHED, end_interrupted

    for each in held:
        each.close()
    ended = end_interrupted(store, root)
    return ended[1].outcome if ended is not None and ended[1].how == FINISHED else None


def _look_again(executor: Executor, journal: Journal, attempts: Attempts | None) -> None:
    """Looks at every path once more; leaves alone those that keep changing, and raises PlanStale where others moved."""
    moved = executor.surprises()
    if not moved:
        return
    numbers, kept = left_out(journal.actions, busy(moved))
    is_all = len(numbers) == len(journal.actions) and journal.git is None and journal.what == "files"
    if is_all or attempts is None or not attempts.leaves(moved):
        raise stale(moved)
    executor.leave(numbers, kept)


def stale(moved: Sequence[bytes]) -> PlanStale:
    """Returns the error for paths that changed under a plan."""
    return PlanStale(
        f"{to_text(moved[0])!r} changed while the restore was prepared. Nothing was changed.",
        hint="Stop the program that writes to it, then run the command again.",
        moved=tuple(moved),
    )


def _hold_names(root: Directory, layout: Layout) -> HeldRoom:
    """Takes the room for new directories, and for names that make one grow, while nothing has changed."""
    directories = {parent_of(action.path) for _, action in (*layout.places, *layout.mkdirs)}
    disk = os.fstatvfs(root.fd)
    if disk.f_files and disk.f_favail < len(layout.mkdirs) + _SPARE_FILES:
        raise NoRoom(
            f"The restore makes {len(layout.mkdirs)} directories and the disk has room for {disk.f_favail} more files (inodes). Nothing was changed.",
            hint="Delete some files, or restore some paths only: mulligan restore REF -- PATH",
        )
    size = disk.f_frsize * (len(layout.mkdirs) + len(directories) + _SPARE_BLOCKS)
    with naming_need("The restore's directories", size, root):
        return HeldRoom(root, size, unless=_plenty(len(layout.mkdirs) + len(layout.places)))


def _hold_notes(store: Store, journal: Journal) -> HeldRoom:
    """Takes the room for what the timeline notes at the end: when that is written, the files have changed."""
    size = _LAST_WORDS + sum(_PER_ACTION + len(action.path) for action in journal.actions)
    with naming_need("To note the restore, the store", size, store.directory), store.directory.child(b"tmp") as tmp:
        return HeldRoom(tmp, size, unless=_plenty(len(journal.actions)))


def _plenty(actions: int) -> int | None:
    """Returns how much room stays free during a restore that is over in a moment, None for one that takes longer."""
    return _PLENTY if actions <= _FEW else None


@contextmanager
def _abandoning(
    store: Store, handles: Handles, journal: Journal, stager: Stager, git: GitPart | None, room: ExitStack
) -> Iterator[None]:
    """Takes back what was staged when something goes wrong."""
    try:
        yield
    except BaseException as error:
        room.close()
        _abandon(store, handles, journal, stager, git, confirm=not isinstance(error, DurabilityLost))
        raise


def _abandon(
    store: Store, handles: Handles, journal: Journal, stager: Stager, git: GitPart | None, *, confirm: bool
) -> None:
    """
    Removes what was staged; where that fails, the journal stays, and the next writing command tries again.

    A disk that just failed to `confirm` something is not asked again: it may say yes to what it has dropped.
    """
    clean = stager.clear()
    if git is not None:
        git.abandon(confirm=confirm)
    if not lock_again(handles, journal.locked) and clean and confirm:
        stager.sync_cleared(everything=bool(journal.locked))
        _close_unused(store, journal)


def _close_unused(store: Store, journal: Journal) -> None:
    """Closes the journal of a restore that changed nothing, and removes the safety checkpoint that was made for it."""
    with store.database.transaction():
        close_journal(store.database)
        remove_unused(store, journal)
    store.settle_refs()


def remove_unused(store: Store, journal: Journal) -> None:
    """Removes, inside a transaction, a safety checkpoint that no undo leads to: the workspace still holds what it holds."""
    entry = store.checkpoints.by_id(journal.safety)
    if entry is not None and entry.checkpoint.kind == "safety" and entry.id not in store.needed():
        remove_checkpoint(store, entry)


def conclude(store: Store, journal: Journal) -> None:
    """Moves position and undo stack as the restore's verb says, and closes the journal (inside a transaction)."""
    moves, there = store.moves, Move(journal.target, journal.what)
    left = Move(journal.safety, journal.what, git=journal.git is not None)
    if journal.verb == "undo":
        moves.undone(journal.depth, left)
        if journal.mark:
            moves.push(there._replace(mark=UndoMark.read(journal.mark)), keep_redo=True)
    elif journal.verb == "redo":
        moves.redone(skipped=journal.depth)
        if journal.mark:
            moves.unmark(journal.mark)
            moves.push(there, keep_redo=True)
        else:
            moves.push(left, there._replace(restored=True), keep_redo=True)
    elif journal.verb == "revert":
        moves.push(left)
        moves.went_on_partly()
        store.database.set_meta(LANDING, journal.mark)
    elif journal.position:
        moves.push(left, there._replace(restored=True))
    else:
        moves.push(left)
        moves.went_on_partly()
    if journal.position:
        store.checkpoints.set_position(journal.position)
    store.record_workspace()
    if journal.what != "files":
        owe_state(store.database, journal.target)
    close_journal(store.database)


def git_part(store: Store, journal: Journal) -> GitPart | None:
    """Returns the git half of a restore, None where git does not move: then nothing of it is even loaded."""
    if journal.git is None:
        return None
    from mulligan.restore.git import GitPart

    return GitPart(store, journal, journal.git)
