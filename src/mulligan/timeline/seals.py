"""
Seals: every row of the timeline carries a digest of itself.

SQLite notices when its pages no longer hang together, and not when a value inside one changed: a name with another letter,
a permission bit, a parent. A row whose seal does not fit is never believed. Seals are no defence against somebody who may
write to the store: whoever can change a row can seal it again.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

#: The columns of each table that its seal covers: all of them.
COLUMNS = {
    "meta": ("key", "value"),
    "checkpoint": (
        *("seq", "id", "name", "description", "kind", "created_ns", "parent", "commit_id", "files_tree", "modes_tree"),
        *("defaults", "complete", "changes", "not_captured", "git", "context", "state", "metadata"),
    ),
    "move": ("seq", "id", "what"),
    "redo": ("seq", "id", "what"),
    "journal": ("one", "phase", "plan"),
    "fresh_ref": ("id", "commit_id"),
    "dead_ref": ("id",),
    "pin": ("id", "pid"),
    "deed": (
        "seq",
        "created_ns",
        "session",
        "kind",
        "prompt",
        "number",
        "call",
        "open",
        "about",
        "checkpoint",
        "saved",
    ),
}
_LENGTH = 8


def seal(*values: Any) -> bytes:
    """Returns the seal of a row; SQL knows this function by the same name."""
    # Each byte is a letter on the way: to join letters and turn all into bytes at once takes half the time.
    parts = []
    for value in values:
        if isinstance(value, str):
            letters = value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("latin-1")
            parts.append(f"t{len(letters)}:{letters}")
        elif isinstance(value, bytes):
            parts.append(f"b{len(value)}:{value.decode('latin-1')}")
        else:
            letters = repr(value)
            parts.append(f"v{len(letters)}:{letters}")
    return blake2b("".join(parts).encode("latin-1"), digest_size=_LENGTH, usedforsecurity=False).digest()


def sealing(table: str) -> str:
    """Returns the SQL expression for the seal that a row of a table must have."""
    return f"seal({', '.join(COLUMNS[table])})"


def as_column(text: str) -> str | bytes:
    """Returns text as SQLite can hold it: lone surrogates, which UTF-8 cannot say, go in as bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def from_column(value: str | bytes) -> str:
    """Returns the text that `as_column` put there."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value
