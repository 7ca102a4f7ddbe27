"""
Applying a plan.

At every instant each path holds its old bytes, its new bytes, or, where the plan removes it, nothing. A new file takes the
old one's place by an exchange of names, or in steps where there is none; the displaced file is looked at, and only if it is what the plan expected is it
unlinked: bytes that another program wrote in between go back to their place and are listed. The same code finishes a restore
that was cut short: an action whose path is already in its new state is done.

RACE: a program that holds the old file open may still write to it after it was compared; those bytes go with the old file.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Protocol

from mulligan.model.paths import join, parent_of, to_text
from mulligan.model.plan import Action, Keep
from mulligan.restore.place import Handles, is_absence, is_shared, reads_back, stands, sync_names
from mulligan.restore.reach import BUSY, Locked, RestoreOutcome, lock_again, reason_of
from mulligan.restore.stage import Layout, Stage, aside_name, temporary_name
from mulligan.safefs.directory import EXHAUSTED, NO_FLAGS, Directory
from mulligan.safefs.errors import FULL
from mulligan.scan.cache import Stat

# Removes a name from a directory of the workspace, now or later; the number is its size.
Discard = Callable[[Directory, bytes, int], None]

# The directory and name of a path, and those of its temporary.
Places = tuple[Directory, bytes, Directory, bytes]
# So many files are confirmed by one sync of the file system.
_MANY = 256


class Seen(Protocol):
    """What a scan remembers of a path."""

    def memory_of(self, path: bytes) -> tuple[Stat | None, Stat | None]:
        """
        Returns the stat fields it had, and again those that prove a file unchanged.

        The first are enough to go on, where the displaced file is read afterwards; the second are None for a file whose
        bytes must be compared.
        """


class Executor:
    """Applies the actions of one plan to one workspace."""

    def __init__(
        self,
        root: Directory,
        handles: Handles,
        token: str,
        layout: Layout,
        *,
        seen: Seen | None = None,
        locked: Locked = (),
        discard: Discard | None = None,
    ) -> None:
        self._root = root
        self._handles = handles
        self._token = token
        self._layout = layout
        self._seen = seen
        self._locked = locked
        self._discard = discard
        self._stage = Stage({}, {}, {})
        self._outcome = RestoreOutcome()
        self._touched: set[bytes] = set()
        self._left: set[int] = set()
        self._memories: dict[bytes, tuple[Stat | None, Stat | None]] = {}

    # -- before ---------------------------------------------------------------------------------

    def surprises(self) -> list[bytes]:
        """Returns the paths that are not as the plan expects."""
        found = []
        cleared = {action.path for _, action in (*self._layout.removes, *self._layout.rmdirs)}
        for _, action in self._layout.steps:
            if action.before is None and action.path in cleared:
                continue  # what stands there now goes first, by another action of the same plan
            if not self._is_as_expected(action):
                found.append(action.path)
        return found

    def leave(self, numbers: set[int], kept: Sequence[Keep]) -> None:
        """Takes some steps out of the plan; what is listed for them comes in their place."""
        self._left = numbers
        self._outcome.kept += kept

    def _is_as_expected(self, action: Action) -> bool:
        try:
            directory = self._handles.get(parent_of(action.path))
        except OSError as error:
            if not is_absence(error):
                raise
            return action.before is None  # no such directory: nothing stands there
        if (
            action.before is None
            and action.after is not None
            and action.after.is_dir
            and stands(directory, _name(action), action.after)
        ):
            return True  # a directory that was not worth capturing is there already
        return stands(directory, _name(action), action.before, self._glance(action.path))

    def _memory_of(self, path: bytes) -> tuple[Stat | None, Stat | None]:
        """Asked several times of each path: before anything changes, right before it changes, and when it has."""
        found = self._memories.get(path)
        if found is None:
            # After a crash nothing is remembered: every path is compared by its bytes.
            found = self._memories[path] = self._seen.memory_of(path) if self._seen is not None else (None, None)
        return found

    def _glance(self, path: bytes) -> Stat | None:
        return self._memory_of(path)[0]

    def _proof(self, path: bytes) -> Stat | None:
        return self._memory_of(path)[1]

    def tidy(self, first: Collection[int] = ()) -> set[int]:
        """After a crash: removes each temporary whose bytes are held elsewhere, else puts it in sight; returns those that stay."""
        stuck, steps = set(), (*self._layout.removes, *self._layout.places, *self._layout.chmods)
        for number, action in sorted(steps, key=lambda step: step[0] not in first):
            if self._settle(number, action):
                stuck.add(number)
                self._keep(action.path, "left behind", f"its bytes are in {self._temporary_path(number, action)}")
        return stuck

    # -- acting ---------------------------------------------------------------------------------

    def run(self, stage: Stage) -> RestoreOutcome:
        """Applies everything, syncs once, and returns what happened."""
        layout, outcome, self._stage = self._layout, self._outcome, stage
        if self._left:
            self._drop_left()
        for steps, step in (
            (layout.removes, self._remove),
            (layout.rmdirs, self._rmdir),
            (layout.mkdirs, self._mkdir),
            (layout.places, self._place),
            ([row for row in layout.chmods if row[0] in stage.inodes], self._place),
        ):
            for number, action in self._taken(steps):
                self._guarded(number, action, step)
        if self._locked:
            self._lock_again()
        in_place = [row for row in layout.chmods if row[0] not in stage.inodes]
        for number, action in self._taken([*in_place, *reversed(layout.mkdirs)]):
            self._guarded(number, action, self._chmod if action.before is not None else self._set_directory_bits)
        for path, note in stage.notes.items():
            outcome.kept.append(Keep(to_text(path), "attributes", note))
        self._sync()
        return outcome

    def _taken(self, steps: Sequence[tuple[int, Action]]) -> Sequence[tuple[int, Action]]:
        return [step for step in steps if step[0] not in self._left] if self._left else steps

    def _drop_left(self) -> None:
        """Removes the temporaries of steps that are not taken."""
        for number, action in self._layout.steps:
            if number in self._left and number in self._stage.inodes and self._settle(number, action):
                self._keep(action.path, "left behind", f"its bytes are in {self._temporary_path(number, action)}")

    def _guarded(self, number: int, action: Action, step: Callable[[int, Action], None]) -> None:
        """Takes one step; what fails is listed, and its temporary is not left lying about."""
        try:
            step(number, action)
        except OSError as error:
            if error.errno in FULL | EXHAUSTED:
                raise  # nothing is wrong with the path: the restore is ended another way, and whole
            reason, detail = reason_of(error)
            if step in (self._remove, self._place) or number in self._stage.inodes:
                if self._settle(number, action):
                    detail = f"its bytes are in {self._temporary_path(number, action)}"
                elif self._is_done(action):
                    self._done(action)
                    return
            self._keep(action.path, reason, detail)

    def _settle(self, number: int, action: Action) -> bool:
        """Sees to a temporary that a failure or a crash left; returns whether it is still there."""
        try:
            if action.before is not None and action.after is not None:
                self._return_aside(number, action)
            stage = self._handles.get(self._layout.stage_of(action.path))
            self._drop_displaced(number, action, stage, temporary_name(self._token, number))
        except OSError as error:
            return not is_absence(error)
        return False

    def _temporary_path(self, number: int, action: Action) -> str:
        where, aside = self._layout.stage_of(action.path), aside_name(self._token, number)
        with suppress(OSError):
            if self._handles.get(where).exists(aside):
                return to_text(join(where, aside))
        return to_text(join(where, temporary_name(self._token, number)))

    def _is_done(self, action: Action) -> bool:
        try:
            return stands(self._handles.get(parent_of(action.path)), _name(action), action.after)
        except OSError:
            return False  # not to be seen, so not to be claimed

    def _keep(self, path: bytes, reason: str, detail: str = "") -> None:
        self._outcome.kept.append(Keep(to_text(path), reason, detail, failed=True))

    def _places_of(self, number: int, action: Action) -> Places:
        """Returns the directory and name of a path, and those of its temporary."""
        parent_path, _, name = action.path.rpartition(b"/")
        stage_path = self._layout.stage_of(action.path)
        self._touched |= {stage_path, parent_path}
        stage = self._handles.get(stage_path)
        parent = self._handles.get(parent_path) if parent_path != stage_path else stage
        return parent, name, stage, temporary_name(self._token, number)

    def _remove(self, number: int, action: Action) -> None:
        if self._went_with_its_directory(action):
            self._done(action)
            return
        parent, name, stage, temporary = self._places_of(number, action)
        if not stands(parent, name, action.before, self._glance(action.path)):
            if parent.exists(name) and not self._is_succeeded(parent, action):
                self._keep(action.path, BUSY)
            else:
                self._drop_displaced(number, action, stage, temporary)
                self._done(action)
            return
        parent.rename_away(name, temporary, to=stage)
        self._judge(number, action)

    def _judge(self, number: int, action: Action, places: Places | None = None) -> None:
        """Decides, now that it has the temporary's name, whether what stood at a path is what the plan expected."""
        parent, name, stage, temporary = places or self._places_of(number, action)
        if self._is_displaced(action, stage, temporary):
            self._throw_away(action, stage, temporary)
            self._read_back(number, action, parent)
        elif action.after is None:
            self._put_back(number, action, parent, stage)
        else:
            stage.exchange(temporary, name, to=parent)
            if stands(stage, temporary, action.after):
                stage.unlink(temporary)
                self._keep(action.path, BUSY)
            else:
                self._set_aside(number, action, stage, parent, parent_of(action.path))

    @staticmethod
    def _is_displaced(action: Action, stage: Directory, temporary: bytes) -> bool:
        # By its bytes: its times may have been put back after a write in place, and the rename changed its ctime.
        return reads_back(stage, temporary, action.before)

    def _read_back(self, number: int, action: Action, parent: Directory) -> None:
        """Ends a step whose displaced file is gone."""
        if action.after is None:
            self._done(action)
        else:
            self._verify(number, action, parent)

    def _throw_away(self, action: Action, stage: Directory, temporary: bytes) -> None:
        """Removes a displaced file that is what the plan expected."""
        seen = self._glance(action.path)
        if self._discard is None or seen is None:
            stage.unlink(temporary)
        else:
            self._discard(stage, temporary, seen.size)

    def _went_with_its_directory(self, action: Action) -> bool:
        """After a crash: whether the directory that held a removed path was removed already."""
        above = parent_of(action.path)
        if above not in self._layout.vanishing:
            return False
        try:
            self._handles.get(above)
        except OSError as error:
            if is_absence(error):
                return True
            raise
        return False

    def _is_succeeded(self, parent: Directory, action: Action) -> bool:
        """After a crash: whether what the plan puts in the place of a removed path is there already."""
        successor = self._layout.successors.get(action.path)
        return successor is not None and stands(parent, _name(action), successor)

    def _put_back(self, number: int, action: Action, parent: Directory, stage: Directory) -> None:
        """Returns unplanned bytes to their place; if that was taken by then, beside it."""
        temporary = temporary_name(self._token, number)
        try:
            stage.rename_new(temporary, _name(action), to=parent)
            self._keep(action.path, BUSY)
        except FileExistsError:
            self._set_aside(number, action, stage, parent, parent_of(action.path))

    def _set_aside(
        self, number: int, action: Action, stage: Directory, to: Directory, where: bytes, temporary: bytes = b""
    ) -> None:
        """Puts a temporary in sight, in a directory with its path, and says where."""
        kept = b"%s.kept-%s-%d" % (_name(action)[:200], self._token.encode(), number)
        stage.rename_new(temporary or temporary_name(self._token, number), kept, to=to)
        self._keep(action.path, BUSY, f"the unplanned bytes are in {to_text(join(where, kept))}")

    def _drop_displaced(self, number: int, action: Action, stage: Directory, temporary: bytes) -> None:
        """Removes a temporary whose bytes are held elsewhere: old or new as planned; any other is kept in sight."""
        if not stage.exists(temporary):
            return
        if any(node is not None and stands(stage, temporary, node) for node in (action.before, action.after)):
            stage.unlink(temporary)
        else:
            self._set_aside(number, action, stage, stage, self._layout.stage_of(action.path), temporary)

    def _rmdir(self, _: int, action: Action) -> None:
        if self._went_with_its_directory(action):
            return
        parent = self._handles.get(parent_of(action.path))
        self._touched.add(parent_of(action.path))
        self._handles.forget(action.path)
        try:
            parent.rmdir(_name(action))
        except FileNotFoundError:
            pass  # gone already: that is what was wanted
        except OSError as error:
            if error.errno == errno.ENOTDIR and self._is_succeeded(parent, action):
                pass  # and what comes in its place is there too
            elif error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                self._keep(action.path, "not empty", "something new is in it")
                return
            else:
                raise
        self._list(self._outcome.deleted, action)

    def _mkdir(self, _: int, action: Action) -> None:
        parent = self._handles.get(parent_of(action.path))
        self._touched |= {parent_of(action.path), action.path}
        if not stands(parent, _name(action), action.after):
            if parent.exists(_name(action)):
                self._keep(action.path, BUSY, "something else stands where a directory should be")
                return
            parent.mkdir(_name(action), 0o700)
        self._list(self._outcome.created, action)

    def _list(self, listed: list[str], action: Action) -> None:
        """Reports a directory only where it was made or removed for itself."""
        if action in self._layout.lone_directories:
            listed.append(to_text(action.path))

    def _lock_again(self) -> None:
        changing = {action.path for _, action in self._layout.chmods}
        for path in lock_again(self._handles, tuple(row for row in self._locked if row[0] not in changing)):
            self._keep(path, "left writable", "it was opened for the restore and could not be closed again")

    def _set_directory_bits(self, _: int, action: Action) -> None:
        """Last, because a directory may be read-only for its owner."""
        parent = self._handles.get(parent_of(action.path))
        if action.after is not None and stands(parent, _name(action), action.after):
            status = parent.stat(_name(action))
            parent.chmod(_name(action), action.after.perm | status.st_mode & 0o6000, inode=status.st_ino)

    def _chmod(self, _: int, action: Action) -> None:
        parent, name = self._handles.get(parent_of(action.path)), _name(action)
        if action.after is None:
            return
        if stands(parent, name, action.before, self._proof(action.path)):
            status = parent.stat(name)
            if is_shared(status) or not parent.chmod(name, action.after.perm, inode=status.st_ino):
                self._keep(action.path, BUSY)
                return
        elif not stands(parent, name, action.after):
            self._keep(action.path, BUSY)
            return
        self._outcome.modified.append(to_text(action.path))

    def _place(self, number: int, action: Action) -> None:
        parent, name, stage, _ = self._places_of(number, action)
        if not stands(parent, name, action.before, self._glance(action.path)):
            self._already(number, action, parent, stage)
        elif number not in self._stage.inodes:
            self._keep(action.path, *self._stage.skipped.get(number, (BUSY,)))
        elif action.before is None:
            self._put_new(number, action, parent, stage)
        else:
            self._swap(number, action, parent, stage)

    def _already(self, number: int, action: Action, parent: Directory, stage: Directory) -> None:
        """The path is not in its old state: either the work is done, or another program was here."""
        done = stands(parent, _name(action), action.after)
        self._drop_displaced(number, action, stage, temporary_name(self._token, number))
        if done:
            self._done(action)
        else:
            self._keep(action.path, BUSY)

    def _put_new(self, number: int, action: Action, parent: Directory, stage: Directory) -> None:
        temporary = temporary_name(self._token, number)
        try:
            stage.rename_new(temporary, _name(action), to=parent)
        except FileExistsError:
            stage.unlink(temporary)
            self._keep(action.path, BUSY, "something appeared there")
            return
        self._verify(number, action, parent)

    def _swap(self, number: int, action: Action, parent: Directory, stage: Directory) -> None:
        name, temporary = _name(action), temporary_name(self._token, number)
        try:
            stage.exchange(temporary, name, to=parent)
        except OSError as error:
            if error.errno not in NO_FLAGS:
                raise
            self._swap_by_steps(number, action, parent, stage)
            return
        self._judge(number, action, (parent, name, stage, temporary))

    def _swap_by_steps(self, number: int, action: Action, parent: Directory, stage: Directory) -> None:
        """Moves the old file aside, compares it, and puts the new one in its place without overwriting."""
        # RACE: without an exchange of names, a path is missing for an instant while its file is replaced.
        name, temporary, aside = _name(action), temporary_name(self._token, number), aside_name(self._token, number)
        parent.rename_away(name, aside, to=stage)
        if not self._is_displaced(action, stage, aside):
            self._return_aside(number, action)
            stage.unlink(temporary)
            self._keep(action.path, BUSY)
            return
        try:
            stage.rename_new(temporary, name, to=parent)
        except FileExistsError:
            stage.unlink(temporary)
            stage.unlink(aside)
            self._keep(action.path, BUSY, "something appeared there")
        else:
            self._throw_away(action, stage, aside)
            self._verify(number, action, parent)

    def _return_aside(self, number: int, action: Action) -> None:
        """Returns a file that was moved aside to its place; if that is taken, sees to it as to any temporary."""
        stage, aside = self._handles.get(self._layout.stage_of(action.path)), aside_name(self._token, number)
        if not stage.exists(aside):
            return
        try:
            stage.rename_new(aside, _name(action), to=self._handles.get(parent_of(action.path)))
        except FileExistsError:
            self._drop_displaced(number, action, stage, aside)

    def _verify(self, number: int, action: Action, parent: Directory) -> None:
        """Reads back what was put in place."""
        if not reads_back(parent, _name(action), action.after, self._stage.inodes[number]):
            self._keep(action.path, BUSY, "written to right after it was restored")
        else:
            self._done(action)

    def _done(self, action: Action) -> None:
        outcome = self._outcome
        made = outcome.created if action.before is None else outcome.modified
        (outcome.deleted if action.after is None else made).append(to_text(action.path))

    def _sync(self) -> None:
        # Permission bits are in no directory: nothing less than the whole file system would make them durable.
        everything = bool(self._layout.chmods or self._locked or len(self._layout.places) >= _MANY)
        sync_names(self._root, self._handles, self._touched, everything=everything)


def _name(action: Action) -> bytes:
    return action.path.rpartition(b"/")[2]
