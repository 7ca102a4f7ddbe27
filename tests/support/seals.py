"""
The seals of a timeline's rows, worked out by the page that describes them and by nothing of the package.

For the judge, who compares them, and for tests that change a row on purpose and then play its writer.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def seal(*values: Any) -> bytes:
    """BLAKE2b of eight bytes over every column: a letter for its type, its length, a colon, its bytes."""
    parts = []
    for value in values:
        letter = {str: "t", bytes: "b"}.get(type(value), "v")
        data = value if letter == "b" else (value if letter == "t" else repr(value)).encode("utf-8", "surrogatepass")
        parts.append(f"{letter}{len(data)}:".encode() + data)
    return hashlib.blake2b(b"".join(parts), digest_size=8).digest()


def columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """The columns of a table but for the seal, which comes last."""
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")][:-1]


def unsealed(connection: sqlite3.Connection, tables: Iterable[str]) -> list[str]:
    """The rows whose seal does not fit."""
    found = []
    for table in tables:
        for *values, sealed in connection.execute(f"SELECT * FROM {table}"):
            if seal(*values) != sealed:
                found.append(f"timeline: a row of {table} without its seal: {values[:2]}")
    return found


def reseal(store: Path) -> None:
    """Seals every row of a store's timeline as it stands."""
    connection = sqlite3.connect(store / "timeline.db")
    connection.create_function("seal", -1, seal)
    for (table,) in connection.execute(
        "SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite%'"
    ).fetchall():
        connection.execute(f"UPDATE {table} SET seal=seal({', '.join(columns(connection, table))})")
    connection.commit()
    connection.close()
