"""Saves the workspace as a checkpoint. Every other verb writes its checkpoints by `keep` or `write`, under the store's lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from mulligan.engine.workbench import Workbench
from mulligan.errors import UserError
from mulligan.model.checkpoint import KINDS, Checkpoint, as_json_object
from mulligan.safefs.directory import random_name
from mulligan.safefs.room import naming_need
from mulligan.store.objects import MANY_PACKS
from mulligan.timeline.commits import (
    BY_NAME,
    HELD,
    CheckpointDraft,
    Entry,
    draft_entry,
    finish_objects,
    record_checkpoint,
    with_state_before,
    write_objects,
)
from mulligan.timeline.trees import WorkspaceView, paths_since, same_state

if TYPE_CHECKING:
    from mulligan.scan.trees import Scan
    from mulligan.timeline.store import Store

# With a watcher, which joins packs when idle. More packs than this slow down the start of every command.
_TOO_MANY_PACKS = 256


def save(
    bench: Workbench,
    name: str | None,
    description: str,
    kind: str,
    parts: Mapping[str, Mapping[str, Any] | None],
    *,
    if_changed: bool,
    git: bool,
) -> Checkpoint | None:
    """Saves the whole workspace with some `parts` (context, state, metadata); None when only changes were asked for."""
    refuse_unknown_kind(kind)
    given = {part: as_json_object(value, part) for part, value in parts.items()}
    with bench.writing("save", create=True) as store:
        _refuse_name(bench, store, name or "")
        given["state"] = {**bench.capture_state(), **given["state"]}
        draft = make_draft(bench, name or "", description, kind, **given)
        if git:
            from mulligan.restore.git import to_record

            record, problem = to_record(bench.settings)
            draft = draft._replace(git=record, git_problem=problem)
        saved = save_draft(bench, draft, if_changed=if_changed, with_state=bool(draft.state))
    return tell_saved(bench, *saved)


def refuse_unknown_kind(kind: str) -> None:
    """Raises UserError for a kind of checkpoint that there is not."""
    if kind not in KINDS:
        raise UserError(f"There is no kind {kind!r}; there are {', '.join(KINDS)}. Nothing was saved.")


def _refuse_name(bench: Workbench, store: Store, name: str) -> None:
    if name and store.checkpoints.is_reserved(name):
        raise UserError(f"{name!r} is a reserved word. Nothing was saved.", hint="Choose another name.")
    if bench.settings.append_only and name and store.checkpoints.is_prefix(name):
        # A name is found before an id prefix: in append-only mode a new name must not hide an older checkpoint.
        raise UserError(f"An earlier checkpoint's id begins with {name!r}. Nothing was saved: choose another name.")


def make_draft(bench: Workbench, name: str, description: str, kind: str, **parts: Any) -> CheckpointDraft:
    """Returns the beginning of a new checkpoint."""
    if not isinstance(name, str) or not isinstance(description, str):
        raise TypeError("name and description are text")
    return CheckpointDraft(random_name(8), bench.now_ns(), name, description, kind, **parts)


def tell_saved(bench: Workbench, entry: Entry | None, gone: list[Entry]) -> Checkpoint | None:
    """Notifies handlers of a checkpoint, if there is one, and of those that went for it; returns it."""
    if entry is None:
        return None
    bench.emit("saved", entry.checkpoint)
    if not entry.checkpoint.complete:
        bench.emit("partial", entry.checkpoint)
    for old in gone:
        bench.emit("pruned", old.checkpoint)
    return entry.checkpoint


def save_draft(
    bench: Workbench,
    draft: CheckpointDraft,
    *,
    if_changed: bool,
    with_state: bool,
    also: Callable[[], None] | None = None,
    finish: Callable[[CheckpointDraft, WorkspaceView], CheckpointDraft] | None = None,
) -> tuple[Entry | None, list[Entry]]:
    """Saves the workspace and makes that the position; returns the new entry (None: nothing changed) and what went."""
    bench.root.refuse_gone()
    store = bench.store
    with store.objects.writer() as writer:
        look, base = bench.look(writer), store.checkpoints.current()
        more_changed = with_state and base is not None and base.checkpoint.state != draft.state
        if draft.git is not None and base is not None:
            from mulligan.engine.git import is_recorded

            more_changed = more_changed or not is_recorded(store, base, draft.git)
        if if_changed and not more_changed and same_state(base, look.scan):
            # The same trees, so every object is there: what was too young to be trusted last time can be now.
            bench.scanner.confirm(store.directory, look.scan, look.note)
            return None, []
        return keep(bench, finish(draft, look) if finish else draft, look, writer, as_position=True, also=also)


def keep(
    bench: Workbench,
    draft: CheckpointDraft,
    look: WorkspaceView,
    writer: Any,
    *,
    as_position: bool,
    sparing: str = "",
    also: Callable[[], None] | None = None,
) -> tuple[Entry, list[Entry]]:
    """Writes a checkpoint of what was seen; returns it and what retention or the budget removed for it, never `sparing`."""
    entry, gone = write(bench, draft, look, writer, as_position=as_position, sparing=sparing, also=also)
    store = bench.store
    bench.scanner.remember(store.directory, look.scan, look.note)
    if store.objects.pack_count() > (_TOO_MANY_PACKS if bench.watched else MANY_PACKS):
        bench.tidier.join()
    return entry, gone


def write(
    bench: Workbench,
    draft: CheckpointDraft,
    look: WorkspaceView,
    writer: Any,
    *,
    as_position: bool = False,
    sparing: str = "",
    also: Callable[[], None] | None = None,
) -> tuple[Entry, list[Entry]]:
    """Writes a checkpoint of what was seen, and remembers nothing of the workspace; returns it and what went for it."""
    store, scan, base = bench.store, look.scan, bench.store.checkpoints.current()
    changed = paths_since(base, scan, look.source)
    if bench.settings.append_only and bench.settings.retention.limit(draft.kind) is not None:
        # Restore after restore would push out the oldest, and with it what a person had not saved yet.
        draft = draft._replace(metadata={**draft.metadata, HELD: True})
    if look.by_name:
        draft = draft._replace(metadata={**draft.metadata, BY_NAME: list(look.by_name)})
    drafted = with_state_before(draft_entry(draft, scan, look.git, base, changed), base)
    entry = write_objects(drafted, scan, writer, draft.git)
    pinned = partial(pinned_ids, store, sparing)
    gone = _make_room(bench, writer.pending_bytes, pinned, scan)
    with naming_need("This checkpoint", writer.pending_bytes, store.directory):
        finish_objects(entry, writer)
    gone += record_checkpoint(store, entry, now_ns=bench.now_ns(), pinned=pinned, as_position=as_position, also=also)
    return entry, gone


def _make_room(bench: Workbench, need: int, pinned: Callable[[], set[str]], scan: Scan) -> list[Entry]:
    store = bench.store
    if store.has_room(need):
        return []
    from mulligan.timeline.pruning import make_room
    from mulligan.timeline.retention import is_fresh_safety

    reused = [scan.cache.root_tree] if scan.cache.root_tree else []
    gone = make_room(store, need, pinned=pinned() | store.needed(), extra=reused)
    bench.evicted += [entry for entry in gone if is_fresh_safety(entry, bench.now_ns())]
    return gone


def pinned_ids(store: Store, *also: str) -> set[str]:
    """Returns the checkpoints that a guard holds. Read each time: a pin is written without the store's lock."""
    return {*also, *(row["id"] for row in store.database.select("pin"))}


def keep_now(bench: Workbench, about: str) -> str:
    """Saves what is there now, files and state, as a safety checkpoint; returns its id."""
    with bench.store.objects.writer() as writer:
        draft = make_draft(bench, "", about, "safety", state=bench.capture_state())
        return keep(bench, draft, bench.look(writer), writer, as_position=False)[0].id
