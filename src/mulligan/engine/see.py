"""Looks at a workspace and its timeline: the log, one file, numbers, the state of protection. Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mulligan.engine.asked import with_contents
from mulligan.errors import UnknownPath, UserError
from mulligan.model.checkpoint import moment, sealed_rows
from mulligan.model.objects import BLOB, MODE_DIR
from mulligan.model.paths import parse_path, to_text
from mulligan.timeline.trees import Trees, changes_since, same_state, touches

if TYPE_CHECKING:
    from mulligan.engine.asked import Paths
    from mulligan.engine.workbench import Workbench
    from mulligan.history.blame import Blame
    from mulligan.history.report import Report
    from mulligan.history.search import SearchResult
    from mulligan.model.checkpoint import Checkpoint, NotCaptured
    from mulligan.model.diff import Diff
    from mulligan.model.event import RecordedEvent
    from mulligan.model.gitposition import GitPosition
    from mulligan.timeline.commits import Entry
    from mulligan.timeline.store import Store


def log(
    bench: Workbench,
    limit: int | None,
    kind: str | None,
    path: str | os.PathLike[str] | None,
    match: Mapping[str, Any] | None,
    bounds: dict[str, Any],
) -> list[Checkpoint]:
    """Returns the checkpoints that are asked for, newest first."""
    wanted = parse_path(path) if path is not None else None
    with bench.reading() as store:
        if store is None:
            return []
        everything = wanted is None and match is None and not bounds
        entries = store.checkpoints.newest(kind=kind, limit=limit if everything else None)
        if store.database.knows_remotes():
            from mulligan.remotes.pulled import with_pulled

            entries = with_pulled(store.checkpoints, store.database, entries, kind)
        if bounds:
            entries = _bounded(store, entries, bounds)
        if match is not None:
            entries = [entry for entry in entries if entry.checkpoint.has(match)]
        if wanted is not None:
            entries = [entry for entry in entries if touches(entry, wanted)]
        return [entry.checkpoint for entry in entries[:limit]]


def _bounded(store: Store, entries: list[Entry], bounds: dict[str, Any]) -> list[Entry]:
    from mulligan.history.filters import context_of, keeps_entry, parse_filters

    filters = parse_filters(**bounds)
    if filters is None:
        return entries
    known = context_of([*store.events.newest(), *_told_events(store)])
    return [entry for entry in entries if keeps_entry(filters, entry, known)]


def _told_events(store: Store) -> list[RecordedEvent]:
    """Returns what was told of agents on other machines."""
    if not store.database.knows_remotes():
        return []
    from mulligan.remotes.events import events_of
    from mulligan.remotes.pulled import names_of_machines

    database = store.database
    return [event for machine in names_of_machines(database) for event in events_of(database, machine)]


@with_contents
def diff(bench: Workbench, a: str | Checkpoint | None, b: str | Checkpoint | None, paths: Paths | None) -> Diff:
    """Returns what differs from `a` (default: the position) to `b` (default: the workspace)."""
    from mulligan.engine.asked import parse_paths
    from mulligan.timeline.differences import diff_entries, diff_files

    chosen = parse_paths(paths)
    with bench.needing() as store:
        start = store.resolve(a if a is not None else "@")
        if b is not None:
            return diff_entries(store.objects, start, store.resolve(b), chosen)
        look = bench.look(by_name=start.by_name)
        return diff_files(store.objects, start, look.scan, bench.settings.workspace, chosen)


@with_contents
def contents(bench: Workbench, ref: str | Checkpoint) -> Diff:
    """Returns everything that a checkpoint holds, as a difference from nothing."""
    from mulligan.timeline.differences import contents

    with bench.needing() as store:
        return contents(store, store.resolve(ref))


@with_contents
def holds(bench: Workbench, ref: str | Checkpoint, path: str) -> bool:
    """Returns whether a checkpoint holds a file, sealed or not, or a directory of this path."""
    with bench.needing() as store:
        entry, wanted = store.resolve(ref), parse_path(path)
        return wanted in entry.sealed or Trees(store.objects).lookup(entry.files_tree, wanted) is not None


@with_contents
def cat(bench: Workbench, ref: str | Checkpoint, path: str | os.PathLike[str], *, reveal: bool) -> bytes:
    """Returns the bytes of one file at a checkpoint; raises UnknownPath, and FileSealed for a secret unless told to reveal it."""
    wanted = parse_path(path)
    with bench.needing() as store:
        entry = store.resolve(ref)
        if wanted in entry.sealed:
            from mulligan.timeline.secrets import reveal_secret

            return reveal_secret(store, entry, wanted, reveal=reveal)
        found = Trees(store.objects).lookup(entry.files_tree, wanted)
        if found is None or found.mode == MODE_DIR:
            what = "is a directory in" if found is not None else "is not in"
            short = entry.checkpoint.short_id
            raise UnknownPath(f"{to_text(wanted)!r} {what} checkpoint {short}.", hint=f"mulligan show {short}")
        return store.objects.read(found.oid, BLOB)


def _remotes(store: Store | None) -> list[dict[str, Any]]:
    """Returns the remotes with how the last push to each ended; asks no server."""
    if store is None or not store.database.knows_remotes():
        return []
    from mulligan.remotes.records import RemoteRecords

    records = RemoteRecords(store)
    only = [entry.checkpoint.held_by for _, entry, _ in records.pulled().only_remote()]
    return [
        {
            "name": each.name,
            **records.last_push(each.name).to_dict(),
            **({"only_remote": only.count(each.name)} if each.name in only else {}),
        }
        for each in records.remotes()
    ]


def stats(bench: Workbench) -> dict[str, Any]:
    """Returns what the store holds and uses."""
    settings = bench.settings
    with bench.reading() as store:
        kinds = store.checkpoints.by_kind() if store is not None else {}
        return {
            "workspace": settings.workspace,
            "store": settings.store,
            "checkpoints": sum(kinds.values()),
            "by_kind": kinds,
            "bytes": store.used_bytes() if store is not None else 0,
            "budget": settings.retention.budget,
            "position": (store.checkpoints.position() or None) if store is not None else None,
        }


def changed_paths(bench: Workbench) -> int:
    """Returns how many paths differ from the position."""
    with bench.reading() as store:
        look = bench.look(with_git=False)
        base = store.checkpoints.current() if store is not None else None
        return len(changes_since(base, look.scan, look.source))


def not_captured(bench: Workbench, *, with_sealed: bool) -> list[NotCaptured]:
    """Returns what a save would leave out now, and why; `with_sealed`, what it would seal too."""
    with bench.reading():
        scan = bench.look(with_git=False).scan
    found = scan.not_captured()
    return found + sealed_rows(map(to_text, sorted(scan.sealed))) if with_sealed else found


def status(bench: Workbench) -> dict[str, Any]:
    """Returns the state of protection: what changed since the position, what is not captured, what is pending."""
    from mulligan.engine.agents import protection
    from mulligan.engine.remarks import pending

    with bench.reading() as store:
        found, missed = _scanned(bench, store)
    unfinished = pending(bench)
    if unfinished is not None:  # the temporaries of a restore that has not ended go when it does
        staged = f".mulligan-{unfinished['token']}-"
        missed = [row for row in missed if not row.path.rpartition("/")[2].startswith(staged)]
    rows = [row.to_dict() for row in missed]
    return {**stats(bench), **found, "not_captured": rows, "pending": unfinished, **protection(bench)}


def _scanned(bench: Workbench, store: Store | None) -> tuple[dict[str, Any], list[NotCaptured]]:
    """Returns what changed since the position, whether all of it can be saved, and what a save would leave out."""
    from mulligan.engine.watching import watcher_state
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
        "watcher": watcher_state(bench),
        "remotes": _remotes(store),
        "warnings": [
            *bench.settings.warnings,
            *all_stores.warnings(bench.settings, replaced=replaced, gone=bench.root.is_gone(), files=scan.files),
        ],
    }
    return document, scan.not_captured()


def git_position(bench: Workbench) -> GitPosition | None:
    """Returns where the user's own repository stands, None where there is none."""
    from mulligan.restore.git import where_git_stands

    with bench.mutex:
        record = where_git_stands(bench.settings)
    return record.position if record is not None else None


# -- questions about history: the answers are made in `history` -----------------------------------


def blame(bench: Workbench, path: str | os.PathLike[str]) -> Blame:
    """Returns which prompt, tool call, agent or person wrote each line of a file as it is now."""
    from mulligan.history.blame import blame

    with bench.needing() as store:
        return blame(store, bench.settings.workspace, parse_path(path))


def search(bench: Workbench, text: str, *, changes: bool, bounds: dict[str, Any]) -> SearchResult:
    """Returns where a text is; with `changes`, the steps in which it appeared in a file or disappeared from one."""
    from mulligan.history.search import search

    if not text:
        raise UserError("There is no text to search for.")
    with bench.needing() as store:
        return search(store, text, changes=changes, bounds=bounds, progress=bench.counted("searching"))


def report(bench: Workbench, session: str | None) -> Report:
    """Returns what agents did, every path that changed and what was not saved; of a session, or of all that is kept."""
    from mulligan.engine.agents import own_story
    from mulligan.history.report import make_report

    with bench.needing() as store:
        name = store.events.session(session) if session is not None else None
        chapters = own_story(store, name)[::-1]
        return make_report(store, bench.settings.workspace, chapters, name, moment(bench.now_ns()))
