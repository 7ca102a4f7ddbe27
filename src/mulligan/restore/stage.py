"""
Lays out a restore and stages it: every new file is complete on the disk before the first old one is touched.

The layout is derived from the plan alone, so that a later process finds the same places again after a crash. A temporary lies
in the nearest directory above its path that exists before and after the restore. A damaged object, a full disk, a directory
that may not be written: all of them show here, while nothing has changed yet.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from mulligan.errors import NoRoom, PlanStale, StoreDamaged, UserError
from mulligan.model.objects import MODE_DIR, MODE_LINK
from mulligan.model.paths import fold, parent_of, to_text
from mulligan.model.plan import Action, for_themselves
from mulligan.restore.place import Handles, is_absence, sync_names
from mulligan.safefs import syscalls
from mulligan.safefs.attributes import attribute_names, copy_attribute, owner_of, plain_owner
from mulligan.safefs.directory import Directory, write_all
from mulligan.safefs.durable import sync, sync_filesystem
from mulligan.safefs.errors import FULL
from mulligan.safefs.platform import HERE
from mulligan.safefs.room import free_of

# Larger than any number of an action. Scans know these names for temporaries of a restore.
_ASIDE = 1_000_000_000


def _respelled(gone: Collection[bytes], made: Collection[bytes]) -> dict[bytes, bytes]:
    """Returns paths of which one spelling goes and another comes, each with the other; not those that only lie in such a one."""
    if not gone or not made:
        return {}
    folded = {fold(path): path for path in gone}
    pairs = [(path, folded.get(fold(path), path)) for path in made]
    found = [(new, old) for new, old in pairs if new.rpartition(b"/")[2] != old.rpartition(b"/")[2]]
    return {**dict(found), **{old: new for new, old in found}}


def temporary_name(token: str, number: int) -> bytes:
    """Returns the name of an action's temporary."""
    return b".mulligan-%s-%d" % (token.encode(), number)


def aside_name(token: str, number: int) -> bytes:
    """Returns the name of the file that an action replaces, while it is compared; needed without an exchange of names."""
    return temporary_name(token, _ASIDE + number)


def is_chmod(action: Action) -> bool:
    """Whether only permission bits change."""
    _, before, after = action
    if before is None or after is None or before.oid != after.oid or MODE_LINK in (before.mode, after.mode):
        return False
    return before.is_dir == after.is_dir


def is_content(action: Action) -> bool:
    """Whether a file or link is put in place."""
    return action.after is not None and action.after.mode != MODE_DIR and not is_chmod(action)


class Layout:
    """
    The actions of a plan in the order they happen, each with its number.

    `vanishing` are the directories that go; `successors` say what is made at a path where nothing stands, or nothing will
    once a removal of the same plan is done. `shared` are those of `chmods` whose file has other names too, as the disk
    says: the executor fills it, and they are put in place anew, so that the other names keep their bits.
    `writable` are the directories that were found to be so, and need not be asked again. `respelled` are the paths that go or
    come while another spelling, which stands with them, comes or goes: on some file systems both are one name.
    """

    def __init__(self, actions: Sequence[Action]) -> None:
        numbered = list(enumerate(actions))
        is_dir = {n: (before or after).mode == MODE_DIR for n, (_, before, after) in numbered}  # type: ignore[union-attr]
        gone = [(n, a) for n, a in numbered if a.after is None]
        self.removes = [(n, a) for n, a in gone if not is_dir[n]]
        self.rmdirs = sorted(((n, a) for n, a in gone if is_dir[n]), key=lambda row: row[1].path, reverse=True)
        self.mkdirs = [(n, a) for n, a in numbered if a.before is None and is_dir[n]]
        self.places = [(n, a) for n, a in numbered if is_content(a)]
        self.chmods = sorted(((n, a) for n, a in numbered if is_chmod(a)), key=lambda row: row[1].path, reverse=True)
        # As actions: where a file takes the place of a directory, one path is both made and removed.
        self.lone_directories = {
            a for group in (self._made(numbered), [a for _, a in gone]) for a in for_themselves(group) if a.path
        }
        self.shared: list[tuple[int, Action]] = []
        self.writable: set[bytes] = set()
        self.vanishing = {a.path for _, a in self.rmdirs}
        self.successors = {a.path: a.after for _, a in (*self.mkdirs, *self.places) if a.before is None}
        self.respelled = _respelled({a.path for _, a in gone}, self.successors)
        self._unsteady = self.vanishing | {a.path for _, a in self.mkdirs}

    @staticmethod
    def _made(numbered: list[tuple[int, Action]]) -> list[Action]:
        return [a for _, a in numbered if a.before is None]

    @property
    def steps(self) -> list[tuple[int, Action]]:
        """All of them."""
        return [*self.removes, *self.rmdirs, *self.mkdirs, *self.places, *self.chmods]

    @property
    def staged(self) -> list[tuple[int, Action]]:
        """What is put in place by its temporary."""
        return [*self.places, *self.shared]

    def stage_of(self, path: bytes) -> bytes:
        """Returns the directory in which the temporary of a path lies."""
        at = path.rpartition(b"/")[0]
        while at and at in self._unsteady:
            at = parent_of(at)
        return at


_SYNC_EACH = 16
# Larger files are written piece by piece; so many bytes are held from the check of the room until they are staged.
_AT_ONCE = 1 << 20
_HELD = 16 << 20
_PRIVATE = 0o600
# Progress is shown after so many files.
_SHOWN = 128
_FILES = "the restored files"
_CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP})

Progress = Callable[[int, int], None]
Places = Sequence[tuple[int, Action]]


class BlobSource(Protocol):
    """What staging needs of the store."""

    def read(self, oid: bytes, kind: bytes) -> bytes:
        """Returns an object's bytes, verified."""

    def read_up_to(self, oid: bytes, most: int) -> bytes | int:
        """Returns a blob's bytes, verified, or how many it has where they are more than `most`."""

    def stream(self, oid: bytes) -> Iterator[bytes]:
        """Yields a blob piece by piece, verified at the end."""

    def is_private(self, oid: bytes) -> bool:
        """Returns whether no one but its owner may ever read a copy."""


class Stage(NamedTuple):
    """What was staged: the inode of each temporary, attributes that could not be kept, and what was left out and why."""

    inodes: dict[int, int]
    notes: dict[bytes, str]
    skipped: dict[int, tuple[str, str]]


class Stager:
    """Writes the temporaries of a plan."""

    def __init__(self, root: Directory, handles: Handles, store: BlobSource, token: str, layout: Layout) -> None:
        self._root = root
        self._handles = handles
        self._store = store
        self._token = token
        self._layout = layout
        self._notes: dict[bytes, str] = {}
        self._held: dict[bytes, bytes] = {}
        self._held_bytes = 0

    def stage(self, places: Places, *, skip_damaged: bool = False, progress: Progress | None = None) -> Stage:
        """
        Stages some files and makes them durable; on failure the caller calls `clear`.

        With `skip_damaged`, leaves out what the store has lost.
        """
        stage, each = Stage({}, self._notes, {}), len(places) <= _SYNC_EACH or not HERE.can.sync_all
        try:
            self._read(places, skip_damaged=skip_damaged)
            for done, (number, action) in enumerate(places):
                if progress is not None and done % _SHOWN == 0:
                    progress(done, len(places))
                try:
                    stage.inodes[number] = self._one(number, action, durable=each)
                except StoreDamaged:
                    if not skip_damaged:
                        raise
                    stage.skipped[number] = ("damaged in the store", "")
                    self._unlink(number, action)
                except OSError as error:
                    if not is_absence(error):
                        raise
                    raise _gone(action.path) from error
        except OSError as error:
            raise _refusal(error) from error
        self._held.clear()
        self._held_bytes = 0
        if not each:
            sync_filesystem(self._root, _FILES)
        return stage

    def clear(self, *, sparing: Collection[int] = (), first: Collection[int] = ()) -> bool:
        """Removes the temporaries of this plan, some `first`, but for those of some numbers; returns whether none is left."""
        clean, steps = True, (*self._layout.places, *self._layout.chmods)
        for number, action in sorted(steps, key=lambda step: step[0] not in first):
            if number in sparing:
                continue
            try:
                self._unlink(number, action)
            except OSError as error:
                clean = clean and is_absence(error)  # a stage directory that is gone holds no temporary
        return clean

    def sync_cleared(self, *, everything: bool = False) -> None:
        """Makes it durable that the temporaries are gone: no command looks for them once the journal is closed."""
        paths = {self._layout.stage_of(action.path) for _, action in self._layout.staged}
        sync_names(self._root, self._handles, paths, everything=everything)

    def _unlink(self, number: int, action: Action) -> None:
        stage = self._handles.get(self._layout.stage_of(action.path))
        stage.unlink(temporary_name(self._token, number), missing_ok=True)

    def _read(self, places: Places, *, skip_damaged: bool) -> None:
        """Reads what is to be staged, as much of it as may be held, and counts the room that it needs."""
        disk, need = os.fstatvfs(self._root.fd), 0
        have = free_of(disk)
        for _, (_, _, node) in places:
            oid = node.oid if node is not None else b""
            try:
                found = self._store.read_up_to(oid, min(_AT_ONCE, _HELD - self._held_bytes))
            except StoreDamaged:
                if not skip_damaged:
                    raise
                continue
            if isinstance(found, int):
                need += disk.f_frsize + found
            else:
                need += disk.f_frsize + len(found)
                self._held_bytes += len(found)
                self._held[oid] = found
            if have is not None and need > have:
                raise NoRoom(
                    f"The restore needs {need} bytes or more and the disk has {have}. Nothing was changed.",
                    hint="Free space, or restore some paths only: mulligan restore REF -- PATH",
                )

    def _one(self, number: int, action: Action, *, durable: bool) -> int:
        node = action.after
        if node is None:
            raise ValueError(action)
        directory = self._handles.get(self._layout.stage_of(action.path))
        name = temporary_name(self._token, number)
        if node.is_link:
            directory.unlink(name, missing_ok=True)
            directory.symlink(b"".join(self._content(node.oid)), name)
            return directory.stat(name).st_ino
        replaces = action.before is not None and not action.before.is_link
        above, _, own = action.path.rpartition(b"/")
        owner = plain_owner(self._handles.get(above), own) if replaces else None
        # What takes nothing over has its permission bits from the start, which saves a call; all else is its owner's alone.
        bare = node.perm > 0o777 or (replaces and owner is None) or self._store.is_private(node.oid)
        mode = _PRIVATE if bare else node.perm
        fd, made = self._create(directory, name, mode)
        try:
            if owner is not None and owner != (made.st_uid, made.st_gid) and not bare:
                bare = True
                syscalls.calls.fchmod(fd, _PRIVATE)
            for chunk in self._content(node.oid):
                write_all(fd, chunk)
            if bare:
                if replaces:
                    self._take_over(action.path, fd)
                syscalls.calls.fchmod(fd, node.perm)
            if durable:
                sync(fd, to_text(action.path))
            return made.st_ino
        finally:
            syscalls.calls.close(fd)

    @staticmethod
    def _create(directory: Directory, name: bytes, mode: int) -> tuple[int, os.stat_result]:
        try:
            return directory.made(name, mode)
        except FileExistsError:  # an earlier attempt of this very restore
            directory.unlink(name)
            return directory.made(name, mode)

    def _content(self, oid: bytes) -> Iterable[bytes]:
        held = self._held.get(oid)
        if held is None:
            found = self._store.read_up_to(oid, _AT_ONCE)
            return self._store.stream(oid) if isinstance(found, int) else (found,)
        return (held,)

    def _take_over(self, path: bytes, fd: int) -> None:
        """Gives the new file the owner and extended attributes of the one it replaces."""
        directory, name = self._handles.get(parent_of(path)), path.rpartition(b"/")[2]
        try:
            with suppress(FileNotFoundError), directory.looking_at(name) as old:
                self._hand_over(path, old, fd)
        except OSError as error:
            # Without descriptors that only look, a file that may not be read, or became a link, cannot be opened.
            if HERE.can.open_path or error.errno not in _CLOSED:
                raise
            self._notes[path] = f"its owner could not be kept ({error.strerror})"

    def _hand_over(self, path: bytes, old: int, fd: int) -> None:
        if not stat.S_ISREG(os.fstat(old).st_mode):
            return
        if owner_of(old) != owner_of(fd):
            self._noting(path, "its owner", lambda: syscalls.calls.fchown(fd, *owner_of(old)))
        names: list[str] = []
        self._noting(path, "its attributes", lambda: names.extend(attribute_names(old)))
        for each in names:
            self._noting(path, f"the attribute {each}", partial(copy_attribute, old, fd, each))

    def _noting(self, path: bytes, what: str, change: Callable[[], None]) -> None:
        try:
            change()
        except OSError as error:
            note = f"{what} could not be kept ({error.strerror})"
            self._notes[path] = f"{self._notes[path]}; {note}" if path in self._notes else note


def _refusal(error: OSError) -> Exception:
    if error.errno in FULL:
        return NoRoom(
            "The disk is full, or a file is larger than it may be. Nothing was changed.",
            hint="Free space, then run the same command again.",
        )
    return UserError(
        f"The restored files could not be staged ({error.strerror}). Nothing was changed.", hint="mulligan status"
    )


def _gone(path: bytes) -> PlanStale:
    return PlanStale(
        f"The directory of {to_text(path)!r} went away while the restore was prepared. Nothing was changed.",
        hint="Run the command again.",
        moved=(path,),
    )
