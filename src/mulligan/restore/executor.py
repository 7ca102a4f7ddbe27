"""
Applying a plan.

At every instant each path holds its old bytes, its new bytes, or, where the plan removes it, nothing. A new file takes the
old one's place by an exchange of names; the displaced file is looked at, and only if it is what the plan expected is it
unlinked: bytes that somebody wrote in between go back to their place and are listed. The same code finishes a restore
that was cut short: an action whose path is already in its new state is done.

RACE: a program that holds the old file open may still write to it after it was compared; those bytes go with the old file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from mulligan.model.paths import parent_of, to_text
from mulligan.model.plan import Action, Keep
from mulligan.restore.layout import Layout, temporary_name
from mulligan.restore.place import Handles, stands
from mulligan.restore.staging import Stage
from mulligan.safefs.directory import Directory
from mulligan.safefs.durable import sync, sync_filesystem
from mulligan.scan.record import Stat

_SYNC_EACH = 16
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_CHANGED = "changed during the restore"

Seen = Callable[[bytes], Stat | None]


@dataclass
class Outcome:
    """What became of a plan."""

    created: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    kept: list[Keep] = field(default_factory=list)


class Executor:
    """Applies the actions of one plan to one workspace."""

    def __init__(self, root: Directory, handles: Handles, token: str, layout: Layout, *, seen: Seen) -> None:
        self._root = root
        self._handles = handles
        self._token = token
        self._layout = layout
        self._seen = seen
        self._outcome = Outcome()
        self._touched: set[bytes] = set()

    # -- before ---------------------------------------------------------------------------------

    def first_surprise(self) -> bytes | None:
        """Returns the first path that is not as the plan expects, None if all are."""
        layout = self._layout
        cleared = {action.path for _, action in (*layout.removes, *layout.rmdirs)}
        for _, action in (*layout.removes, *layout.rmdirs, *layout.mkdirs, *layout.places, *layout.chmods):
            if action.before is None and action.path in cleared:
                continue  # what stands there now goes first, by another action of the same plan
            if not self._is_as_expected(action):
                return action.path
        return None

    def _is_as_expected(self, action: Action) -> bool:
        try:
            directory = self._handles.get(parent_of(action.path))
        except OSError:
            return action.before is None  # no such directory: nothing stands there
        if action.before is None and action.after is not None and action.after.is_dir and stands(directory, _name(action), action.after):
            return True  # a directory that was not worth capturing is there already
        return stands(directory, _name(action), action.before, self._seen(action.path))

    def tidy(self) -> None:
        """After a crash: removes each temporary whose bytes are held elsewhere, and puts any other in sight."""
        for number, action in (*self._layout.removes, *self._layout.places):
            try:
                stage = self._handles.get(self._layout.stage_of(action.path))
                self._drop_displaced(action, stage, temporary_name(self._token, number))
            except OSError as error:
                self._keep(action.path, _CHANGED, error.strerror or "")

    # -- acting ---------------------------------------------------------------------------------

    def run(self, stage: Stage) -> Outcome:
        """Applies everything, syncs once, and returns what happened."""
        layout, outcome = self._layout, self._outcome
        for number, action in layout.removes:
            self._guarded(action, lambda n=number, a=action: self._remove(n, a))  # type: ignore[misc]
        for _, action in layout.rmdirs:
            self._guarded(action, lambda a=action: self._rmdir(a))  # type: ignore[misc]
        for _, action in layout.mkdirs:
            self._guarded(action, lambda a=action: self._mkdir(a))  # type: ignore[misc]
        for number, action in layout.places:
            inode = stage.inodes.get(number, -1)
            self._guarded(action, lambda n=number, a=action, i=inode: self._place(n, a, i))  # type: ignore[misc]
        for _, action in layout.chmods:
            self._guarded(action, lambda a=action: self._chmod(a))  # type: ignore[misc]
        for action in reversed([a for _, a in layout.mkdirs]):
            self._guarded(action, lambda a=action: self._set_directory_bits(a))  # type: ignore[misc]
        for path, note in stage.notes.items():
            outcome.kept.append(Keep(to_text(path), "attributes", note))
        self._sync()
        return outcome

    def _guarded(self, action: Action, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError as error:
            if error.errno == errno.EBUSY:
                self._keep(action.path, "a mount point")
            elif isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno == errno.ELOOP:
                self._keep(action.path, _CHANGED, "a directory above it is not what it was")
            else:
                self._keep(action.path, "not writable", error.strerror or "")

    def _keep(self, path: bytes, reason: str, detail: str = "") -> None:
        self._outcome.kept.append(Keep(to_text(path), reason, detail, failed=True))

    def _places_of(self, number: int, action: Action) -> tuple[Directory, bytes, Directory, bytes]:
        """Returns the directory and name of a path, and those of its temporary."""
        stage_path, parent_path = self._layout.stage_of(action.path), parent_of(action.path)
        self._touched |= {stage_path, parent_path}
        stage = self._handles.get(stage_path)
        return self._handles.get(parent_path), _name(action), stage, temporary_name(self._token, number)

    def _remove(self, number: int, action: Action) -> None:
        parent, name, stage, temporary = self._places_of(number, action)
        if not stands(parent, name, action.before, self._seen(action.path)):
            if parent.exists(name):
                self._keep(action.path, _CHANGED)
            else:
                self._drop_displaced(action, stage, temporary)
                self._outcome.deleted.append(to_text(action.path))
            return
        parent.rename_new(name, temporary, to=stage)
        if not stands(stage, temporary, action.before, self._seen(action.path), moved=True):
            self._put_back(action, parent, stage, temporary)
            return
        stage.unlink(temporary)
        self._outcome.deleted.append(to_text(action.path))

    def _put_back(self, action: Action, parent: Directory, stage: Directory, temporary: bytes) -> None:
        """Returns unplanned bytes to their place; if that was taken meanwhile, beside it."""
        name = _name(action)
        try:
            stage.rename_new(temporary, name, to=parent)
            self._keep(action.path, _CHANGED)
        except FileExistsError:
            self._set_aside(action, parent, stage, temporary)

    def _set_aside(self, action: Action, parent: Directory, stage: Directory, temporary: bytes) -> None:
        aside = _name(action)[:200] + b".kept-" + self._token.encode()
        stage.rename_new(temporary, aside, to=parent)
        self._keep(action.path, _CHANGED, f"the unplanned bytes are in {to_text(aside)}")

    def _drop_displaced(self, action: Action, stage: Directory, temporary: bytes) -> None:
        """After a crash: removes the displaced file if it is what the plan expected, else keeps it in sight."""
        if not stage.exists(temporary):
            return
        if stands(stage, temporary, action.before) or stands(stage, temporary, action.after):
            stage.unlink(temporary)
        else:
            self._set_aside(action, stage, stage, temporary)

    def _rmdir(self, action: Action) -> None:
        parent = self._handles.get(parent_of(action.path))
        self._touched.add(parent_of(action.path))
        self._handles.forget(action.path)
        try:
            parent.rmdir(_name(action))
        except FileNotFoundError:
            pass  # gone already: that is what was wanted
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            self._keep(action.path, "not empty", "something new is in it")
            return
        self._list(self._outcome.deleted, action)

    def _mkdir(self, action: Action) -> None:
        parent = self._handles.get(parent_of(action.path))
        self._touched.add(parent_of(action.path))
        if not stands(parent, _name(action), action.after):
            if parent.exists(_name(action)):
                self._keep(action.path, _CHANGED, "something else stands where a directory should be")
                return
            parent.mkdir(_name(action), 0o700)
        self._list(self._outcome.created, action)

    def _list(self, listed: list[str], action: Action) -> None:
        """Reports a directory only where it was made or removed for itself."""
        if action.path in self._layout.lone_directories:
            listed.append(to_text(action.path))

    def _set_directory_bits(self, action: Action) -> None:
        """Last, because a directory may be read-only for its owner."""
        parent = self._handles.get(parent_of(action.path))
        if action.after is not None and stands(parent, _name(action), action.after):
            inherited = parent.stat(_name(action)).st_mode & 0o6000
            parent.chmod(_name(action), action.after.perm | inherited, inode=parent.stat(_name(action)).st_ino)

    def _chmod(self, action: Action) -> None:
        parent, name = self._handles.get(parent_of(action.path)), _name(action)
        self._touched.add(parent_of(action.path))
        if action.after is None:
            return
        if stands(parent, name, action.before, self._seen(action.path)):
            if not parent.chmod(name, action.after.perm, inode=parent.stat(name).st_ino):
                self._keep(action.path, _CHANGED)
                return
        elif not stands(parent, name, action.after):
            self._keep(action.path, _CHANGED)
            return
        self._outcome.modified.append(to_text(action.path))

    def _place(self, number: int, action: Action, inode: int) -> None:
        parent, name, stage, temporary = self._places_of(number, action)
        if stage.exists(temporary) and stage.stat(temporary).st_ino != inode:
            self._drop_displaced(action, stage, temporary)  # only after a crash
        if not stands(parent, name, action.before, self._seen(action.path)):
            self._already(action, parent, stage, temporary)
        elif action.before is None:
            self._put_new(action, parent, stage, temporary, inode)
        else:
            self._swap(action, parent, stage, temporary, inode)

    def _already(self, action: Action, parent: Directory, stage: Directory, temporary: bytes) -> None:
        """The path is not in its old state: either the work is done, or somebody else was here."""
        done = stands(parent, _name(action), action.after)
        self._drop_displaced(action, stage, temporary)
        if done:
            self._done(action)
        else:
            self._keep(action.path, _CHANGED)

    def _put_new(self, action: Action, parent: Directory, stage: Directory, temporary: bytes, inode: int) -> None:
        try:
            stage.rename_new(temporary, _name(action), to=parent)
        except FileExistsError:
            stage.unlink(temporary)
            self._keep(action.path, _CHANGED, "something appeared there")
            return
        self._verify(action, parent, inode)

    def _swap(self, action: Action, parent: Directory, stage: Directory, temporary: bytes, inode: int) -> None:
        name = _name(action)
        try:
            stage.exchange(temporary, name, to=parent)
        except OSError as error:
            if error.errno not in _NO_EXCHANGE:
                raise
            # RACE: without an exchange, bytes written between the look above and this rename are lost.
            stage.rename(temporary, name, to=parent)
            self._outcome.kept.append(Keep(to_text(action.path), "no exchange", "this file system cannot swap names; written without that guard"))
            self._verify(action, parent, inode)
            return
        if stands(stage, temporary, action.before, self._seen(action.path), moved=True):
            stage.unlink(temporary)
            self._verify(action, parent, inode)
            return
        stage.exchange(temporary, name, to=parent)
        if stands(stage, temporary, action.after):
            stage.unlink(temporary)
            self._keep(action.path, _CHANGED)
        else:
            self._set_aside(action, parent, stage, temporary)

    def _verify(self, action: Action, parent: Directory, inode: int) -> None:
        """Reads back what was put in place."""
        if parent.stat(_name(action)).st_ino != inode or not stands(parent, _name(action), action.after):
            self._keep(action.path, _CHANGED, "written to right after it was restored")
        else:
            self._done(action)

    def _done(self, action: Action) -> None:
        listed = self._outcome.created if action.before is None else self._outcome.modified
        listed.append(to_text(action.path))

    def _sync(self) -> None:
        if len(self._touched) > _SYNC_EACH:
            sync_filesystem(self._root, "the restore")
            return
        for path in self._touched:
            try:
                directory = self._handles.get(path)
            except OSError:
                continue  # removed by this very restore; its parent is synced
            sync(directory.fd, "the restore")


def _name(action: Action) -> bytes:
    return os.path.basename(action.path)
