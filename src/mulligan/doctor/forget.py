"""
Forgetting a path: out of every checkpoint, provably.

Each checkpoint that holds the path gets a new commit without it, and says instead that the path is not captured, so that a
later restore leaves the file on disk alone. Then the old objects are dropped and their absence is checked in every pack.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from mulligan.errors import StoreDamaged, UnknownPath
from mulligan.model.checkpoint import EXCLUDED, Checkpoint, NotCaptured, pack_list
from mulligan.model.objects import BLOB, MODE_DIR, TREE, TreeEntry, encode_tree
from mulligan.model.paths import covers, join, to_text
from mulligan.remotes.pulled import note_forgotten, pulled_checkpoints
from mulligan.scan import cache
from mulligan.scan.trees import NONE
from mulligan.timeline.commits import Entry, write_commit
from mulligan.timeline.pruning import prune
from mulligan.timeline.read_commits import record_tree
from mulligan.timeline.store import Store
from mulligan.timeline.trees import ObjectReader, Trees

_DETAIL = "forgotten at the user's request"


@dataclass(frozen=True)
class ForgetReport:
    """What forgetting a path did: the checkpoints rewritten, the bytes freed, and where else the same bytes remain."""

    path: str
    checkpoints: list[str] = field(default_factory=list)
    freed_bytes: int = 0
    also_at: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "path": self.path,
            "checkpoints": self.checkpoints,
            "freed_bytes": self.freed_bytes,
            "also_at": self.also_at,
        }


def forget(store: Store, path: bytes) -> ForgetReport:
    """Removes a path from every checkpoint and proves that its bytes are gone."""
    holders = [entry for entry in store.checkpoints.oldest() if holds(store.objects, entry, path)]
    own, copies = len(holders), pulled_checkpoints(store)
    holders += [entry for entry in copies.here() if holds(store.objects, entry, path)] if copies else []
    elsewhere = copies is not None and copies.may_be_remote(path)
    if not holders and not elsewhere and not _was_cut_short(store, path):
        raise UnknownPath(f"No checkpoint holds {to_text(path)!r}. Nothing was changed.", hint="mulligan log -- PATH")
    wanted = bytes_of(store.objects, holders, path)
    with store.objects.writer() as writer:
        rewritten = [without(entry, path, store.objects, writer) for entry in holders]
        writer.finish()
    with store.database.transaction():
        for entry in rewritten[:own]:
            store.checkpoints.replace_commit(entry)
        if copies:
            note_forgotten(store.database, to_text(path))
            for entry in rewritten[own:]:
                copies.put(copies.machine_of(entry), entry)
            copies.forget_remote(path)
    store.settle_refs()
    cache.discard(store.directory)
    freed = prune(store)
    also = _elsewhere(store, wanted)
    left = [oid for oid in wanted if store.objects.has(oid) and oid not in also]
    if left:
        raise StoreDamaged(f"{len(left)} objects of {to_text(path)!r} could not be removed.", hint="mulligan check")
    return ForgetReport(to_text(path), [entry.id for entry in rewritten[:own]], freed, sorted(set(also.values())))


def holds(reader: ObjectReader, entry: Entry, path: bytes) -> bool:
    """Returns whether a checkpoint holds a path, sealed or not, or something below it."""
    return any(Trees(reader).lookup(tree, path) for tree in _trees(entry)) or bool(_sealed_below(entry, path))


def bytes_of(reader: ObjectReader, entries: Collection[Entry], path: bytes) -> set[bytes]:
    """Returns the objects that hold what a path had in some checkpoints; nothing is read of them."""
    found = {oid for e in entries for tree in _trees(e) for _, oid in _blobs(Trees(reader), tree, path)}
    return found | {oid for entry in entries for oid in _sealed_below(entry, path)}


def _was_cut_short(store: Store, path: bytes) -> bool:
    """Whether a path was forgotten already, perhaps by a process that died before it had freed the bytes."""
    text = to_text(path)
    entries = store.checkpoints.oldest()
    return any(row.path == text and row.detail == _DETAIL for entry in entries for row in entry.checkpoint.not_captured)


def _trees(entry: Entry) -> list[bytes]:
    """Returns the trees of files that a checkpoint keeps: its own, and that of the state it changed."""
    before = entry.before
    return [entry.files_tree] if before is None else [entry.files_tree, before.files]


def _blobs(trees: Trees, tree: bytes, path: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields each file at a path or below it: its path and its object."""
    found = trees.lookup(tree, path)
    if found is not None and found.mode != MODE_DIR:
        yield path, found.oid
    elif found is not None:
        yield from ((join(path, at), each.oid) for at, each in trees.walk(found.oid) if each.mode != MODE_DIR)


def without(entry: Entry, path: bytes, reader: ObjectReader, writer: Any) -> Entry:
    """Returns a checkpoint without one path, and adds the objects that are new for it."""
    cp, text = entry.checkpoint, to_text(path)
    rows = [[m.path, m.reason, m.detail] for m in cp.not_captured if not covers(path, os.fsencode(m.path))]
    rows.append([text, EXCLUDED, _DETAIL])
    changed = [name for name in cp.files_changed if not covers(path, os.fsencode(name))]
    git = cp.git
    if git is not None:
        git = git._replace(dirty_files=tuple(name for name in git.dirty_files if not covers(path, os.fsencode(name))))
    state, missed = cp.state, pack_list(sorted(rows))
    checkpoint = cp.replace(
        git=git,
        packed_changes=pack_list(changed),
        not_captured_source=lambda: missed,
        state_source=lambda: state,
        plain_secrets=_without_secrets(cp, path),
    )
    names = path.split(b"/")
    before = entry.before
    if before is not None:
        files, bits = _cut(before.files, names, reader, writer), _cut_modes(before.modes, names, reader, writer)
        unseen = (*entry.unseen_before, NotCaptured(text, EXCLUDED, _DETAIL))
        sealed = {p: file for p, file in before.sealed.items() if not covers(path, p)}
        entry = entry.with_before(before._replace(files=files, modes=bits, sealed=sealed), unseen)
        checkpoint = checkpoint.replace(metadata=entry.checkpoint.metadata)
    tree = _cut(entry.files_tree, names, reader, writer)
    modes = _cut_modes(entry.modes_tree, names, reader, writer)
    # The record of where git stood stays: it holds names and hashes of what was staged, and no file's bytes.
    record = record_tree(reader, entry.commit_id)
    return write_commit(entry._replace(checkpoint=checkpoint, files_tree=tree, modes_tree=modes), writer, record)


def _sealed_below(entry: Entry, path: bytes) -> list[bytes]:
    """Returns the ciphertexts of the secrets that a checkpoint holds at a path or below it."""
    states = [entry.sealed, *([entry.before.sealed] if entry.before is not None else [])]
    return [file.oid for sealed in states for secret, file in sealed.items() if covers(path, secret)]


def _without_secrets(checkpoint: Checkpoint, path: bytes) -> dict[str, Any] | None:
    secrets = checkpoint.secrets
    if secrets is None:
        return None
    return secrets._replace(files={p: file for p, file in secrets.files.items() if not covers(path, p)}).to_plain()


def _cut(tree: bytes, names: list[bytes], reader: ObjectReader, writer: Any) -> bytes:
    """Returns a tree without one path; a directory emptied by it stays, as it does on disk."""
    if Trees(reader).lookup(tree, b"/".join(names)) is None:
        return tree
    levels = []
    for name in names:  # down, and up again: a path may be deeper than Python recurses
        levels.append((name, [entry for entry in reader.read_tree(tree) if entry.name != name]))
        tree = next((entry.oid for entry in reader.read_tree(tree) if entry.name == name), b"")
    made = b""
    for name, kept in reversed(levels):
        made = writer.add(TREE, encode_tree([*kept, TreeEntry(name, MODE_DIR, made)] if made else kept))
    return made


def _cut_modes(tree: bytes, names: list[bytes], reader: ObjectReader, writer: Any) -> bytes:
    """Returns a tree of permission bits that does not know one path, nor what is below it; NONE when nothing is left."""
    levels = []
    for name in names:
        parts = {entry.name: entry for entry in reader.read_tree(tree)} if tree != NONE else {}
        below = reader.read_tree(parts[b"d"].oid) if b"d" in parts else []
        levels.append((name, parts.get(b"f"), below))
        tree = next((entry.oid for entry in below if entry.name == name), NONE)
    made, innermost = NONE, True
    for name, listed, below in reversed(levels):
        odd = listed
        if innermost and odd is not None:
            rows = [row for row in reader.read(odd.oid, BLOB).split(b"\0") if row.partition(b" ")[2] != name]
            odd = odd._replace(oid=writer.add(BLOB, b"\0".join(rows))) if rows else None
        kept = [entry for entry in below if entry.name != name]
        kept += [TreeEntry(name, MODE_DIR, made)] if made != NONE else []
        entries = [odd] if odd is not None else []
        entries += [TreeEntry(b"d", MODE_DIR, writer.add(TREE, encode_tree(kept)))] if kept else []
        made, innermost = writer.add(TREE, encode_tree(entries)) if entries else NONE, False
    return made


def _elsewhere(store: Store, wanted: set[bytes]) -> dict[bytes, str]:
    """Returns where else the same bytes are captured: those objects have a right to stay."""
    if not any(store.objects.has(oid) for oid in wanted):
        return {}
    found: dict[bytes, str] = {}
    copies = pulled_checkpoints(store)
    entries = [*store.checkpoints.oldest(), *(copies.here() if copies else ())]
    for tree in {tree for entry in entries for tree in _trees(entry)}:
        for path, oid in _blobs(Trees(store.objects), tree, b""):
            if oid in wanted:
                found[oid] = to_text(path)
    for entry in entries:
        found |= {file.oid: to_text(path) for path, file in entry.sealed.items() if file.oid in wanted}
    return found
