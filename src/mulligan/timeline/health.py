"""
Is the store whole? And if not, what can be made whole again.

`check` reads everything and changes nothing. `mend` rebuilds what can be derived: indexes from packs, refs from the
timeline, the timeline from the repository. It never deletes data that can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from mulligan.errors import MulliganError, StoreDamaged, StoreError
from mulligan.model.objects import BLOB, COMMIT, EMPTY_TREE, TREE, parse_commit
from mulligan.safefs.directory import Directory, random_name
from mulligan.safefs.lock import exclusive
from mulligan.scan import cache
from mulligan.store import refs, repository
from mulligan.store.objects import ObjectStore
from mulligan.store.verify import DAMAGED_INDEX, rebuild_index, verify_packs
from mulligan.timeline.commits import Entry, read_commit
from mulligan.timeline.database import NAME, Database
from mulligan.timeline.moves import Move
from mulligan.timeline.saving import pack_changes
from mulligan.timeline.sources import Source
from mulligan.timeline.vault import Vault

_ASIDE = b"timeline.db.damaged-%d"
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, and the checkpoints it touches."""

    kind: str
    subject: str
    detail: str
    checkpoints: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "kind": self.kind,
            "subject": self.subject,
            "detail": self.detail,
            "checkpoints": list(self.checkpoints),
        }


@dataclass(frozen=True)
class CheckReport:
    """The result of a check."""

    problems: tuple[Finding, ...] = ()
    objects: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {"ok": self.ok, "problems": [problem.to_dict() for problem in self.problems], "objects": self.objects}


@dataclass(frozen=True)
class DoctorReport:
    """What was mended, and what is still wrong."""

    problems: tuple[Finding, ...] = ()
    repaired: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong any more."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {"ok": self.ok, "problems": [problem.to_dict() for problem in self.problems], "repaired": self.repaired}


def check(vault: Vault, progress: Progress | None = None) -> CheckReport:
    """Reads every byte of the store and returns what is wrong with it."""
    database = vault.database
    found = [Finding("timeline", NAME, text) for text in database.integrity()]
    bad: set[bytes] = set()
    for problem in verify_packs(vault.objects, progress=progress):
        bad |= problem.oids
        found.append(Finding(problem.kind, problem.subject, problem.detail))
    found = [_touching(vault, finding, bad) if finding.kind != "timeline" else finding for finding in found]
    entries = vault.checkpoints.oldest()
    for entry in entries:
        missing = _missing(vault.objects, entry)
        if missing:
            found.append(Finding("checkpoint", entry.id, missing, (entry.id,)))
    found += _refs(vault, entries)
    return CheckReport(tuple(found), sum(len(pack.index.oids()) for pack in vault.objects.packs()))


def _touching(vault: Vault, finding: Finding, bad: set[bytes]) -> Finding:
    touched = tuple(e.id for e in vault.checkpoints.oldest() if bad and _uses(vault.objects, e, bad))
    return Finding(finding.kind, finding.subject, finding.detail, touched)


def _closure(store: ObjectStore, entry: Entry) -> Iterable[tuple[bytes, bytes]]:
    """Yields every object of a checkpoint with its kind; raises StoreDamaged where a tree cannot be read."""
    yield COMMIT, entry.commit_id
    pending, seen = [parse_commit(store.read(entry.commit_id, COMMIT)).tree], set()
    while pending:
        oid = pending.pop()
        if oid in seen or oid == EMPTY_TREE:
            continue
        seen.add(oid)
        yield TREE, oid
        for below in store.read_tree(oid):
            if below.mode == 0o40000:
                pending.append(below.oid)
            elif below.oid not in seen:
                seen.add(below.oid)
                yield BLOB, below.oid


def _missing(store: ObjectStore, entry: Entry) -> str:
    try:
        gone = [oid for _, oid in _closure(store, entry) if not store.has(oid)]
    except MulliganError as error:
        return error.message
    return f"{len(gone)} of its objects are missing" if gone else ""


def _uses(store: ObjectStore, entry: Entry, bad: set[bytes]) -> bool:
    try:
        return any(oid in bad for _, oid in _closure(store, entry))
    except MulliganError:
        return True


def _refs(vault: Vault, entries: list[Entry]) -> list[Finding]:
    have = refs.read_refs(vault.directory)
    want = {entry.id: entry.commit_id for entry in entries}
    found = [Finding("ref", name, "its ref is missing", (name,)) for name in want.keys() - have.keys()]
    found += [
        Finding("ref", name, "its ref names another commit", (name,))
        for name in want.keys() & have.keys()
        if want[name] != have[name]
    ]
    found += [Finding("ref", name, "no checkpoint of the timeline has this ref") for name in have.keys() - want.keys()]
    return found + [Finding("ref", name, "it holds no commit id") for name in refs.bad_refs(vault.directory)]


# -- mending ----------------------------------------------------------------------------------------


def repair(vault: Vault) -> list[str]:
    """Repairs what keeps the store from being opened; returns a sentence for each repair."""
    vault.close()
    try:
        with Directory.open(vault.path) as directory, exclusive(directory, wait=vault.settings.wait, purpose="doctor"):
            return _mend(vault, directory)
    except OSError as error:
        raise StoreError(
            f"The store {vault.path} cannot be repaired: the system refused a step ({error.strerror}). What can be read still can be.",
            hint=f"Check the permissions of the store and the room on its disk: ls -la {vault.path}",
        ) from error


def lost_objects(vault: Vault) -> set[bytes]:
    """Returns the objects that some checkpoint needs and no pack can give."""
    lost: set[bytes] = set()
    for problem in verify_packs(vault.objects):
        lost |= problem.oids
    for entry in vault.checkpoints.oldest():
        try:
            lost |= {oid for _, oid in _closure(vault.objects, entry) if not vault.objects.has(oid)}
        except MulliganError:
            continue  # its trees are among the damaged; check names them
    return lost


def _mend(vault: Vault, directory: Directory) -> list[str]:
    done: list[str] = []
    missing = repository.missing_parts(directory)
    if missing:
        repository.create(directory, store_id=repository.store_id(directory) or random_name(16))
        done.append(f"Made the missing parts of the repository: {', '.join(missing)}.")
    done += _mend_indexes(directory)
    if aside := _set_aside_unreadable(vault, directory):
        done.append(f"Put the unreadable timeline aside as {aside}.")
    if not directory.exists(NAME.encode()):
        done.append(_rebuild_timeline(vault, directory))
    cache.discard(directory)
    return done


def _set_aside_unreadable(vault: Vault, directory: Directory) -> str:
    """Renames a timeline that SQLite cannot read, so that a new one can be built; returns the name under which it is kept."""
    if not directory.exists(NAME.encode()):
        return ""
    try:
        database = Database(vault.path, create=False, directory=directory)
        damaged = bool(database.integrity()) or (not database.meta("store_id") and bool(refs.read_refs(directory)))
        database.close()
    except StoreDamaged:
        damaged = True
    if not damaged:
        return ""
    number = next(number for number in count(1) if not directory.exists(_ASIDE % number))
    for ending in (b"-wal", b"-shm", b""):  # the timeline itself last: while it is there, the next doctor begins again
        if directory.exists(NAME.encode() + ending):
            directory.rename(NAME.encode() + ending, _ASIDE % number + ending)
    return (_ASIDE % number).decode()


def _mend_indexes(directory: Directory) -> list[str]:
    with directory.descend(b"objects/pack") as packs:
        names = set(packs.names())
    halves = [name for name in sorted(names) if name.endswith(b".pack") and name[:-5] + b".idx" not in names]
    return [f"Rebuilt the index of {name.decode()}." for name in halves if rebuild_index(directory, name[:-5])]


def mend_damaged_indexes(vault: Vault) -> list[str]:
    """Rebuilds indexes that do not agree with their packs."""
    done = []
    for problem in verify_packs(vault.objects):
        name = problem.subject.encode()
        if problem.kind == DAMAGED_INDEX and rebuild_index(
            vault.directory, name.removesuffix(b".idx").removesuffix(b".pack")
        ):
            done.append(f"Rebuilt the index of {problem.subject}.")
    vault.objects.refresh()
    return done


def mend_refs(vault: Vault) -> list[str]:
    """Makes the refs say what the timeline says; a ref the timeline does not know is taken into it."""
    have, entries = refs.read_refs(vault.directory), vault.checkpoints.oldest()
    want = {entry.id: entry.commit_id for entry in entries}
    wrong = [name for name, commit in want.items() if have.get(name) != commit]
    for name in wrong:
        refs.write_ref(vault.directory, name, want[name])
    done = [f"Wrote {len(wrong)} refs anew."] if wrong else []
    found = []
    for name in have.keys() - want.keys():
        try:
            found.append(read_commit(vault.objects, have[name]))
        except MulliganError:
            continue  # not readable: it stays as it is, and check goes on naming it
    with vault.database.transaction():
        for entry in _linked(vault.objects, found, entries):
            vault.checkpoints.add(entry)
    return done + ([f"Took {len(found)} checkpoints into the timeline that only the repository knew."] if found else [])


def _rebuild_timeline(vault: Vault, directory: Directory) -> str:
    for leftover in (b"timeline.db-wal", b"timeline.db-shm"):
        directory.unlink(leftover, missing_ok=True)  # they belong to the database that is gone
    database = Database(vault.path, create=True, directory=directory)
    with closing(ObjectStore(directory)) as store:
        try:
            entries = _linked(store, _all_entries(store, directory))
        except BaseException:
            database.close()
            raise
        vault.take_over(directory, database)
        with database.transaction():
            vault.introduce()
            for entry in entries:
                vault.checkpoints.add(entry)
                vault.moves.push(Move(entry.id))
            for entry in [entry for entry in entries if entry.checkpoint.kind != "safety"][-1:] or entries[-1:]:
                vault.checkpoints.set_position(entry.id)
    return f"Rebuilt the timeline from the repository: {len(entries)} checkpoints."


def _all_entries(store: ObjectStore, directory: Directory) -> list[Entry]:
    """Returns every checkpoint that some ref names and that can be read."""
    entries = []
    for name, commit in refs.read_refs(directory).items():
        try:
            entries.append(read_commit(store, commit))
        except StoreDamaged:
            continue  # named by the check that follows
        except MulliganError as error:
            raise StoreDamaged(
                f"Checkpoint {name} cannot be trusted: {error.message}", hint="mulligan check"
            ) from error
    return entries


def _linked(store: ObjectStore, found: list[Entry], before: Sequence[Entry] = ()) -> list[Entry]:
    """
    Returns entries as the timeline had them: in order, each with its parent and what it changed against it.

    A commit names the parent that it was saved from. Where that was deleted since, the one saved last before stands in.
    """
    known = {entry.id: entry for entry in before}
    last = next((entry for entry in reversed(before) if entry.checkpoint.kind != "safety"), None)
    linked = []
    for entry in _in_order(found):
        parent = known.get(entry.checkpoint.parent or "", last) if entry.checkpoint.parent else None
        packed = pack_changes(Source(store), parent, entry)
        checkpoint = entry.checkpoint.replace(parent=parent.id if parent else None, packed_changes=packed)
        known[entry.id] = entry._replace(checkpoint=checkpoint)
        linked.append(known[entry.id])
        last = last if entry.checkpoint.kind == "safety" else entry
    return linked


def _in_order(entries: list[Entry]) -> list[Entry]:
    """Returns entries by their times, but never before their parents: a clock may have been set back."""
    waiting = {entry.id: entry for entry in sorted(entries, key=lambda entry: entry.created_ns)}
    ordered: list[Entry] = []
    while waiting:
        line = [next(iter(waiting.values()))]
        del waiting[line[0].id]
        while (parent := waiting.pop(line[-1].checkpoint.parent or "", None)) is not None:
            line.append(parent)
        ordered += reversed(line)
    return ordered
