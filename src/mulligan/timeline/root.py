"""
The workspace's own directory: there, gone, or replaced by another; and which directories can be protected.

The directory carries a mark, an extended attribute with a random number. The mark moves along with `mv`, and neither `mkdir` nor
`git clone` makes one. On a file system without such attributes, inode and birth time tell a directory from its successor: ext4
reuses the inode of a deleted directory at once, but never with the same birth time.
A directory that is gone is made again by the verb that brings its files back. In a directory that is not the one the history
was made in, nothing is restored until a person saves it or says that it is the same project.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mulligan.errors import Unprotectable, UserError, WorkspaceGone, WorkspaceReplaced
from mulligan.model.policy import Settings
from mulligan.model.refused import why_refused
from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory, is_missing, random_name
from mulligan.safefs.durable import make_directories
from mulligan.timeline.commits import Entry
from mulligan.timeline.database import NAME

if TYPE_CHECKING:
    from mulligan.timeline.store import Store

# The inode stands alone, as older releases read it.
_INODE, _MORE = "workspace_inode", "workspace_identity"
_USUAL_MODE = 0o755


class Identity(NamedTuple):
    """What tells one directory from another; `mark` is empty and `born` 0 where the file system tells neither."""

    inode: int = 0
    mark: str = ""
    born: int = 0
    mode: int = _USUAL_MODE
    mount: str = ""

    def to_meta(self) -> dict[str, str]:
        """Returns what the timeline keeps of it."""
        return {_INODE: str(self.inode), _MORE: f"{self.mark or '-'} {self.born} {self.mode:o} {self.mount}"}

    @classmethod
    def from_meta(cls, meta: Callable[[str], str]) -> Identity:
        """Returns what a timeline recorded; of a store that an older release made, the inode alone."""
        inode, more = meta(_INODE), meta(_MORE).split(" ", 3)
        number = int(inode) if inode.isdecimal() else 0
        try:
            mark, born, mode, mount = more
            return cls(number, mark if mark != "-" else "", int(born), int(mode, 8) & 0o7777, mount)
        except ValueError:
            return cls(number)

    def is_another(self, here: Identity, *, last_ns: int) -> bool:
        """Returns whether `here` is another directory than this one, in which a checkpoint was made at `last_ns`."""
        if not self.inode:
            return False  # never recorded
        if self.mark and self.mark == here.mark:
            return False
        if self.born and here.born:
            return (self.inode, self.born) != (here.inode, here.born)
        if self.mark:
            return True
        # A store of an older release: a directory that was born after the last checkpoint is not the one it was made in.
        return self.inode != here.inode or (not self.born and here.born > last_ns > 0)


_UNKNOWN = Identity()


def identity_of(path: str, known: Identity = _UNKNOWN) -> Identity:
    """Returns the identity of the directory at a path; of one that is gone, none. What is `known` is not asked again."""
    try:
        with Directory.open(path) as directory:
            status, mark = os.fstat(directory.fd), directory.read_mark()
            inode, mode = status.st_ino, status.st_mode & 0o7777
            if mark and (mark, inode, mode) == (known.mark, known.inode, known.mode):
                return known
            return Identity(inode, mark, syscalls.calls.born_ns(directory.fd), mode, mount_of(path))
    except OSError:
        return _UNKNOWN


def mark_directory(path: str, here: Identity, mark: str) -> Identity:
    """Gives a directory a mark, unless it has one or is another by now; returns its identity with it."""
    if here.mark or not here.inode:
        return here
    chosen = mark or random_name(16)
    try:
        with Directory.open(path) as directory:
            same = os.fstat(directory.fd).st_ino == here.inode
            return here._replace(mark=chosen) if same and directory.write_mark(chosen) else here
    except OSError:
        return here


def mount_of(path: str) -> str:
    """Returns the mount point, or the top of the subvolume, that holds a directory."""
    device = os.lstat(path).st_dev
    while (above := os.path.dirname(path)) != path and os.lstat(above).st_dev == device:
        path = above
    return path


def is_unmounted(mount: str) -> bool:
    """Returns whether a directory that was a mount point is an empty place to mount on now."""
    if mount in ("", "/"):
        return False
    try:
        return os.lstat(mount).st_dev == os.lstat(os.path.dirname(mount)).st_dev
    except OSError:
        return False


class Root:
    """The directory that a workspace is."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._path = store.settings.workspace

    def is_gone(self) -> bool:
        """Returns whether the directory does not exist any more."""
        return is_missing(self._path)

    def is_lost(self) -> bool:
        """Returns whether the files are gone with their directory: it is missing, or an empty one was made in its place."""
        if self.is_gone():
            return True
        return self._store.is_replaced() and not os.listdir(self._path)

    def refuse_gone(self) -> None:
        """Raises WorkspaceGone where there is no directory to save."""
        if self.is_gone():
            raise self.gone()

    def gone(self) -> WorkspaceGone:
        """Returns the error that says that the directory is gone, and what brings it back."""
        return WorkspaceGone(
            f"{self._path} does not exist any more, so there is nothing to save. Its checkpoints are safe.",
            hint=f"Bring it back: mulligan -C {self._path} undo",
        )

    def prepare(self) -> None:
        """Makes the directory ready for a restore: makes it again if it is gone; WorkspaceReplaced if it is another."""
        if self.is_gone():
            self._make_again()
        elif self._store.is_replaced():
            if os.listdir(self._path):
                raise self._replaced()
            self.recognise()  # an empty one: nothing here can be lost

    def refuse_elsewhere(self, entry: Entry) -> None:
        """Raises WorkspaceReplaced for a checkpoint of the directory that stood here before this one."""
        if self._store.is_elsewhere(entry):
            raise self._replaced()

    def recognise(self) -> None:
        """Notes that the directory that stands here is the project that this history is about."""
        with self._store.database.transaction():
            self._store.belong()
            self._store.record_workspace()

    def _make_again(self) -> None:
        was = self._store.made_again()
        if is_unmounted(was.mount):
            raise WorkspaceGone(
                f"{self._path} was on the disk at {was.mount}, which is not mounted now. Nothing was changed.",
                hint=f"Mount it, or bring the files back without it: mkdir -p {self._path} && mulligan -C {self._path} undo",
            )
        try:
            make_directories(self._path, was.mode)
        except OSError as error:
            raise UserError(
                f"{self._path} cannot be made again ({error.strerror}). Its checkpoints are safe.",
                hint=f"Make it yourself, then: mulligan -C {self._path} undo",
            ) from error
        self.recognise()

    def _replaced(self) -> WorkspaceReplaced:
        return WorkspaceReplaced(
            f"{self._path} looks like a different directory from the one its checkpoints belong to (deleted and made again?). "
            "Nothing was changed.",
            hint="If it is the same project, save it as it is first: mulligan save",
        )


def refuse_unprotectable(settings: Settings) -> None:
    """Raises Unprotectable for a directory that cannot be a project."""
    root, home = settings.workspace, os.path.realpath(settings.home)
    if is_missing(root):
        # A project that is gone can be brought back, if anything of it was saved.
        if not os.path.lexists(os.path.join(settings.store, NAME)):
            raise UserError(
                f"{root} does not exist, and nothing was saved there. Nothing was changed.",
                hint="See every project that has checkpoints: mulligan stores",
            )
    elif not os.path.isdir(root):
        raise UserError(f"{root} is not a directory. Nothing was changed.", hint="mulligan -C DIR …")
    why = why_refused(root, home, os.path.realpath(settings.temporary))
    if not why and any(is_within(root, os.path.realpath(each)) for each in (settings.store, settings.stores)):
        why = "it is inside a store of mulligan"
    if why:
        raise Unprotectable(
            f"mulligan does not protect {root}: {why}. Nothing was changed.",
            hint="Go to your project's directory first: cd PROJECT",
        )


def is_within(path: str, directory: str) -> bool:
    """Returns whether a path is a directory or something below it."""
    return path == directory or path.startswith(directory + "/")
