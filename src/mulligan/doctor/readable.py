"""
What can still be read of a damaged timeline.

Row by row, from both ends of each table, and only what its seal vouches for; within the work that so small a file can need.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import count, islice
from typing import Any

from mulligan.timeline.database import LONGEST, STEPS, STEPS_PER_PAGE, connect, exactly
from mulligan.timeline.seals import COLUMNS, seal

_MOST_ROWS = 4_000_000


def whole_rows(path: str) -> dict[str, list[dict[str, Any]]]:
    """Returns, by table, the rows of a damaged timeline whose seal is whole, as far as SQLite gets at them."""
    found: dict[str, list[dict[str, Any]]] = {}
    try:
        connection = connect(path)
    except sqlite3.Error:
        return found
    work, most = count(1), 64 + os.stat(path).st_size * STEPS_PER_PAGE // (512 * STEPS)
    with closing(connection):
        connection.text_factory = exactly
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        connection.set_progress_handler(lambda: next(work) > most, STEPS)
        tables = _plain_tables(connection)
        for table, columns in COLUMNS.items():
            if table not in tables:
                continue
            # From both ends: a page that cannot be read hides what lies behind it from one side only.
            rows = [
                *_until_broken(connection, table, columns, "ASC"),
                *_until_broken(connection, table, columns, "DESC"),
            ]
            found[table] = [
                dict(zip(columns, row, strict=True)) for row in sorted(set(rows), key=lambda row: str(row[0]))
            ]
            if columns[0] == "seq":
                found[table].sort(key=lambda row: row["seq"])
    return found


def _plain_tables(connection: sqlite3.Connection) -> set[str]:
    """Returns the names of what is a table, not of views planted in their place."""
    with suppress(sqlite3.Error, UnicodeDecodeError):
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table' LIMIT 100")}
    return set()


def _until_broken(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], direction: str
) -> Iterator[tuple[Any, ...]]:
    with suppress(sqlite3.Error, OverflowError, UnicodeDecodeError):
        order = f"ORDER BY {columns[0]} {direction}"
        found = connection.execute(f"SELECT {', '.join(columns)}, seal FROM {table} {order}")
        for *values, sealed in islice(found, _MOST_ROWS):
            if seal(*values) == sealed:
                yield tuple(values)
