"""
Is the store whole? And if not, what can be made whole again.

`check` reads everything and changes nothing. `mend` rebuilds what can be derived: indexes from packs, refs from the
timeline, the timeline from the repository. It never deletes data that can be read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from mulligan.errors import Busy, MulliganError, StoreDamaged, StoreError
from mulligan.model.objects import object_id
from mulligan.safefs.directory import Directory, random_name
from mulligan.safefs.errors import FULL, typed
from mulligan.safefs.lock import exclusive
from mulligan.scan import cache
from mulligan.store import refs, repository
from mulligan.store.retire import retire
from mulligan.store.verify import DAMAGED_INDEX, DAMAGED_PACK, LOST_INDEX, LOST_PACK, rebuild_index, verify_packs
from mulligan.timeline import crosscheck, salvage
from mulligan.timeline.closures import Closures
from mulligan.timeline.commits import read_commit, write_commit
from mulligan.timeline.database import NAME, Database
from mulligan.timeline.journal import read_journal
from mulligan.timeline.vault import Vault

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
    """Reads every byte of the store and returns what is wrong with it, also while others work in it."""
    report = look(vault, progress)
    if report.ok:
        return report
    # A pack that somebody merges, or a reference that he is about to write, looks like damage. Damage is what stays when
    # he is done; and whoever saves must not wait until a whole store was read, so the store is let go of at once.
    try:
        with exclusive(vault.directory, wait=vault.settings.wait, purpose="check"):
            pass
    except (Busy, OSError):
        pass  # in use without a pause, or not to be written: the second look alone must do
    seen = {(problem.kind, problem.subject) for problem in report.problems}
    again = look(vault, progress)
    return CheckReport(tuple(p for p in again.problems if (p.kind, p.subject) in seen), again.objects)


def look(vault: Vault, progress: Progress | None = None) -> CheckReport:
    """Does what `check` does in one look, for one who holds the store."""
    lost: set[bytes] = set()
    packs: list[Finding] = []
    for problem in verify_packs(vault.objects, progress=progress):
        lost |= problem.oids
        packs.append(Finding(problem.kind, problem.subject, problem.detail))
    said = crosscheck.read(vault)
    found = [Finding("timeline", NAME, breach.detail, breach.checkpoints) for breach in said.breaches]
    whole = Closures(vault.objects, lost)
    touched = tuple(entry.id for entry in said.entries if whole.lacks(entry.commit_id))
    found += [replace(finding, checkpoints=touched) for finding in packs]
    for entry in said.entries:
        if missing := whole.lacks(entry.commit_id):
            found.append(Finding("checkpoint", entry.id, missing, (entry.id,)))
    found += _refs(vault, said) + [
        Finding("repository", part, why) for part, why in repository.strange_parts(vault.directory)
    ]
    return CheckReport(tuple(found), sum(pack.index.count for pack in vault.objects.packs()))


def _refs(vault: Vault, said: crosscheck.Said) -> list[Finding]:
    want = said.rows
    # What the timeline owes may have gone, or come back, with the power: the next writing command sees to it. Asked before the
    # refs are read, since what is owed no longer is there by then.
    owed = {row["id"]: row["commit_id"] for row in vault.database.whole("fresh_ref")}
    dead = {row["id"] for row in vault.database.whole("dead_ref")}
    have = refs.read_refs(vault.directory)
    missing = [name for name in want.keys() - have.keys() if owed.get(name) != want[name].hex()]
    unknown = have.keys() - want.keys() - dead
    if (missing or unknown) and not said.breaches:
        # Others may have saved or deleted them meanwhile: the rows say so now.
        now = {entry.id for entry in vault.checkpoints.believable()}
        missing, unknown = [name for name in missing if name in now], unknown - now
    found = [Finding("ref", name, "its ref is missing", (name,)) for name in missing]
    found += [
        Finding("ref", name, "its ref names another commit", (name,))
        for name in want.keys() & have.keys()
        if want[name] != have[name]
    ]
    found += [Finding("ref", name, "no checkpoint of the timeline has this ref", (name,)) for name in unknown]
    return found + [Finding("ref", name, "it holds no commit id") for name in refs.bad_refs(vault.directory)]


# -- mending ----------------------------------------------------------------------------------------


def repair(vault: Vault) -> list[str]:
    """Repairs what keeps the store from being opened; returns a sentence for each repair."""
    vault.close()
    try:
        with Directory.open(vault.path) as directory, exclusive(directory, wait=vault.settings.wait, purpose="doctor"):
            return _mend(vault, directory)
    except OSError as error:
        if error.errno in FULL:
            raise typed(error) from error
        raise StoreError(
            f"The store {vault.path} cannot be repaired: the system refused a step ({error.strerror}). What can be read still can be.",
            hint=f"Check the permissions of the store and the room on its disk: ls -la {vault.path}",
        ) from error


def lost_objects(vault: Vault) -> set[bytes]:
    """Returns the objects that some checkpoint needs and no pack can give."""
    lost: set[bytes] = set()
    for problem in verify_packs(vault.objects):
        lost |= problem.oids
    return lost | Closures(vault.objects).missing(entry.commit_id for entry in crosscheck.read(vault).entries)


def _mend(vault: Vault, directory: Directory) -> list[str]:
    done: list[str] = []
    missing = repository.missing_parts(directory)
    if missing:
        repository.create(directory, store_id=_store_id(vault, directory))
        done.append(f"Made the missing parts of the repository: {', '.join(missing)}.")
    done += _mend_indexes(directory)
    if _is_damaged(vault, directory):
        done.append(f"Put the damaged timeline aside as {salvage.put_aside(directory)}.")
    if not directory.exists(NAME.encode()):
        done.append(salvage.rebuild(vault, directory))
    name, strange = _store_id(vault, directory), [part for part, _ in repository.strange_parts(directory)]
    if name != repository.store_id(directory) and "config" not in strange:
        strange.append("config")
    if strange:
        repository.write_anew(directory, store_id=name, parts=strange)
        done.append(f"Wrote anew: {', '.join(strange)}.")
    cache.discard(directory)
    return done


def _store_id(vault: Vault, directory: Directory) -> str:
    """
    Returns the store's id: as the repository says, unless the timeline says another and is this repository's all the same.

    A timeline that was copied here has checkpoints of which this repository knows nothing; one damaged bit in the id of
    the repository's configuration changes none of them.
    """
    known = repository.store_id(directory)
    if directory.exists(NAME.encode()):
        with suppress(MulliganError), closing(Database(vault.path, create=False, directory=directory)) as database:
            here = {(name, commit.hex()) for name, commit in refs.read_refs(directory).items()}
            there = {(row[0], row[1]) for row in database.rows("SELECT id, commit_id FROM checkpoint")}
            recorded = database.meta("store_id")
            if recorded and (known is None or there & here or not (there or here)):
                return recorded
    return known or random_name(16)


def _is_damaged(vault: Vault, directory: Directory) -> bool:
    """Whether there is a timeline that cannot be believed as a whole."""
    if not directory.exists(NAME.encode()):
        return False
    try:
        with closing(Database(vault.path, create=False, directory=directory)) as database:
            if not database.meta("store_id") and refs.read_refs(directory):
                return True
            read_journal(database)
            return bool(database.integrity() or database.broken() or database.misnumbered())
    except StoreDamaged:
        return True


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


def derived_objects(vault: Vault) -> dict[bytes, tuple[bytes, bytes]]:
    """Returns the objects that can be made anew from the timeline, by id: commits and what they say of their checkpoints."""
    found = repository.permanent_objects()
    for entry in crosscheck.read(vault).entries:
        with suppress(MulliganError):  # state that was kept in the repository alone, and is damaged with it
            write_commit(entry, _Collected(found))
    return found


class _Collected:
    """Takes objects and keeps them in a dictionary."""

    def __init__(self, into: dict[bytes, tuple[bytes, bytes]]) -> None:
        self._into = into

    def add(self, kind: bytes, data: bytes, _inside: bytes = b"") -> bytes:
        """Takes an object and returns its id."""
        oid = object_id(kind, data)
        self._into[oid] = (kind, data)
        return oid


def retire_damaged(vault: Vault) -> list[str]:
    """Takes packs out of use that cannot be mended, after what can be read of them was copied; says so."""
    kinds = (DAMAGED_PACK, DAMAGED_INDEX, LOST_PACK, LOST_INDEX)
    stems = {
        problem.subject.rpartition(".")[0].encode() for problem in verify_packs(vault.objects) if problem.kind in kinds
    }
    moved = retire(vault.objects, stems) if stems else []
    return [f"Moved damaged files to objects/damaged: {', '.join(moved)}."] if moved else []


def mend_refs(vault: Vault) -> list[str]:
    """Makes the refs say what the timeline says; a ref the timeline does not know is taken into it."""
    have, entries = refs.read_refs(vault.directory), vault.checkpoints.oldest()
    want = {entry.id: entry.commit_id for entry in entries}
    bad = set(refs.bad_refs(vault.directory))  # one that hides a packed one of its name is to be written too
    wrong = [name for name, commit in want.items() if have.get(name) != commit or name in bad]
    for name in wrong:
        refs.write_ref(vault.directory, name, want[name])
    done = [f"Wrote {len(wrong)} refs anew."] if wrong else []
    found, misnamed = [], []
    for name in have.keys() - want.keys():
        try:
            entry = read_commit(vault.objects, have[name])
        except MulliganError:
            continue  # not readable: it stays as it is, and check goes on naming it
        if entry.id == name:
            found.append(entry)
        elif want.get(entry.id) == have[name]:
            misnamed.append(name)  # its checkpoint is there under its own name
    if misnamed:
        refs.remove_refs(vault.directory, misnamed)
        done.append(f"Removed {len(misnamed)} refs that stood for no checkpoint.")
    with vault.database.transaction():
        for entry in salvage.link(vault.objects, salvage.in_order(found), entries):
            vault.checkpoints.add(entry)
    return done + ([f"Took {len(found)} checkpoints into the timeline that only the repository knew."] if found else [])
