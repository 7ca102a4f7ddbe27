"""
A checkpoint as a commit, and the way from a scan to one.

The commit's tree holds `files/` (the workspace without secrets), `sealed/` (secrets, as ciphertext), `modes/` (permission
bits git cannot say), `state/` (one JSON file per key), `git/` (where the user's repository stood, with its index), `before/` (for an agent's step, the state it started
from), `not-captured.json` and `checkpoint.json` (everything the timeline knows of it). That is enough to rebuild the timeline from
the repository alone, and for a person with plain git to find their work.
The order is the promise: packs and the bytes of the ref durable, then one transaction, which owes the ref, then the ref's
name, and only then the caller hears of it. Retention is part of that same transaction; a kill between any two steps leaves
either no checkpoint or a whole one. The ref's name may go with the power: the timeline is what counts, and the next writer
puts it back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mulligan.errors import StoreDamaged
from mulligan.model.cause import CAUSE
from mulligan.model.checkpoint import MOVING, UNREADABLE, Checkpoint, GitState, NotCaptured, moment, pack_list
from mulligan.model.objects import (
    BLOB,
    COMMIT,
    EMPTY_TREE,
    MODE_DIR,
    MODE_FILE,
    TREE,
    Commit,
    TreeEntry,
    encode_commit,
    encode_tree,
)
from mulligan.model.paths import ancestors, is_dot_git, parent_of
from mulligan.scan.trees import Defaults, Scan
from mulligan.store.refs import drop_staged_ref, staged_ref
from mulligan.timeline.trees import State, Trees, pack_changes
from mulligan.timeline.undo import Move

if TYPE_CHECKING:
    from mulligan.model.checkpoint import Sealed
    from mulligan.model.gitposition import GitRecord
    from mulligan.timeline.store import Store

NO_TREE = bytes(20)
FORMAT = 1
#: In a checkpoint's metadata: the paths that were captured because a program asked for them by name.
BY_NAME = "captured_by_name"
#: And those where nothing stood although a rule hides what is there: a restore was about to make something there.
ABSENT = "absent"
#: And those that kept changing while a restore led here, so that they were left alone.
BUSY_THEN = "busy"
#: And that only an explicit delete removes it, whatever its kind: it was made by a client that may only add.
HELD = "held"
#: And that its maker counts it and deletes what is over its own limit: retention by kind leaves it alone, the budget may not.
COUNTED = "counted"
#: And, for an agent's step, the state that it changed: its parent may be deleted, and then another takes the parent's place.
STATE_BEFORE = "mulligan:before"
_ROW = 3  # path, reason, detail


class ObjectAdder(Protocol):
    """What writing a commit needs of the store."""

    def add(self, kind: bytes, data: bytes) -> bytes:
        """Takes an object and returns its id."""


class Entry(NamedTuple):
    """A checkpoint as the timeline stores it: the public value and what only the engine needs."""

    checkpoint: Checkpoint
    created_ns: int
    files_tree: bytes
    modes_tree: bytes = NO_TREE
    defaults: tuple[int, int, int] = (0o644, 0o755, 0o755)
    seq: int = 0

    @property
    def id(self) -> str:
        """The checkpoint's id."""
        return self.checkpoint.id

    @property
    def by_name(self) -> tuple[str, ...]:
        """The paths that were captured because a program asked for them, whatever hid them."""
        return self._listed(BY_NAME)

    @property
    def absent(self) -> tuple[str, ...]:
        """The paths of which it is known that nothing stood there, whatever hid them."""
        return self._listed(ABSENT)

    @property
    def busy(self) -> tuple[str, ...]:
        """Paths that kept changing when it was made: that they differ is no step to undo."""
        return self._listed(BUSY_THEN)

    @property
    def held(self) -> bool:
        """Whether neither retention nor the budget may let it go."""
        return self.checkpoint.metadata.get(HELD) is True

    def _listed(self, key: str) -> tuple[str, ...]:
        named = self.checkpoint.metadata.get(key, ())
        return tuple(path for path in named if isinstance(path, str)) if isinstance(named, list) else ()

    @property
    def sealed(self) -> Sealed:
        """The secrets that it holds sealed."""
        plain = self.checkpoint.plain_secrets
        secrets = self.checkpoint.secrets if plain is not None and plain.get("files") else None
        return secrets.files if secrets is not None else {}

    @property
    def trees(self) -> State:
        """The trees of its files, and its secrets."""
        return State(self.files_tree, self.modes_tree, Defaults(*self.defaults), self.sealed)

    @property
    def before(self) -> State | None:
        """The state that an agent's step changed, None where that is not kept."""
        kept = self.checkpoint.metadata.get(STATE_BEFORE)
        if not isinstance(kept, dict):
            return None
        sealed: Sealed = {}
        try:
            if "secrets" in kept:
                from mulligan.model.checkpoint import from_plain

                sealed = from_plain(kept["secrets"]).files
            files, modes = bytes.fromhex(kept["files"]), bytes.fromhex(kept["modes"])
            return State(files, modes, Defaults(*map(int, kept["defaults"])), sealed)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreDamaged(
                f"What checkpoint {self.checkpoint.short_id} started from cannot be read ({error}).",
                hint="mulligan check",
            ) from None

    @property
    def unseen_before(self) -> tuple[NotCaptured, ...]:
        """What the state before did not save and this one does, where it may."""
        kept = self.checkpoint.metadata.get(STATE_BEFORE)
        rows = kept.get("unseen") if isinstance(kept, dict) else None
        rows = rows if isinstance(rows, list) else []
        return tuple(NotCaptured(*map(str, row)) for row in rows if isinstance(row, list) and len(row) == _ROW)

    def with_before(self, state: State, unseen: Iterable[NotCaptured] = ()) -> Entry:
        """Returns the same entry that keeps the state which it changed."""
        kept: dict[str, Any] = {
            "files": state.files.hex(),
            "modes": state.modes.hex(),
            "defaults": list(state.defaults),
        }
        if state.sealed:
            from mulligan.model.checkpoint import Secrets

            kept["secrets"] = Secrets("", state.sealed).to_plain()
        rows = [list(row) for row in unseen]
        about = {**self.checkpoint.metadata, STATE_BEFORE: {**kept, "unseen": rows} if rows else kept}
        return self._replace(checkpoint=self.checkpoint.replace(metadata=about))

    @property
    def commit_id(self) -> bytes:
        """The checkpoint's commit."""
        return bytes.fromhex(self.checkpoint.commit)


def as_json(value: Any) -> bytes:
    """Returns a value as a commit keeps it."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True, indent=1).encode("ascii") + b"\n"


def write_commit(entry: Entry, writer: ObjectAdder, git: bytes = NO_TREE) -> Entry:
    """Adds the commit and its own objects (not the files, nor the tree of a git record); returns the entry with its commit id."""
    cp = entry.checkpoint
    about = {
        "format": FORMAT, "id": cp.id, "name": cp.name, "description": cp.description, "kind": cp.kind,
        "created_ns": entry.created_ns, "parent": cp.parent, "complete": cp.complete, "context": cp.context,
        "metadata": cp.metadata, "git": cp.git.to_dict() if cp.git else None, "defaults": list(entry.defaults),
    }  # fmt: skip
    if cp.plain_secrets is not None:
        about["secrets"] = cp.plain_secrets
    record = writer.add(BLOB, as_json(about))
    entries = [
        TreeEntry(b"checkpoint.json", MODE_FILE, record),
        TreeEntry(b"files", MODE_DIR, entry.files_tree),
    ]
    before = entry.before
    if before is not None:
        entries.append(TreeEntry(b"before", MODE_DIR, _write_before(before, writer)))
    if git != NO_TREE:
        entries.append(TreeEntry(b"git", MODE_DIR, git))
    if entry.modes_tree != NO_TREE:
        entries.append(TreeEntry(b"modes", MODE_DIR, entry.modes_tree))
    if cp.not_captured:
        rows = [row.to_dict() for row in cp.not_captured]
        entries.append(TreeEntry(b"not-captured.json", MODE_FILE, writer.add(BLOB, as_json(rows))))
    if entry.sealed:
        entries.append(TreeEntry(b"sealed", MODE_DIR, _write_sealed(entry.sealed, writer)))
    if cp.state:
        entries.append(TreeEntry(b"state", MODE_DIR, _write_state(cp.state, writer)))
    tree = writer.add(TREE, encode_tree(entries))
    subject = cp.name or f"{cp.kind} {cp.id}"
    message = f"{subject}\n\n{cp.description}".strip() or cp.id
    commit = writer.add(COMMIT, encode_commit(Commit(tree, message, entry.created_ns // 1_000_000_000)))
    return entry._replace(checkpoint=cp.replace(commit=commit.hex()))


def _write_before(before: State, writer: ObjectAdder) -> bytes:
    """Adds a tree that keeps the trees of another state from being removed."""
    entries = [TreeEntry(b"files", MODE_DIR, before.files)]
    if before.modes != NO_TREE:
        entries.append(TreeEntry(b"modes", MODE_DIR, before.modes))
    if before.sealed:
        entries.append(TreeEntry(b"sealed", MODE_DIR, _write_sealed(before.sealed, writer)))
    return writer.add(TREE, encode_tree(entries))


def _write_sealed(files: Sealed, writer: ObjectAdder) -> bytes:
    """Adds the tree of the ciphertexts, each at the path of its file."""
    below: dict[bytes, list[TreeEntry]] = {b"": []}
    for path, file in files.items():
        below.setdefault(parent_of(path), []).append(TreeEntry(path.rpartition(b"/")[2], MODE_FILE, file.oid))
        for above in ancestors(path):
            below.setdefault(above, [])
    for directory in sorted(below, key=lambda path: path.count(b"/"), reverse=True):
        if directory:
            tree = writer.add(TREE, encode_tree(below[directory]))
            below[parent_of(directory)].append(TreeEntry(directory.rpartition(b"/")[2], MODE_DIR, tree))
    return writer.add(TREE, encode_tree(below[b""]))


def _write_state(state: Mapping[str, Any], writer: ObjectAdder) -> bytes:
    """One file per key, so that an unchanged conversation is stored once; odd keys share one file."""
    plain = {key: value for key, value in state.items() if _is_file_name(key)}
    odd = {key: value for key, value in state.items() if key not in plain}
    entries = [
        TreeEntry(f"{key}.json".encode(), MODE_FILE, writer.add(BLOB, as_json(value))) for key, value in plain.items()
    ]
    if odd:
        entries.append(TreeEntry(b"+.json", MODE_FILE, writer.add(BLOB, as_json(odd))))
    return writer.add(TREE, encode_tree(entries))


def _is_file_name(key: str) -> bool:
    return (
        key.isascii()
        and key.replace("-", "").replace("_", "").isalnum()
        and len(key) < 200
        and not is_dot_git(key.encode())
    )


# -- from a scan to a checkpoint ----------------------------------------------------------------


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
