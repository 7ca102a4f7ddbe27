"""
Where the user's repository stood, kept with a checkpoint.

A tree `git/` in the checkpoint's commit: `position.json`, and `index` with the exact bytes (a split index as one file). It is
read only when a restore asks for it; a checkpoint without one was saved without.
"""

from __future__ import annotations

import json

from mulligan.errors import StoreDamaged
from mulligan.model.gitposition import GitPosition, GitRecord
from mulligan.model.objects import BLOB, COMMIT, MODE_FILE, TREE, TreeEntry, encode_tree, parse_commit
from mulligan.timeline.commits import NO_TREE, Writer
from mulligan.timeline.sources import Reader

_POSITION, _INDEX = b"position.json", b"index"


def write_record(record: GitRecord, writer: Writer) -> bytes:
    """Adds a record's objects and returns its tree."""
    about = {**record.position.to_dict(), "index_mtime_ns": record.index_mtime_ns}
    text = json.dumps(about, ensure_ascii=True, sort_keys=True, indent=1).encode("ascii") + b"\n"
    entries = [TreeEntry(_POSITION, MODE_FILE, writer.add(BLOB, text))]
    if record.index_data:
        entries.append(TreeEntry(_INDEX, MODE_FILE, writer.add(BLOB, record.index_data)))
    return writer.add(TREE, encode_tree(entries))


def record_tree(reader: Reader, commit_id: bytes) -> bytes:
    """Returns the tree of the record that a checkpoint's commit holds, nought where it holds none."""
    parts = reader.read_tree(parse_commit(reader.read(commit_id, COMMIT)).tree)
    return next((entry.oid for entry in parts if entry.name == b"git"), NO_TREE)


def read_record(reader: Reader, commit_id: bytes) -> GitRecord | None:
    """Returns where git stood at a checkpoint, None where that was not recorded; raises StoreDamaged."""
    tree = record_tree(reader, commit_id)
    if tree == NO_TREE:
        return None
    parts = {entry.name: entry.oid for entry in reader.read_tree(tree)}
    try:
        about = json.loads(reader.read(parts[_POSITION], BLOB))
        position, mtime_ns = GitPosition.from_dict(about), int(about["index_mtime_ns"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreDamaged(
            f"Where git stood at {commit_id.hex()} cannot be read ({error}). Nothing was changed.",
            hint="mulligan check",
        ) from None
    return GitRecord(position, reader.read(parts[_INDEX], BLOB) if _INDEX in parts else b"", mtime_ns)
