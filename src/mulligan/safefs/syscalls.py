"""
The seam between mulligan and the operating system.

`calls` is the one object through which the package changes or opens anything. Tests put another in its place with `using`:
one that fails the n-th call, records, or forgets what was not synced.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from mulligan.safefs.platform import HERE


class Calls:
    """The operating system, as it is."""

    open = staticmethod(os.open)
    close = staticmethod(os.close)
    read = staticmethod(os.read)
    pread = staticmethod(os.pread)
    write = staticmethod(os.write)
    ftruncate = staticmethod(os.ftruncate)
    fchmod = staticmethod(os.fchmod)
    fchown = staticmethod(os.fchown)
    mkdir = staticmethod(os.mkdir)
    rmdir = staticmethod(os.rmdir)
    unlink = staticmethod(os.unlink)
    symlink = staticmethod(os.symlink)
    chmod = staticmethod(os.chmod)
    utime = staticmethod(os.utime)
    rename = staticmethod(os.rename)
    link = staticmethod(os.link)
    clone = staticmethod(HERE.clone)
    fsync = staticmethod(HERE.fsync)
    syncfs = staticmethod(HERE.sync_all)
    setxattr = staticmethod(HERE.setxattr)
    exchange = staticmethod(HERE.exchange)
    rename_new = staticmethod(HERE.rename_new)
    kind_of_disk = staticmethod(HERE.kind_of_disk)
    born_ns = staticmethod(HERE.born_ns)


calls = Calls()


@contextmanager
def using(other: Calls) -> Iterator[Calls]:
    """Puts another implementation in place of the real one, for a test."""
    global calls  # noqa: PLW0603 - the one switch there is
    real, calls = calls, other
    try:
        yield other
    finally:
        calls = real
