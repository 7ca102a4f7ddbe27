"""
The timeline's log, made as long as it gets.

SQLite begins at the front of its log again every thousand pages. Until it has come so far once, every transaction makes the
file longer, and the file system confirms that with its own journal: to write over what is there takes half the time, less
where others use the disk. SQLite passes over zeros behind its last record as it passes over what an earlier round left.
"""

from __future__ import annotations

import sqlite3

from mulligan.model.small import suppress
from mulligan.safefs.directory import Directory, append_at
from mulligan.safefs.room import free_bytes

_LOG, _SIZE = b"timeline.db-wal", 4 << 20
# Zeros are not worth the last room of a disk: below this the log grows as it must.
_PLENTY = 64 << 20


def lengthen(connection: sqlite3.Connection, directory: Directory) -> None:
    """Writes zeros behind the log, if there is one and room for it; for a process that stays. Where it cannot be done, nothing is lost."""
    with suppress(OSError, sqlite3.Error):
        free = free_bytes(directory)
        if free is None or free < _PLENTY:
            return
        # As the one writer: nobody else puts a record where the zeros go. SQLite holds no lock on this file that closing it drops.
        connection.execute("BEGIN IMMEDIATE")
        try:
            size = directory.stat(_LOG).st_size
            if 0 < size < _SIZE:
                append_at(directory, _LOG, size, bytes(_SIZE - size))
        finally:
            connection.execute("ROLLBACK")
