"""
Seals: every row of the timeline carries a digest of itself.

SQLite notices when its pages no longer hang together, and not when a value inside one changed: a name with another letter,
a permission bit, a parent. A row whose seal does not fit is never believed. Seals are no defence against somebody who may
write to the store: whoever can change a row can seal it again.
"""

from __future__ import annotations

from mulligan.model.digests import blake2b
from mulligan.model.typed import Any

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
    parts = []
    for value in values:
        if isinstance(value, str):
            data = value.encode("utf-8", "surrogatepass")
            parts.append(b"t%d:%b" % (len(data), data))
        elif isinstance(value, bytes):
            parts.append(b"b%d:%b" % (len(value), value))
        else:
            data = repr(value).encode("ascii")
            parts.append(b"v%d:%b" % (len(data), data))
    return blake2b(b"".join(parts), digest_size=_LENGTH, usedforsecurity=False).digest()


def sealing(table: str) -> str:
    """Returns the SQL expression for the seal that a row of a table must have."""
    return f"seal({', '.join(COLUMNS[table])})"
