"""
A checkpoint as a commit.

The commit's tree holds `files/` (the workspace without secrets), `sealed/` (secrets, as ciphertext), `modes/` (permission
bits git cannot say), `state/` (one JSON file per key), `git/` (where the user's repository stood, with its index), `before/` (for an agent's step, the state it started
from), `not-captured.json` and `checkpoint.json` (everything the timeline knows of it). That is enough to rebuild the timeline from
the repository alone, and for a person with plain git to find their work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mulligan.errors import StoreDamaged
from mulligan.model.checkpoint import Checkpoint, NotCaptured
from mulligan.model.objects import (
    BLOB,
    COMMIT,
    MODE_DIR,
    MODE_FILE,
    TREE,
    Commit,
    TreeEntry,
    encode_commit,
    encode_tree,
)
from mulligan.model.paths import ancestors, is_dot_git, parent_of
from mulligan.scan.trees import Defaults
from mulligan.timeline.trees import State

if TYPE_CHECKING:
    from mulligan.model.checkpoint import Sealed

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


def _json(value: Any) -> bytes:
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
    record = writer.add(BLOB, _json(about))
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
        entries.append(TreeEntry(b"not-captured.json", MODE_FILE, writer.add(BLOB, _json(rows))))
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
        TreeEntry(f"{key}.json".encode(), MODE_FILE, writer.add(BLOB, _json(value))) for key, value in plain.items()
    ]
    if odd:
        entries.append(TreeEntry(b"+.json", MODE_FILE, writer.add(BLOB, _json(odd))))
    return writer.add(TREE, encode_tree(entries))


def _is_file_name(key: str) -> bool:
    return (
        key.isascii()
        and key.replace("-", "").replace("_", "").isalnum()
        and len(key) < 200
        and not is_dot_git(key.encode())
    )
