"""Whether the store is whole: `check` reads everything and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from mulligan.doctor import agreement
from mulligan.doctor.closures import Closures
from mulligan.errors import Busy
from mulligan.safefs.lock import exclusive
from mulligan.store import refs, repository
from mulligan.store.verify import verify_packs
from mulligan.timeline.database import NAME
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
    # A pack that another process merges, or a reference that it is about to write, looks like damage. Real damage stays
    # after that process is done. A save must not wait until a whole store was read, so the lock is released at once.
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
    said = agreement.read(vault)
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


def _refs(vault: Vault, said: agreement.Said) -> list[Finding]:
    want = said.rows
    # What the timeline owes may have gone, or come back, with the power: the next writing command sees to it. Asked before the
    # refs are read, since what is owed no longer is there by then.
    owed = {row["id"]: row["commit_id"] for row in vault.database.whole("fresh_ref")}
    dead = {row["id"] for row in vault.database.whole("dead_ref")}
    have = refs.read_refs(vault.directory)
    missing = [name for name in want.keys() - have.keys() if owed.get(name) != want[name].hex()]
    unknown = have.keys() - want.keys() - dead
    if (missing or unknown) and not said.breaches:
        # Other processes may have saved or deleted them since: read the rows again.
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


def lost_objects(vault: Vault) -> set[bytes]:
    """Returns the objects that some checkpoint needs and no pack can give."""
    lost: set[bytes] = set()
    for problem in verify_packs(vault.objects):
        lost |= problem.oids
    return lost | Closures(vault.objects).missing(entry.commit_id for entry in agreement.read(vault).entries)
