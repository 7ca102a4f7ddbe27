"""
From a scan to a checkpoint.

The order is the promise: packs and the bytes of the ref durable, then one transaction, which owes the ref, then the ref's
name, then the acknowledgement. Retention is part of that same transaction; a kill between any two steps leaves either no
checkpoint or a whole one. The ref's name may go with the power: the timeline is what counts, and the next writer puts it back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.model.cause import CAUSE
from mulligan.model.checkpoint import (
    MOVING,
    UNREADABLE,
    Checkpoint,
    GitState,
    NotCaptured,
    moment,
    pack_list,
)
from mulligan.model.objects import EMPTY_TREE
from mulligan.scan.trees import Scan
from mulligan.store.refs import drop_staged_ref, staged_ref
from mulligan.timeline.commits import STATE_BEFORE, Entry, write_commit
from mulligan.timeline.trees import Trees, pack_changes
from mulligan.timeline.undo import Move

if TYPE_CHECKING:
    from mulligan.model.gitposition import GitRecord
    from mulligan.timeline.store import Store


class CheckpointDraft(NamedTuple):
    """What the caller says about a new checkpoint."""

    id: str
    created_ns: int
    name: str = ""
    description: str = ""
    kind: str = "manual"
    context: dict[str, Any] = {}  # noqa: RUF012 - never changed in place
    state: dict[str, Any] = {}  # noqa: RUF012 - never changed in place
    metadata: dict[str, Any] = {}  # noqa: RUF012 - never changed in place
    git: GitRecord | None = None
    git_problem: str = ""  # why it was to be recorded where git stands, and could not be


def made_on_other_branch(entry: Entry, git: GitState | None) -> str:
    """Returns the branch that a checkpoint was made on where another one is checked out, else nothing."""
    branch = entry.checkpoint.git.branch if entry.checkpoint.git is not None else ""
    return branch if git is not None and git.branch != branch else ""


def draft_entry(draft: CheckpointDraft, scan: Scan, git: GitState | None, base: Entry | None, changed: bytes) -> Entry:
    """Returns the entry of a new checkpoint, not written yet; what it changed comes packed."""
    rows = [[m.path, m.reason, m.detail] for m in scan.not_captured()]
    if draft.git_problem:
        rows.append([".git", UNREADABLE, draft.git_problem])
    missed = pack_list(rows) if rows else b""
    checkpoint = Checkpoint(
        id=draft.id, name=draft.name, description=draft.description, kind=draft.kind, created_at=moment(draft.created_ns),
        parent=base.id if base else None, complete=scan.complete and not draft.git_problem, commit="", git=git, context=draft.context,
        metadata=draft.metadata, state_source=lambda: draft.state,
        packed_changes=changed, not_captured_source=lambda: missed,
        plain_secrets=scan.secrets.to_plain() if scan.secrets is not None else None,
    )  # fmt: skip
    return Entry(
        checkpoint,
        draft.created_ns,
        scan.tree,
        scan.modes,
        (scan.defaults.file, scan.defaults.executable, scan.defaults.directory),
    )


def with_state_before(entry: Entry, base: Entry | None) -> Entry:
    """Returns an agent's step that keeps the state it changed; other checkpoints as they are."""
    if entry.checkpoint.kind != "step" or CAUSE not in entry.checkpoint.metadata or base is None:
        said = entry.checkpoint.metadata
        if STATE_BEFORE not in said:
            return entry
        # A caller's own value under this name would have the commit name objects that do not exist.
        plain = {name: value for name, value in said.items() if name != STATE_BEFORE}
        return entry._replace(checkpoint=entry.checkpoint.replace(metadata=plain))
    unseen: list[NotCaptured] = []
    if base.checkpoint.packed_not_captured != entry.checkpoint.packed_not_captured:
        hidden = {row.path for row in entry.checkpoint.not_captured}
        unseen = [row for row in base.checkpoint.not_captured if row.path not in hidden and row.reason != MOVING]
    return entry.with_before(base.trees, unseen)


def write_objects(entry: Entry, scan: Scan, writer: Any, git: GitRecord | None = None) -> Entry:
    """Adds the trees that are new, where git stood if that is recorded, and the commit; returns the entry with its commit."""
    for oid, (kind, data) in scan.objects.items():
        writer.add_hashed(oid, kind, data)
    if entry.files_tree == EMPTY_TREE:
        writer.add(b"tree", b"")
    if git is None:
        return write_commit(entry, writer)
    from mulligan.timeline.read_commits import write_record

    return write_commit(entry, writer, write_record(git, writer))


def finish_objects(entry: Entry, writer: Any) -> None:
    """Makes the objects of a checkpoint durable, and the bytes of its ref with them: one wait for all."""
    writer.finish(beside=[staged_ref(entry.id, entry.commit_id)])


def record_checkpoint(
    store: Store,
    entry: Entry,
    *,
    now_ns: int,
    pinned: Callable[[], set[str]],
    as_position: bool,
    also: Callable[[], None] | None = None,
) -> list[Entry]:
    """Makes a written checkpoint part of the timeline, durably, `also` in the same transaction; returns what retention let go."""
    checkpoints, database = store.checkpoints, store.database
    gone: list[Entry] = []
    try:
        with database.transaction():
            checkpoints.forget_refs()  # those of earlier checkpoints are durable
            checkpoints.add(entry)
            checkpoints.owe_ref(entry)
            if as_position:
                checkpoints.set_position(entry.id)
                store.moves.push(Move(entry.id), fresh=True)
            if also is not None:
                also()
            elif store.has_events():
                store.events.end_calls_of_the_dead()
            store.record_workspace(entry.checkpoint)
            if _may_expire(store, entry):
                gone = _expire(store, entry, now_ns, pinned())
    except BaseException:
        # Nothing refers to the staged ref now. The next sweep of tmp/ removes it where this cannot.
        with suppress(OSError):
            drop_staged_ref(store.directory, entry.id)
        raise
    store.place_ref(entry.id, [old.id for old in gone])
    return gone


def _expire(store: Store, entry: Entry, now_ns: int, pinned: set[str]) -> list[Entry]:
    """Deletes what retention lets go for a new checkpoint (inside its transaction), and returns it."""
    from mulligan.timeline.retention import expired_checkpoints

    kind, keep = entry.checkpoint.kind, {entry.id, entry.checkpoint.parent or "", *pinned, *store.needed()}
    over = expired_checkpoints(store.checkpoints.ages(kind), kind, store.settings.retention, now_ns=now_ns, pinned=keep)
    gone = []
    for aged in over:
        # Read when its turn comes: the removal of another may have given it a new parent.
        if (old := store.checkpoints.by_id(aged.id)) is not None:
            remove_checkpoint(store, old)
            gone.append(old)
    return gone


def _may_expire(store: Store, entry: Entry) -> bool:
    limit = store.settings.retention.limit(entry.checkpoint.kind)
    if limit is None or store.settings.append_only:
        return False
    # Steps go by their age too, from half of the count on; all else goes by the count alone.
    least = limit // 2 if entry.checkpoint.kind == "step" else limit
    return store.checkpoints.count_of(entry.checkpoint.kind) > least


def remove_checkpoint(store: Store, entry: Entry) -> None:
    """Deletes a checkpoint inside a transaction and tells its children what they changed against their new parent."""
    parent = store.checkpoints.by_id(entry.checkpoint.parent or "")
    for child in store.checkpoints.remove(entry):
        store.checkpoints.set_changes(child.id, pack_changes(Trees(store.objects), parent, child))
