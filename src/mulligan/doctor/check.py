"""
Whether the store is whole: `check` reads everything and changes nothing.

The packs are verified, the rows of the timeline are compared with their checksums and their commits, and every object that a
checkpoint reaches must be there. What cannot be read is a finding and not an error, once the timeline could be opened; the
checkpoints are then taken from the refs. Checkpoints share nearly everything, so a tree that was found whole is not walked again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mulligan.errors import Busy, MulliganError, StoreDamaged
from mulligan.model.objects import COMMIT, EMPTY_TREE, MODE_DIR, parse_commit
from mulligan.safefs.lock import exclusive
from mulligan.store import refs
from mulligan.store.layout import strange_parts
from mulligan.store.objects import ObjectStore
from mulligan.store.verify import verify_packs
from mulligan.timeline.commits import Entry
from mulligan.timeline.database import NAME, Database, is_intact
from mulligan.timeline.journal import STAGING, read_journal
from mulligan.timeline.read_commits import read_commit
from mulligan.timeline.store import Store

Progress = Callable[[int, int], None]
_MOST_NUMBERS = 1 << 62


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
    #: Checkpoints of other machines whose contents are only on a remote: they were not checked.
    only_remote: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        problems = [problem.to_dict() for problem in self.problems]
        return {"ok": self.ok, "problems": problems, "objects": self.objects, "only_remote": self.only_remote}


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


def check(store: Store, progress: Progress | None = None) -> CheckReport:
    """Reads every byte of the store and returns what is wrong with it, also while others work in it."""
    report = look(store, progress)
    if report.ok:
        return report
    # A pack that another process merges, or a reference that it is about to write, looks like damage. Real damage stays
    # after that process is done. A save must not wait until a whole store was read, so the lock is released at once.
    try:
        with exclusive(store.directory, wait=store.settings.wait, purpose="check"):
            pass
    except (Busy, OSError):
        pass  # in use without a pause, or not to be written: the second look alone must do
    seen = {(problem.kind, problem.subject) for problem in report.problems}
    again = look(store, progress)
    return CheckReport(tuple(p for p in again.problems if (p.kind, p.subject) in seen), again.objects)


def look(store: Store, progress: Progress | None = None) -> CheckReport:
    """Does what `check` does in one look, for one who holds the store."""
    lost: set[bytes] = set()
    packs: list[Finding] = []
    for problem in verify_packs(store.objects, progress=progress):
        lost |= problem.oids
        packs.append(Finding(problem.kind, problem.subject, problem.detail))
    said = compare_timeline(store)
    found = [Finding("timeline", NAME, breach.detail, breach.checkpoints) for breach in said.breaches]
    whole = Closures(store.objects, lost)
    touched = tuple(entry.id for entry in said.entries if whole.lacks(entry.commit_id))
    found += [replace(finding, checkpoints=touched) for finding in packs]
    for entry in said.entries:
        if missing := whole.lacks(entry.commit_id):
            found.append(Finding("checkpoint", entry.id, missing, (entry.id,)))
    found += [
        Finding("pulled", name, missing)
        for name, commit in ({} if said.breaches else store.checkpoints.roots()).items()
        if ":" in name and (missing := whole.lacks(commit))
    ]
    found += _refs(store, said) + [Finding("repository", part, why) for part, why in strange_parts(store.directory)]
    return CheckReport(tuple(found), sum(pack.index.count for pack in store.objects.packs()))


def _refs(store: Store, said: CrossCheck) -> list[Finding]:
    want = said.rows
    # What the timeline owes may have gone, or come back, with the power: the next writing command sees to it. Asked before the
    # refs are read, since what is owed no longer is there by then.
    owed = {row["id"]: row["commit_id"] for row in store.database.intact("fresh_ref")}
    dead = {row["id"] for row in store.database.intact("dead_ref")}
    have = refs.read_refs(store.directory)
    missing = [name for name in want.keys() - have.keys() if owed.get(name) != want[name].hex()]
    unknown = have.keys() - want.keys() - dead
    if (missing or unknown) and not said.breaches:
        # Other processes may have saved or deleted them since: read the rows again.
        now = {entry.id for entry in store.checkpoints.believable()}
        missing, unknown = [name for name in missing if name in now], unknown - now
    found = [Finding("ref", name, "its ref is missing", (name,)) for name in missing]
    found += [
        Finding("ref", name, "its ref names another commit", (name,))
        for name in want.keys() & have.keys()
        if want[name] != have[name]
    ]
    found += [Finding("ref", name, "no checkpoint of the timeline has this ref", (name,)) for name in unknown]
    return found + [Finding("ref", name, "it holds no commit id") for name in refs.bad_refs(store.directory)]


def lost_objects(store: Store) -> set[bytes]:
    """Returns the objects that some checkpoint needs and no pack can give."""
    lost: set[bytes] = set()
    for problem in verify_packs(store.objects):
        lost |= problem.oids
    return lost | Closures(store.objects).missing(entry.commit_id for entry in compare_timeline(store).entries)


class Breach(NamedTuple):
    """One thing that is wrong with the timeline, and the checkpoints it concerns."""

    detail: str
    checkpoints: tuple[str, ...] = ()


class CrossCheck(NamedTuple):
    """What timeline and repository say: the commit of each row, every checkpoint that can be read, and what is wrong."""

    rows: dict[str, bytes]
    entries: list[Entry]
    breaches: list[Breach]


def compare_timeline(store: Store) -> CrossCheck:
    """Reads the whole timeline and compares it with the commits."""
    database, breaches, rows = store.database, list[Breach](), list[Entry]()
    try:
        breaches += timeline_problems(database)
        with database.at_one_moment():
            rows = store.checkpoints.believable()
            if breaches:  # a broken index hides rows from queries
                breaches += [
                    Breach(f"{entry.id} is not found by its id", (entry.id,))
                    for entry in rows
                    if not _is_found(store, entry)
                ]
            breaches += _names(store, rows)
    except StoreDamaged as error:
        breaches.append(Breach(error.message))
    for entry in rows:
        breaches += _against_commit(store, entry)
    known = {entry.id for entry in rows}
    rest = []
    for name, commit in refs.read_refs(store.directory).items():
        if name not in known:
            try:
                rest.append(read_commit(store.objects, commit))
            except MulliganError:
                continue  # the refs without a row are named on their own
    return CrossCheck({entry.id: entry.commit_id for entry in rows}, rows + rest, breaches)


def timeline_problems(database: Database) -> list[Breach]:
    """Returns what is wrong with the timeline itself: what SQLite finds, rows that are not what was written, odd counts."""
    found = [Breach(str(row[0])) for row in database.rows("PRAGMA integrity_check") if row[0] != "ok"]
    if not database.read_only and database.rows("PRAGMA journal_mode")[0][0] != "wal":
        found.append(Breach("its head says that there is no log beside it"))
    if database.forbids_writing():
        found.append(Breach("its head says that it is read-only"))
    counts = {row[0]: row[1] for row in database.rows("SELECT name, seq FROM sqlite_sequence")}
    for table, columns in database.columns.items():
        name = columns.index("id") if "id" in columns else 0
        found += [_unsealed(table, row[name]) for row in database.as_they_are(table) if not is_intact(row)]
        newest = database.number(f"SELECT max(seq) FROM {table}") if columns[0] == "seq" else 0
        # Else the next row would not come last, or find no number.
        if newest and not (isinstance(counts.get(table), int) and newest <= counts[table] < _MOST_NUMBERS):
            found.append(Breach(f"the count of {table} is {counts.get(table)!r}, and there is a row {newest}"))
    return found


def _is_found(store: Store, entry: Entry) -> bool:
    try:
        return store.checkpoints.by_id(entry.id) is not None
    except StoreDamaged:
        return False


def _unsealed(table: str, name: Any) -> Breach:
    called = f" of {name!r}" if isinstance(name, str) else ""
    concerned = (name,) if table == "checkpoint" and isinstance(name, str) else ()
    return Breach(f"a record{called} in {table} is not what was written", concerned)


def _names(store: Store, rows: list[Entry]) -> list[Breach]:
    """Names in the timeline that name nothing."""
    known = {entry.id for entry in rows} | {""}
    asked = [("the position", store.checkpoints.position())]
    asked += [(f"the parent of {entry.id}", entry.checkpoint.parent or "") for entry in rows]
    asked += [("a step of undo", move.id) for move in store.moves.down(-1)]
    asked += [("a step of redo", move.id) for move in store.moves.redoable()]
    if (journal := read_journal(store.database)) is not None:
        asked.append(("the journal", journal.target))
        if journal.phase != STAGING:  # before that, the checkpoint may still have been on its way
            asked.append(("the journal", journal.safety))
    return [Breach(f"{what} names {name}, which is not there") for what, name in asked if name not in known]


def _against_commit(store: Store, entry: Entry) -> list[Breach]:
    """Where a row and its commit say different things; ancestry, and what follows from it, is the timeline's alone."""
    try:
        theirs = _facts(read_commit(store.objects, entry.commit_id))
    except MulliganError:
        return []  # the objects of a checkpoint are looked at on their own
    try:
        mine = _facts(entry)
    except MulliganError as error:
        return [Breach(error.message, (entry.id,))]
    return [
        Breach(f"{what} of {entry.id} is not what its commit says", (entry.id,))
        for what in mine
        if mine[what] != theirs[what]
    ]


def _facts(entry: Entry) -> dict[str, Any]:
    cp = entry.checkpoint
    return {
        "id": cp.id, "name": cp.name, "description": cp.description, "kind": cp.kind, "time": entry.created_ns,
        "files": entry.files_tree, "modes": entry.modes_tree, "defaults": tuple(entry.defaults), "complete": cp.complete,
        "git": cp.git, "context": cp.context, "metadata": cp.metadata, "state": cp.state, "not captured": cp.not_captured,
        "secrets": cp.plain_secrets,
    }  # fmt: skip


class Closures:
    """What commits reach, remembered from one to the next; `lost` are objects that are there and cannot be read."""

    def __init__(self, objects: ObjectStore, lost: Collection[bytes] = ()) -> None:
        self._objects = objects
        self._lost = lost
        self._whole: set[bytes] = {EMPTY_TREE}

    def lacks(self, commit: bytes) -> str:
        """Returns what is wrong with the objects of a checkpoint, in words; nothing where it is whole."""
        gone, trouble = self._walk(commit)
        if trouble:
            return trouble
        return f"{len(gone)} of its objects are missing or damaged" if gone else ""

    def missing(self, commits: Iterable[bytes]) -> set[bytes]:
        """Returns the objects that some commits need and the store does not have."""
        gone: set[bytes] = set()
        for commit in commits:
            gone |= self._walk(commit)[0]
        return gone

    def _walk(self, commit: bytes) -> tuple[set[bytes], str]:
        """Returns the objects that are not there, and the error that ended the walk, if one did."""
        if self._is_gone(commit):
            return {commit}, ""
        try:
            root = parse_commit(self._objects.read(commit, COMMIT)).tree
        except MulliganError as error:
            return {commit}, error.message
        gone, trouble, pending, seen = set(), "", [root], set[bytes]()
        while pending:
            tree = pending.pop()
            if tree in self._whole or tree in seen:
                continue
            seen.add(tree)
            if self._is_gone(tree):
                gone.add(tree)
                continue
            try:
                entries = self._objects.read_tree(tree)
            except MulliganError as error:
                gone.add(tree)
                trouble = error.message
                continue
            for entry in entries:
                if entry.mode == MODE_DIR:
                    pending.append(entry.oid)
                elif entry.oid not in self._whole:
                    if self._is_gone(entry.oid):
                        gone.add(entry.oid)
                    else:
                        seen.add(entry.oid)
        if not gone and not trouble:
            self._whole |= seen
        return gone, trouble

    def _is_gone(self, oid: bytes) -> bool:
        return oid in self._lost or not self._objects.has(oid)
