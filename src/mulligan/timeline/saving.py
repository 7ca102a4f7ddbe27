"""
From a scan to a checkpoint.

The order is the promise: packs and the bytes of the ref durable, then one transaction, which owes the ref, then the ref's
name, then the acknowledgement. Retention is part of that same transaction; a kill between any two steps leaves either no
checkpoint or a whole one. The ref's name may go with the power: the timeline is what counts, and the next writer puts it back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.model.cause import CAUSE
from mulligan.model.checkpoint import (
    IGNORED,
    MOVING,
    NEWLY_IGNORED,
    UNREADABLE,
    WORKTREE,
    Checkpoint,
    GitState,
    NotCaptured,
    moment,
    pack_list,
    pack_paths,
)
from mulligan.model.objects import EMPTY_TREE, Change, TreeEntry
from mulligan.model.paths import covers, to_text
from mulligan.scan.trees import Scan, cover_of
from mulligan.store.refs import drop_staged_ref, staged_ref
from mulligan.timeline.commits import STATE_BEFORE, Entry, write_commit
from mulligan.timeline.moves import Move
from mulligan.timeline.retention import expired
from mulligan.timeline.sources import Source, permission_changes, state_of
from mulligan.timeline.vault import Vault

if TYPE_CHECKING:
    from mulligan.model.gitposition import GitRecord
    from mulligan.model.plan import Action
    from mulligan.model.sealed import Sealed
    from mulligan.timeline.checkpoints import Unsaved


#: Said of a directory that the checkpoint before still held.
TURNED_WORKTREE = "saved until now; it is a git worktree now, with a history of its own"


class Draft(NamedTuple):
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


def changes_since(base: Entry | None, scan: Scan, source: Source) -> list[Change]:
    """
    Returns the files that differ from a checkpoint; what is there but not captured is not taken for deleted.

    Paths that were captured before and are hidden by an ignore rule now get the reason that makes a checkpoint partial.
    """
    if base is None:
        everything = (Change(path, None, _entry(path, (mode, oid))) for path, mode, oid in scan.captured())
        return sorted(with_secrets(everything, {}, scan.sealed), key=lambda change: change.path)
    if scan.cache.root_tree == base.files_tree:
        found = [Change(path, _entry(path, old), _entry(path, new)) for path, old, new in scan.changes()]
    else:
        found = source.changes(base.files_tree, scan.tree)
    found = with_secrets(found, base.sealed, scan.sealed)
    cover, shown = scan.cover(), []
    for change in found:
        hidden = cover.over(change.path) if change.new is None else None
        if hidden is None:
            shown.append(change)
        elif scan.missed[hidden].reason == WORKTREE:
            scan.missed[hidden] = scan.missed[hidden]._replace(detail=TURNED_WORKTREE)
        elif scan.missed[hidden].reason == IGNORED and to_text(hidden) not in base.by_name:
            scan.missed[hidden] = scan.missed[hidden]._replace(
                reason=NEWLY_IGNORED, detail="saved until now; an ignore rule hides it"
            )
    shown += permission_changes(source, base.trees, state_of(scan))
    shown.sort(key=lambda change: change.path)
    return shown


def paths_since(base: Entry | None, scan: Scan, source: Source) -> bytes:
    """Returns the paths of `changes_since`, packed; a first checkpoint may have millions, of which nothing else is kept."""
    if base is None:
        if scan.sealed:
            return pack_paths(b"\0".join(sorted([*scan.paths(), *scan.sealed])))
        return pack_paths(b"\0".join(scan.paths()))
    return pack_paths(b"\0".join([change.path for change in changes_since(base, scan, source)]))


def _same_secrets(entry: Entry, scan: Scan) -> bool:
    then, now = entry.sealed, scan.sealed
    return then.keys() == now.keys() and all(file.is_as(now[path]) for path, file in then.items())


def with_secrets(changes: Iterable[Change], old: Sealed, new: Sealed) -> list[Change]:
    """Returns changes of plain files together with those of sealed ones; see `model.sealed.with_sealed`."""
    if not old and not new:
        return list(changes)
    from mulligan.model.sealed import with_sealed

    return with_sealed(changes, old, new)


def _entry(path: bytes, found: tuple[int, bytes] | None) -> TreeEntry | None:
    return None if found is None else TreeEntry(path.rpartition(b"/")[2], *found)


def could_not_see(entry: Entry, actions: Iterable[Action], hidden_after: Callable[[Entry], Unsaved]) -> bool:
    """
    Whether something is to be made where a checkpoint, or one after it, could not see what stood.

    An undo to that checkpoint would not know that nothing was there, and would keep what was made.
    """
    absent = {*entry.absent}
    made = [action.path for action in actions if action.before is None and to_text(action.path) not in absent]
    if not made:
        return False
    lists = (entry.checkpoint.not_captured, *(rows for rows, _ in hidden_after(entry)))
    covers_some = map(cover_of, lists)
    return any(cover.over(path) is not None for cover in covers_some for path in made)


def lists_hidden(entry: Entry, scan: Scan) -> bool:
    """Whether a checkpoint lists as not captured all that a scan did not."""
    return {row.path for row in scan.not_captured()} <= {row.path for row in entry.checkpoint.not_captured}


def same_state(entry: Entry | None, scan: Scan) -> bool:
    """Returns whether a checkpoint holds exactly what a scan found."""
    if entry is None or (entry.modes_tree, entry.defaults) != (scan.modes, tuple(scan.defaults)):
        return False
    return _same_secrets(entry, scan) and scan.tree == entry.files_tree


def made_on_other_branch(entry: Entry, git: GitState | None) -> str:
    """Returns the branch that a checkpoint was made on where another one is checked out, else nothing."""
    branch = entry.checkpoint.git.branch if entry.checkpoint.git is not None else ""
    return branch if git is not None and git.branch != branch else ""


def draft_entry(draft: Draft, scan: Scan, git: GitState | None, base: Entry | None, changed: bytes) -> Entry:
    """Returns the entry of a new checkpoint, not written yet; what it changed comes packed."""
    rows = [[m.path, m.reason, m.detail] for m in scan.not_captured()]
    if draft.git_problem:
        rows.append([".git", UNREADABLE, draft.git_problem])
    checkpoint = Checkpoint(
        id=draft.id, name=draft.name, description=draft.description, kind=draft.kind, created_at=moment(draft.created_ns),
        parent=base.id if base else None, complete=scan.complete and not draft.git_problem, commit="", git=git, context=draft.context,
        metadata=draft.metadata, state_source=lambda: draft.state,
        packed_changes=changed, packed_not_captured=pack_list(rows) if rows else b"",
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
        # A caller's own value under this name would have the commit hold objects that nobody wrote.
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
    from mulligan.timeline.gitrecord import write_record

    return write_commit(entry, writer, write_record(git, writer))


def finish(entry: Entry, writer: Any) -> None:
    """Makes the objects of a checkpoint durable, and the bytes of its ref with them: one wait for all."""
    writer.finish(beside=[staged_ref(entry.id, entry.commit_id)])


def record(
    vault: Vault,
    entry: Entry,
    *,
    now_ns: int,
    pinned: Callable[[], set[str]],
    as_position: bool,
    also: Callable[[], None] | None = None,
) -> list[Entry]:
    """Makes a written checkpoint part of the timeline, durably, `also` in the same transaction; returns what retention let go."""
    checkpoints, database = vault.checkpoints, vault.database
    gone: list[Entry] = []
    forget = vault.may_forget_refs()
    try:
        with database.transaction():
            if forget:
                checkpoints.forget_refs()
            checkpoints.add(entry)
            checkpoints.owe_ref(entry)
            if as_position:
                checkpoints.set_position(entry.id)
                vault.moves.push(Move(entry.id), fresh=True)
            if also is not None:
                also()
            elif not database.is_empty("deed"):
                vault.deeds.end_calls_of_the_dead()
            vault.record_workspace(entry.checkpoint)
            ages = checkpoints.ages(entry.checkpoint.kind) if _may_expire(vault, entry) else []
            keep = {entry.id, entry.checkpoint.parent or ""} | (pinned() | vault.needed() if ages else set())
            for aged in expired(ages, entry.checkpoint.kind, vault.settings.retention, now_ns=now_ns, pinned=keep):
                old = checkpoints.by_id(aged.id)
                if old is not None:
                    remove(vault, old)
                    gone.append(old)
    except BaseException:
        # Nothing refers to the staged ref now. The next sweep of tmp/ removes it where this cannot.
        with suppress(OSError):
            drop_staged_ref(vault.objects.tmp_directory(), entry.id)
        raise
    vault.settle_saved(entry.id, [old.id for old in gone])
    return gone


def _may_expire(vault: Vault, entry: Entry) -> bool:
    limit = vault.settings.retention.limit(entry.checkpoint.kind)
    if limit is None or vault.settings.append_only:
        return False
    # Steps go by their age too, from half of the count on; all else goes by the count alone.
    least = limit // 2 if entry.checkpoint.kind == "step" else limit
    return vault.checkpoints.count_of(entry.checkpoint.kind) > least


def remove(vault: Vault, entry: Entry) -> None:
    """Deletes a checkpoint inside a transaction and tells its children what they changed against their new parent."""
    parent = vault.checkpoints.by_id(entry.checkpoint.parent or "")
    for child in vault.checkpoints.remove(entry):
        vault.checkpoints.set_changes(child.id, pack_changes(Source(vault.objects), parent, child))


def pack_changes(source: Source, parent: Entry | None, child: Entry) -> bytes:
    """Returns the list of files that a checkpoint changed, as it is kept; what it did not capture is not taken for deleted."""
    hidden = cover_of(child.checkpoint.not_captured)
    changes = compare_entries(source, parent, child)
    return pack_list(
        to_text(change.path) for change in changes if change.new is not None or hidden.over(change.path) is None
    )


def compare_entries(source: Source, a: Entry | None, b: Entry) -> list[Change]:
    """Returns the files that differ between two checkpoints, in contents or permission bits."""
    from mulligan.diff.compare import compare_trees

    found = compare_trees(source.read_tree, a.files_tree if a else EMPTY_TREE, b.files_tree)
    found = with_secrets(found, a.sealed if a else {}, b.sealed)
    if a is not None:
        found += permission_changes(source, a.trees, b.trees)
        found.sort(key=lambda change: change.path)
    return found


def touches(entry: Entry, path: bytes) -> bool:
    """Returns whether a checkpoint changed a path or something below it."""
    return any(covers(path, os.fsencode(name)) for name in entry.checkpoint.files_changed)
