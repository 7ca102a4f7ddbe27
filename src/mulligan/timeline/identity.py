"""
Which directory a history belongs to.

The workspace's own directory carries a mark, an extended attribute with a random number. The mark moves along with `mv`, and
neither `mkdir` nor `git clone` makes one. Where a file system has no such attributes, inode and birth time tell a directory
from its successor: ext4 hands out the inode of a deleted directory at once, but never with the same birth time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from mulligan.safefs.attributes import born_ns, read_mark, write_mark
from mulligan.safefs.directory import Directory, random_name

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
            status, mark = os.fstat(directory.fd), read_mark(directory)
            inode, mode = status.st_ino, status.st_mode & 0o7777
            if mark and (mark, inode, mode) == (known.mark, known.inode, known.mode):
                return known
            return Identity(inode, mark, born_ns(directory), mode, mount_of(path))
    except OSError:
        return _UNKNOWN


def marked(path: str, here: Identity, mark: str) -> Identity:
    """Gives a directory a mark, unless it has one or is another by now; returns its identity with it."""
    if here.mark or not here.inode:
        return here
    chosen = mark or random_name(16)
    try:
        with Directory.open(path) as directory:
            same = os.fstat(directory.fd).st_ino == here.inode
            return here._replace(mark=chosen) if same and write_mark(directory, chosen) else here
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
