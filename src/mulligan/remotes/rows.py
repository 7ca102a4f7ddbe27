"""
The rows of other machines' checkpoints whose contents are on a remote: what a lazy clone knows before it fetches anything.

A segment carries what the log shows of each checkpoint. A row made from it has no tree of files, so nothing can be read through
it by accident. It becomes a full copy when the contents were fetched, verified and made durable.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from mulligan.errors import MulliganError, RemoteDamaged
from mulligan.model.checkpoint import KINDS, Checkpoint, GitState, moment, pack_list, unpack_list
from mulligan.model.paths import covers
from mulligan.timeline.commits import NO_TREE, Entry

if TYPE_CHECKING:
    from mulligan.remotes.protocol import Told

#: What the log shows of one checkpoint takes at most so many bytes in a segment; one with more is shown without its files.
LARGEST_ROW = 256 << 10
_LAST_MOMENT = 1 << 63


def row_of(entry: Entry) -> dict[str, Any]:
    """Returns what the log shows of a checkpoint, beside its name, kind and time."""
    cp = entry.checkpoint
    row = {
        "description": cp.description, "parent": cp.parent, "complete": cp.complete, "context": cp.context,
        "metadata": cp.metadata, "git": cp.git.to_dict() if cp.git else None, "secrets": cp.plain_secrets,
        "changes": b64encode(cp.packed_changes).decode("ascii"),
    }  # fmt: skip
    return row if size_of(row) <= LARGEST_ROW else {}


def size_of(row: dict[str, Any]) -> int:
    """Returns how many bytes a row takes in a segment, about."""
    return len(json.dumps(row))


def entry_of(told: Told, remote: str) -> Entry:
    """Returns the row of a checkpoint whose contents are on a remote; raises RemoteDamaged where it is none."""
    row = told.row
    try:
        git, changes = row.get("git"), b64decode(row.get("changes", ""), validate=True)
        texts = (row.get("description", ""), row.get("parent") or "")
        objects = (row.get("context", {}), row.get("metadata", {}), row.get("secrets") or {})
        if not all(isinstance(text, str) for text in texts) or not all(isinstance(each, dict) for each in objects):
            raise TypeError("it is not one of a checkpoint")
        if told.kind not in KINDS or not 0 <= told.at < _LAST_MOMENT:
            raise ValueError("its kind or its time is none")
        checkpoint = Checkpoint(
            id=told.id, name=told.name, description=texts[0], kind=told.kind, created_at=moment(told.at),
            parent=row.get("parent"), complete=row.get("complete", True) is True, commit=told.commit,
            git=GitState(str(git["commit_hash"]), str(git["branch"]), tuple(map(str, git["dirty_files"]))) if git else None,
            context=objects[0], metadata=objects[1], packed_changes=changes, plain_secrets=row.get("secrets"),
            held_by=remote,
        )  # fmt: skip
        checkpoint.to_dict()  # lists and secrets can be read, too
    except (MulliganError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RemoteDamaged(f"What the log shows of it cannot be believed ({error}).") from None
    return Entry(checkpoint, told.at, NO_TREE)


def without_path(entry: Entry, path: bytes) -> Entry:
    """Returns a row that does not name a forgotten path; its contents are cut when they are fetched."""
    cp = entry.checkpoint

    def is_other(name: str) -> bool:
        return not covers(path, name.encode("utf-8", "surrogateescape"))

    git = cp.git._replace(dirty_files=tuple(filter(is_other, cp.git.dirty_files))) if cp.git else None
    packed = cp.packed_changes and pack_list(filter(is_other, map(str, unpack_list(cp.packed_changes))))
    secrets = cp.secrets
    if secrets is not None:
        secrets = secrets._replace(files={p: file for p, file in secrets.files.items() if not covers(path, p)})
    plain = secrets.to_plain() if secrets is not None else None
    return entry._replace(checkpoint=cp.replace(git=git, packed_changes=packed, plain_secrets=plain))
