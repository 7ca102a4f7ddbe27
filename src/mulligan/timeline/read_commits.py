"""Checkpoints read from their commits, and the record of where the user's repository stood, in both directions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mulligan.errors import StoreDamaged
from mulligan.model.bounded import read_json
from mulligan.model.checkpoint import Checkpoint, GitState, moment, pack_list
from mulligan.model.objects import BLOB, COMMIT, MODE_FILE, TREE, TreeEntry, encode_tree, parse_commit
from mulligan.model.paths import to_text
from mulligan.timeline.commits import NO_TREE, Entry, ObjectAdder, as_json
from mulligan.timeline.trees import ObjectReader

if TYPE_CHECKING:
    from mulligan.model.gitposition import GitRecord


def _parts(reader: ObjectReader, commit_id: bytes) -> dict[bytes, TreeEntry]:
    """Returns what stands at the top of a commit's tree, by name."""
    return {entry.name: entry for entry in reader.read_tree(parse_commit(reader.read(commit_id, COMMIT)).tree)}


def read_state(reader: ObjectReader, commit_id: bytes) -> dict[str, Any]:
    """Returns the agent state that a commit holds."""
    parts = _parts(reader, commit_id)
    state: dict[str, Any] = {}
    for entry in reader.read_tree(parts[b"state"].oid) if b"state" in parts else ():
        value = _read_json(reader, entry.oid, commit_id)
        if entry.name == b"+.json" and isinstance(value, dict):
            state.update(value)
        else:
            state[to_text(entry.name[:-5])] = value
    return state


def _read_json(reader: ObjectReader, blob: bytes, commit_id: bytes) -> Any:
    try:
        return read_json(reader.read(blob, BLOB))
    except ValueError as error:
        raise StoreDamaged(
            f"The metadata of commit {commit_id.hex()} cannot be read ({error}).", hint="mulligan check"
        ) from None


def read_commit(reader: ObjectReader, commit_id: bytes) -> Entry:
    """Returns the entry a commit was written from; raises StoreDamaged if it is none of ours."""
    parts = _parts(reader, commit_id)
    if b"checkpoint.json" not in parts or b"files" not in parts:
        raise StoreDamaged(f"Commit {commit_id.hex()} is not a checkpoint.", hint="mulligan check")
    try:
        about = _read_json(reader, parts[b"checkpoint.json"].oid, commit_id)
        rows = _read_json(reader, parts[b"not-captured.json"].oid, commit_id) if b"not-captured.json" in parts else []
        return _entry(about, rows, parts, commit_id, lambda: read_state(reader, commit_id))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StoreDamaged(
            f"The metadata of commit {commit_id.hex()} cannot be read ({error}).", hint="mulligan check"
        ) from None


def _entry(
    about: dict[str, Any],
    rows: list[Any],
    parts: dict[bytes, TreeEntry],
    commit_id: bytes,
    state: Callable[[], dict[str, Any]],
) -> Entry:
    git = about["git"]
    missed = pack_list([[row["path"], row["reason"], row["detail"]] for row in rows])
    checkpoint = Checkpoint(
        id=str(about["id"]), name=about["name"], description=about["description"], kind=about["kind"],
        created_at=moment(about["created_ns"]), parent=about["parent"], complete=bool(about["complete"]), commit=commit_id.hex(),
        git=GitState(git["commit_hash"], git["branch"], tuple(git["dirty_files"])) if git else None,
        context=about["context"], metadata=about["metadata"],
        not_captured_source=lambda: missed, state_source=state,
        plain_secrets=about.get("secrets"),
    )  # fmt: skip
    file_perm, exec_perm, dir_perm = about["defaults"]
    modes = parts[b"modes"].oid if b"modes" in parts else NO_TREE
    return Entry(
        checkpoint,
        int(about["created_ns"]),
        parts[b"files"].oid,
        modes,
        (int(file_perm), int(exec_perm), int(dir_perm)),
    )


_POSITION, _INDEX = b"position.json", b"index"


def write_record(record: GitRecord, writer: ObjectAdder) -> bytes:
    """Adds a record's objects and returns its tree."""
    about = {**record.position.to_dict(), "index_mtime_ns": record.index_mtime_ns}
    entries = [TreeEntry(_POSITION, MODE_FILE, writer.add(BLOB, as_json(about)))]
    if record.index_data:
        entries.append(TreeEntry(_INDEX, MODE_FILE, writer.add(BLOB, record.index_data)))
    return writer.add(TREE, encode_tree(entries))


def record_tree(reader: ObjectReader, commit_id: bytes) -> bytes:
    """Returns the tree of the record that a checkpoint's commit holds, nought where it holds none."""
    found = _parts(reader, commit_id).get(b"git")
    return found.oid if found is not None else NO_TREE


def read_record(reader: ObjectReader, commit_id: bytes) -> GitRecord | None:
    """Returns where git stood at a checkpoint, None where that was not recorded; raises StoreDamaged."""
    from mulligan.model.gitposition import GitPosition, GitRecord

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
