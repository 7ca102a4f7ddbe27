"""
Owner and extended attributes (ACLs among them), from one file to another.

Copies from descriptors alone. The original may be open only to be looked at (`Directory.looking_at`), so a file that cannot be
read has its attributes copied all the same.
"""

from __future__ import annotations

import errno
import os

from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory
from mulligan.safefs.platform import HERE

_NO_ATTRIBUTES = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP})  # one number on Linux, two on macOS


def owner_of(fd: int) -> tuple[int, int]:
    """Returns user and group of an open file."""
    status = os.fstat(fd)
    return status.st_uid, status.st_gid


def plain_owner(directory: Directory, name: bytes) -> tuple[int, int] | None:
    """Returns user and group of a name that has no extended attributes, in two calls; None where it has some, or that is unknown."""
    try:
        status, home = directory.stat(name), os.fsencode(HERE.path_of(directory.fd))
        if HERE.can.xattr and (not home or HERE.listxattr(home + b"/" + name, follow_symlinks=False)):
            return None
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTES:
            return None
    return status.st_uid, status.st_gid


def attribute_names(original: int) -> list[str]:
    """Returns the names of an open file's extended attributes, none where the file system has no such thing."""
    try:
        return HERE.listxattr(HERE.path_of(original) or original)
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTES:
            raise
        return []


def copy_attribute(original: int, copy: int, name: str) -> None:
    """Gives an open file one extended attribute of another."""
    syscalls.calls.setxattr(copy, name, HERE.getxattr(HERE.path_of(original) or original, name))
