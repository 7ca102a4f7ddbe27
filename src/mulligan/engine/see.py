"""Looking at a workspace and its timeline: the log, one file, numbers, the state of protection. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.errors import UnknownPath
from mulligan.model.objects import BLOB, MODE_DIR
from mulligan.model.paths import to_text
from mulligan.timeline import budget
from mulligan.timeline.trees import Trees, changes_since, same_state, touches

if TYPE_CHECKING:
    from mulligan.engine.save import Workbench
    from mulligan.model.checkpoint import Checkpoint, NotCaptured
    from mulligan.model.policy import Settings
    from mulligan.timeline.commits import Entry
    from mulligan.timeline.store import Store


def log(
    store: Store,
    limit: int | None,
    kind: str | None,
    path: bytes | None,
    match: Mapping[str, Any] | None,
    bounds: dict[str, Any],
) -> list[Checkpoint]:
    """Returns the checkpoints that are asked for, newest first."""
    everything = path is None and match is None and not bounds
    entries = store.checkpoints.newest(kind=kind, limit=limit if everything else None)
    if store.database.knows_remotes():
        from mulligan.remotes.pulled import with_pulled

        entries = with_pulled(store.checkpoints, store.database, entries, kind)
    if bounds:
        entries = _bounded(store, entries, bounds)
    if match is not None:
        entries = [entry for entry in entries if entry.checkpoint.has(match)]
    if path is not None:
        entries = [entry for entry in entries if touches(entry, path)]
    return [entry.checkpoint for entry in entries[:limit]]


def _bounded(store: Store, entries: list[Entry], bounds: dict[str, Any]) -> list[Entry]:
    from mulligan.history.filters import context_of, keeps_entry, parse_filters

    filters = parse_filters(**bounds)
    if filters is None:
        return entries
    known = context_of(store.events.newest())
    return [entry for entry in entries if keeps_entry(filters, entry, known)]


def cat(store: Store, entry: Entry, path: bytes, *, reveal: bool) -> bytes:
    """Returns the bytes of one file at a checkpoint; raises UnknownPath, and FileSealed for a secret unless told to reveal it."""
    if path in entry.sealed:
        from mulligan.timeline.secrets import reveal_secret

        return reveal_secret(store, entry, path, reveal=reveal)
    found = Trees(store.objects).lookup(entry.files_tree, path)
    if found is None or found.mode == MODE_DIR:
        what = "is a directory in" if found is not None else "is not in"
        short = entry.checkpoint.short_id
        raise UnknownPath(f"{to_text(path)!r} {what} checkpoint {short}.", hint=f"mulligan show {short}")
    return store.objects.read(found.oid, BLOB)


def stats(settings: Settings, store: Store | None) -> dict[str, Any]:
    """Returns what the store holds and uses."""
    kinds = store.checkpoints.by_kind() if store is not None else {}
    return {
        "workspace": settings.workspace,
        "store": settings.store,
        "checkpoints": sum(kinds.values()),
        "by_kind": kinds,
        "bytes": budget.used_bytes(store) if store is not None else 0,
        "budget": settings.retention.budget,
        "position": (store.checkpoints.position() or None) if store is not None else None,
    }


def remotes(store: Store | None) -> list[dict[str, Any]]:
    """Returns the remotes with how the last push to each ended; asks no server."""
    if store is None or not store.database.knows_remotes():
        return []
    from mulligan.remotes.records import RemoteRecords

    records = RemoteRecords(store)
    return [{"name": each.name, **records.last_push(each.name).to_dict()} for each in records.remotes()]


class Status(NamedTuple):
    """What a scan says of the workspace, and what a save would leave out."""

    document: dict[str, Any]
    missed: list[NotCaptured]


def changed_paths(bench: Workbench, store: Store | None) -> int:
    """Returns how many paths differ from the position."""
    look = bench.look(with_git=False)
    base = store.checkpoints.current() if store is not None else None
    return len(changes_since(base, look.scan, look.source))


def status(bench: Workbench, store: Store | None) -> Status:
    """Returns what changed since the position, and whether all of it can be saved."""
    from mulligan.timeline import stores as all_stores

    look = bench.look()
    scan = look.scan
    base = store.checkpoints.current() if store is not None else None
    changes = changes_since(base, scan, look.source)
    same = base is None or same_state(base, scan)
    replaced = store.is_replaced() if store is not None else False
    document = {
        "files": scan.files + len(scan.sealed),
        "unsaved": {
            "added": sum(c.old is None for c in changes),
            "modified": sum(c.old is not None and c.new is not None for c in changes),
            "deleted": sum(c.new is None for c in changes),
        },
        "only_directories": not changes and not same and scan.complete,
        "complete": scan.complete,
        "git": look.git.to_dict() if look.git else None,
        "watcher": bench.watcher_state(),
        "remotes": remotes(store),
        "warnings": [
            *bench.settings.warnings,
            *all_stores.warnings(bench.settings, replaced=replaced, gone=bench.root.is_gone(), files=scan.files),
        ],
    }
    return Status(document, scan.not_captured())
