"""
Repairing a store.

Everything that can be derived is made again: indexes from packs, refs from the timeline, the timeline from the repository. No
data that can be read is deleted.
"""

from __future__ import annotations

from contextlib import closing, suppress

from mulligan.doctor import rebuild
from mulligan.doctor.check import compare_timeline, timeline_problems
from mulligan.errors import MulliganError, StoreDamaged, StoreError
from mulligan.model.objects import object_id
from mulligan.safefs.directory import Directory, random_name
from mulligan.safefs.errors import FULL, typed
from mulligan.safefs.lock import exclusive
from mulligan.scan import cache
from mulligan.store import layout, refs, repository
from mulligan.store.verify import (
    DAMAGED_INDEX,
    DAMAGED_PACK,
    LOST_INDEX,
    LOST_PACK,
    rebuild_index,
    retire,
    verify_packs,
)
from mulligan.timeline.commits import write_commit
from mulligan.timeline.database import NAME, Database
from mulligan.timeline.journal import read_journal
from mulligan.timeline.read_commits import read_commit
from mulligan.timeline.store import Store


def repair(store: Store) -> list[str]:
    """Repairs what keeps the store from being opened; returns a sentence for each repair."""
    store.close()
    try:
        with Directory.open(store.path) as directory, exclusive(directory, wait=store.settings.wait, purpose="doctor"):
            return _mend(store, directory)
    except OSError as error:
        if error.errno in FULL:
            raise typed(error) from error
        raise StoreError(
            f"The store {store.path} cannot be repaired: the system refused a step ({error.strerror}). What can be read still can be.",
            hint=f"Check the permissions of the store and the room on its disk: ls -la {store.path}",
        ) from error


def _mend(store: Store, directory: Directory) -> list[str]:
    done: list[str] = []
    missing = repository.missing_parts(directory)
    if missing:
        layout.create(directory, name=_store_id(store, directory))
        done.append(f"Made the missing parts of the repository: {', '.join(missing)}.")
    done += _mend_indexes(directory)
    if _is_damaged(store, directory):
        done.append(f"Put the damaged timeline aside as {rebuild.put_aside(directory)}.")
    if not directory.exists(NAME.encode()):
        done.append(rebuild.rebuild(store, directory))
    name, strange = _store_id(store, directory), [part for part, _ in layout.strange_parts(directory)]
    if name != repository.store_id(directory) and "config" not in strange:
        strange.append("config")
    if strange:
        layout.write_anew(directory, name=name, parts=strange)
        done.append(f"Wrote anew: {', '.join(strange)}.")
    cache.discard(directory)
    return done


def _store_id(store: Store, directory: Directory) -> str:
    """
    Returns the store's id: as the repository says, unless the timeline says another and is this repository's all the same.

    A timeline that was copied here has checkpoints of which this repository knows nothing; one damaged bit in the id of
    the repository's configuration changes none of them.
    """
    known = repository.store_id(directory)
    if directory.exists(NAME.encode()):
        with suppress(MulliganError), closing(Database(store.path, create=False, directory=directory)) as database:
            here = {(name, commit.hex()) for name, commit in refs.read_refs(directory).items()}
            there = {(row[0], row[1]) for row in database.rows("SELECT id, commit_id FROM checkpoint")}
            recorded = database.meta("store_id")
            if recorded and (known is None or there & here or not (there or here)):
                return recorded
    return known or random_name(16)


def _is_damaged(store: Store, directory: Directory) -> bool:
    """Whether there is a timeline that cannot be believed as a whole."""
    if not directory.exists(NAME.encode()):
        return False
    try:
        with closing(Database(store.path, create=False, directory=directory)) as database:
            if not database.meta("store_id") and refs.read_refs(directory):
                return True
            read_journal(database)
            return bool(timeline_problems(database))
    except StoreDamaged:
        return True


def _mend_indexes(directory: Directory) -> list[str]:
    with directory.descend(b"objects/pack") as packs:
        names = set(packs.names())
    halves = [name for name in sorted(names) if name.endswith(b".pack") and name[:-5] + b".idx" not in names]
    return [f"Rebuilt the index of {name.decode()}." for name in halves if rebuild_index(directory, name[:-5])]


def mend_damaged_indexes(store: Store) -> list[str]:
    """Rebuilds indexes that do not agree with their packs."""
    done = []
    for problem in verify_packs(store.objects):
        name = problem.subject.encode()
        if problem.kind == DAMAGED_INDEX and rebuild_index(
            store.directory, name.removesuffix(b".idx").removesuffix(b".pack")
        ):
            done.append(f"Rebuilt the index of {problem.subject}.")
    store.objects.refresh()
    return done


def derived_objects(store: Store) -> dict[bytes, tuple[bytes, bytes]]:
    """Returns the objects that can be made anew from the timeline, by id: commits and what they say of their checkpoints."""
    found = layout.permanent_objects()
    for entry in compare_timeline(store).entries:
        with suppress(MulliganError):  # state that was kept in the repository alone, and is damaged with it
            write_commit(entry, _ObjectCollector(found))
    return found


class _ObjectCollector:
    """Takes objects and keeps them in a dictionary."""

    def __init__(self, into: dict[bytes, tuple[bytes, bytes]]) -> None:
        self._into = into

    def add(self, kind: bytes, data: bytes, _inside: bytes = b"") -> bytes:
        """Takes an object and returns its id."""
        oid = object_id(kind, data)
        self._into[oid] = (kind, data)
        return oid


def retire_damaged(store: Store) -> list[str]:
    """Takes packs out of use that cannot be mended, after what can be read of them was copied; says so."""
    kinds = (DAMAGED_PACK, DAMAGED_INDEX, LOST_PACK, LOST_INDEX)
    stems = {
        problem.subject.rpartition(".")[0].encode() for problem in verify_packs(store.objects) if problem.kind in kinds
    }
    moved = retire(store.objects, stems) if stems else []
    return [f"Moved damaged files to objects/damaged: {', '.join(moved)}."] if moved else []


def mend_refs(store: Store) -> list[str]:
    """Makes the refs say what the timeline says; a ref the timeline does not know is taken into it."""
    have, entries = refs.read_refs(store.directory), store.checkpoints.oldest()
    want = {entry.id: entry.commit_id for entry in entries}
    bad = set(refs.bad_refs(store.directory))  # one that hides a packed one of its name is to be written too
    wrong = [name for name, commit in want.items() if have.get(name) != commit or name in bad]
    for name in wrong:
        refs.write_ref(store.directory, name, want[name])
    done = [f"Wrote {len(wrong)} refs anew."] if wrong else []
    found, misnamed = [], []
    for name in have.keys() - want.keys():
        try:
            entry = read_commit(store.objects, have[name])
        except MulliganError:
            continue  # not readable: it stays as it is, and check goes on naming it
        if entry.id == name:
            found.append(entry)
        elif want.get(entry.id) == have[name]:
            misnamed.append(name)  # its checkpoint is there under its own name
    if misnamed:
        refs.remove_refs(store.directory, misnamed)
        done.append(f"Removed {len(misnamed)} refs that stood for no checkpoint.")
    with store.database.transaction():
        for entry in rebuild.link(store.objects, rebuild.in_order(found), entries):
            store.checkpoints.add(entry)
    return done + ([f"Took {len(found)} checkpoints into the timeline that only the repository knew."] if found else [])
