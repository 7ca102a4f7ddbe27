"""
Owner and extended attributes (ACLs among them), from one file to another.

Works on descriptors alone. The original may be open only to be looked at (`Directory.looking_at`), so a file that cannot be
read has its attributes copied all the same.
"""

from __future__ import annotations

import errno
import os

from mulligan.safefs import seam


def same_owner(original: int, copy: int) -> bool:
    """Returns whether two open files belong to the same user and group."""
    one, other = os.fstat(original), os.fstat(copy)
    return (one.st_uid, one.st_gid) == (other.st_uid, other.st_gid)


def copy_owner(original: int, copy: int) -> None:
    """Gives an open file the user and group of another."""
    status = os.fstat(original)
    seam.calls.fchown(copy, status.st_uid, status.st_gid)


def attribute_names(original: int) -> list[str]:
    """Returns the names of an open file's extended attributes, none where the file system has no such thing."""
    try:
        return os.listxattr(_by_descriptor(original))
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return []


def copy_attribute(original: int, copy: int, name: str) -> None:
    """Gives an open file one extended attribute of another."""
    seam.calls.setxattr(copy, name, os.getxattr(_by_descriptor(original), name))


def _by_descriptor(fd: int) -> str:
    # The calls that take a descriptor refuse one that was opened only to look.
    return f"/proc/self/fd/{fd}"
