"""
macOS: so far the portable platform with the flush that reaches the disk.

LIMIT: on macOS only the order to the disk itself is used, of all calls that this system alone has. No Mac has run this.
"""

from __future__ import annotations

import errno
import fcntl
import os

from mulligan.safefs.platform.portable import Portable

_FULL_FSYNC = 51


class Darwin(Portable):
    """macOS."""

    name = "darwin"

    def fsync(self, fd: int) -> None:
        """Makes an open file durable: a plain fsync leaves the drive's cache unwritten."""
        try:
            fcntl.fcntl(fd, _FULL_FSYNC)
        except OSError as error:
            if error.errno not in {errno.ENOTSUP, errno.EINVAL, errno.ENOTTY}:
                raise
            os.fsync(fd)  # a file system that has nothing stronger
