"""
What a twin tells of its part of a walk: encoded by the one process, merged by the other.

Plain bytes and numbers, because only those travel cheaply; records travel in the form they have in the stat cache.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any, NamedTuple

from mulligan.scan.frame import Subtree
from mulligan.scan.record import Missed, Record, Stat, decode
from mulligan.scan.result import Scan


class Part(NamedTuple):
    """One process's part of a walk."""

    subtrees: list[Subtree]
    share: Any
    seen: dict[bytes, tuple[int, int, int]]
    read: int


def encode(part: Part, scan: Scan) -> bytes:
    """Returns a part, and what its scan found, as bytes."""
    return marshal.dumps((
        [(task, record.encode(), changed, only) for task, record, changed, only in part.subtrees],
        part.share,
        part.seen,
        part.read,
        {path: record.encode() for path, record in scan.records.items()},
        {path: tuple(missed) for path, missed in scan.missed.items()},
        {path: tuple(seen) for path, seen in scan.observed.items()},
        scan.objects,
        scan.files,
    ))  # fmt: skip


def merge(data: bytes, scan: Scan, before: Callable[[bytes], Record | None]) -> Part:
    """Adds to a scan what a twin found and returns its part; `before` tells what was remembered of a directory."""
    # The bytes come from a fork of this very process over a pipe that nobody else holds.
    subtrees, share, seen, read, records, missed, observed, objects, files = marshal.loads(data)  # noqa: S302
    for path, packed in records.items():
        record = scan.records[path] = decode(packed)
        old = before(path)
        if old is not None:
            scan.remember_trees(path, old, record)
    scan.missed.update((path, Missed(*row)) for path, row in missed.items())
    scan.observed.update((path, Stat(*row)) for path, row in observed.items())
    scan.objects.update(objects)
    scan.files += files
    return Part(
        [Subtree(task, decode(packed), changed, only) for task, packed, changed, only in subtrees], share, seen, read
    )
