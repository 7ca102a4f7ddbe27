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


def owner_of(fd: int) -> tuple[int, int]:
    """Returns user and group of an open file."""
    status = os.fstat(fd)
    return status.st_uid, status.st_gid


def plain_owner(directory: Directory, name: bytes) -> tuple[int, int] | None:
    """Returns user and group of a name that has no extended attributes, in two calls; None where it has some, or that is unknown."""
    try:
        status = directory.stat(name)
        beneath = os.fsencode(HERE.path_of(directory.fd)) + b"/" + name
        if HERE.listxattr(beneath, follow_symlinks=False):
            return None
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            return None
    return status.st_uid, status.st_gid


def copy_owner(original: int, copy: int) -> None:
    """Gives an open file the user and group of another."""
    syscalls.calls.fchown(copy, *owner_of(original))


def attribute_names(original: int) -> list[str]:
    """Returns the names of an open file's extended attributes, none where the file system has no such thing."""
    try:
        return HERE.listxattr(HERE.path_of(original))
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return []


def copy_attribute(original: int, copy: int, name: str) -> None:
    """Gives an open file one extended attribute of another."""
    syscalls.calls.setxattr(copy, name, HERE.getxattr(HERE.path_of(original), name))
