"""
Who wrote what during a played day, and what an undo or restore may do about it.

The ledger knows every change of the project with its writer. It judges by photographs of the disk and by plain git; it shares
no code with the package.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tools import git_environment


class Thing(NamedTuple):
    """What stands at a path: `kind` is file, link or dir; `data` its bytes or target."""

    kind: str
    mode: int
    data: bytes = b""


Photo = dict[str, Thing]


#: Files whose names say that they are secret; git tracks none of them.
SECRETS = (".env", "src/.env")


def photograph(project: Path, without: Iterable[str] = ()) -> Photo:
    """Everything in a project but `.git` and some paths; empty where the project is gone."""
    found: Photo = {}
    left_out = set(without)
    for folder, names, files in os.walk(project):
        names[:] = [name for name in names if name != ".git"]
        for name in [*names, *(name for name in files if name != ".git")]:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, project)
            if relative in left_out:
                continue
            about = os.lstat(path)
            mode = stat.S_IMODE(about.st_mode)
            if stat.S_ISLNK(about.st_mode):
                found[relative] = Thing("link", 0, os.fsencode(os.readlink(path)))
            elif stat.S_ISDIR(about.st_mode):
                found[relative] = Thing("dir", mode)
            else:
                found[relative] = Thing("file", mode, Path(path).read_bytes())
    return found


def differing(old: Photo, new: Photo) -> list[str]:
    """The paths at which two photographs differ."""
    return sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))


def _is_below(path: str, above: Iterable[str]) -> bool:
    return any(path == each or path.startswith(each + "/") for each in above)


class Change(NamedTuple):
    """One change of one path by one writer."""

    writer: str
    path: str
    before: Thing | None
    after: Thing | None
    sure: bool


class Ledger:
    """
    All changes of a day, oldest first, and what else is known of paths and writers.

    `hidden` are the paths that a rule once hid, or that are worktrees: with all below them, they are not mulligan's. Those in
    `shown` came into view again. `busy` are the files of background programs. `killed` says for a turn whose agent was killed
    during a command how many changes there were until then: nothing tells what changed later from what that command did, until
    the next event. `renames` are files that a writer renamed, old path and new. `doomed` are paths that were never saved and that a turn deleted. `branches` says on which branch a turn was.
    """

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.hidden: set[str] = set()
        self.shown: set[str] = set()
        self.busy: set[str] = set()
        self.killed: dict[str, range] = {}
        self.doomed: dict[str, str] = {}
        self.branches: dict[str, str] = {}
        self.renames: list[tuple[str, str, str]] = []

    def is_hidden(self, path: str) -> bool:
        """Whether a path was ever out of mulligan's sight."""
        return _is_below(path, self.hidden)

    def touched(self, before: Photo, after: Photo) -> list[str]:
        """Returns what is wrong with what a command did to paths that were once not saved."""
        found = []
        for path in differing(before, after):
            if not self.is_hidden(path):
                continue
            is_gone = path in before and path not in after
            if not _is_below(path, self.shown) or (is_gone and before[path].kind == "file"):
                found.append(f"touched {path}, which was never saved")
        return found

    def names_since(self, writer: str, path: str) -> set[str]:
        """The names that other writers gave to a file since a writer's last change of it."""
        last = max(at for at, change in enumerate(self.changes) if change.writer == writer and change.path == path)
        known = {path}
        for at, old, new in self.renames:
            if at > last and old in known:
                known.add(new)
        return known - {path}

    def renamed_to(self, writer: str, path: str) -> set[str]:
        """The names that a writer itself gave to a file."""
        mine = {at for at, change in enumerate(self.changes) if change.writer == writer}
        return {new for at, old, new in self.renames if old == path and at in mine}

    def is_taken_back(self, writer: str, path: str) -> bool:
        """Whether an undo came after a writer's last change of a path: what others did since is all that is left."""
        names = {path} | self.names_since(writer, path)
        last = max(at for at, change in enumerate(self.changes) if change.writer == writer and change.path == path)
        return any(change.writer.startswith("undo") and change.path in names for change in self.changes[last:])

    def may_be_of(self, writer: str, path: str) -> bool:
        """Whether a change of a path may be taken for a writer's: it was killed, and the path changed right after."""
        return any(self.changes[at].path == path for at in self.killed.get(writer, ()) if at < len(self.changes))

    def record(self, writer: str, before: Photo, after: Photo, *, sure: bool = True) -> None:
        """Notes what one action of a writer changed."""
        for path in differing(before, after):
            self.changes.append(Change(writer, path, before.get(path), after.get(path), sure))

    def paths(self, writer: str) -> list[str]:
        """The paths that a writer changed, in order."""
        return list(dict.fromkeys(change.path for change in self.changes if change.writer == writer))

    def around(self, writer: str, path: str) -> tuple[Thing | None, Thing | None, bool, bool]:
        """What stood at a path before and after a writer's changes, whether no other changed it in between, and for sure."""
        places = [at for at, change in enumerate(self.changes) if change.path == path]
        mine = [at for at in places if self.changes[at].writer == writer]
        alone = [at for at in places if mine[0] <= at <= mine[-1]] == mine
        sure = alone and all(self.changes[at].sure for at in mine)
        return self.changes[mine[0]].before, self.changes[mine[-1]].after, alone, sure


class Outcome(NamedTuple):
    """What a command did: its exit code, its report, and the project before and after it."""

    code: int
    report: dict[str, Any]
    before: Photo
    after: Photo

    @property
    def listed(self) -> set[str]:
        """The paths that the report lists as left alone or lost."""
        return {row["path"] for key in ("kept", "lost", "conflicts", "missing") for row in _rows(self.report.get(key))}

    @property
    def lost(self) -> set[str]:
        """The paths that the report lists as lost."""
        return {row["path"] for row in _rows(self.report.get("lost"))}


def _rows(value: Any) -> Iterable[dict[str, Any]]:
    return [row if isinstance(row, dict) else {"path": row} for row in value or ()]


def saved_in(store: Path, commit: str, path: str) -> bytes | None:
    """The bytes of a path in a checkpoint, asked of plain git; None where it has none."""
    done = subprocess.run(
        ["git", "--git-dir", store, "-c", "safe.directory=*", "cat-file", "blob", f"{commit}:files/{path}"],
        env=git_environment(), capture_output=True, check=False,
    )  # fmt: skip
    return done.stdout if done.returncode == 0 else None


def judge_turn(ledger: Ledger, writer: str, done: Outcome, below: str = "") -> list[str]:
    """Returns what is wrong with the undo of one turn, or of the part of it below a path."""
    wrong = ledger.touched(done.before, done.after)
    mine = set(ledger.paths(writer))
    followed = {path: old for old in mine for path in ledger.names_since(writer, old)}
    for path in differing(done.before, done.after):
        above = any(other.startswith(path + "/") for other in mine)
        if path not in mine and path in followed:
            wrong += _judge_renamed(ledger, writer, followed[path], path, done)
        elif not (path in mine or above or ledger.is_hidden(path) or ledger.may_be_of(writer, path)):
            wrong.append(f"touched {path}, which {writer} never changed")
        if below and not _is_below(path, (below,)) and not below.startswith(path + "/"):
            wrong.append(f"touched {path}, which is not below {below}")
    for path in sorted(mine):
        if not below or _is_below(path, (below,)):
            wrong += _judge_path(ledger, writer, path, done)
    doomed = ledger.doomed.get(writer)
    if doomed and not below and doomed not in done.lost and doomed not in done.after:
        wrong.append(f"{doomed} was never saved, {writer} deleted it, and it is not listed as lost")
    return wrong


def judge_branch(ledger: Ledger, writer: str, branch: str, done: Outcome) -> list[str]:
    """Returns what is wrong with what an undo says about the branch that its turn was on."""
    was, said = ledger.branches.get(writer, branch), done.report.get("branch", "")
    if was not in (branch, said):
        return [f"{writer} was on branch {was}, {branch} is checked out, and the report says {said!r}"]
    return []


def _judge_path(ledger: Ledger, writer: str, path: str, done: Outcome) -> list[str]:
    before, after, alone, sure = ledger.around(writer, path)
    sure = sure and not ledger.may_be_of(writer, path)
    here, now = done.before.get(path), done.after.get(path)
    if ledger.is_hidden(path) or before == after:
        return []
    if here == before and here != after:
        return [] if now == here or not sure else [f"{path} was as before {writer} already, and changed"]
    if here == after and alone:
        if now == before:
            return []
        if path in done.listed and (not sure or done.code == 3):
            return []
        if _is_in_use(path, before, done):
            return []
        # The writer renamed it, and others changed it under its new name: it has its old name again, with their changes.
        if any(_is_merged(ledger, writer, each, now, before, done) for each in ledger.renamed_to(writer, path)):
            return []
        return [
            f"{path} is not as it was before {writer}: {_say(before)} expected, {_say(now)} found, exit {done.code}"
        ]
    # Changed since by another writer: merged, or left alone and listed.
    if ledger.is_taken_back(writer, path):
        return []
    if any(done.before.get(each) != done.after.get(each) for each in ledger.names_since(writer, path)):
        return []  # merged under the name that it has now
    if now == here and path not in done.listed and not (here and here.kind == "dir"):
        return [f"{path} was changed by {writer} and others; it is neither merged nor listed"]
    return []


def _judge_renamed(ledger: Ledger, writer: str, path: str, name: str, done: Outcome) -> list[str]:
    """Returns what is wrong with a file that another writer renamed: what the turn did to it is undone under its new name."""
    before, after, _, _ = ledger.around(writer, path)
    here, now = done.before.get(name), done.after.get(name)
    merged = _merge(here, after, before)
    if merged is None or (now is not None and now.data == merged):
        return []
    return [f"{name} was {path} when {writer} changed it, and is not what it is without that change"]


def _is_merged(ledger: Ledger, writer: str, name: str, now: Thing | None, before: Thing | None, done: Outcome) -> bool:
    """Whether a file has its old name again with what others changed under the name that the writer gave it."""
    if name not in ledger.paths(writer):
        return False
    merged = _merge(done.before.get(name), ledger.around(writer, name)[1], before)
    return merged is None or (now is not None and now.data == merged)


def _merge(here: Thing | None, base: Thing | None, wanted: Thing | None) -> bytes | None:
    """What git merges of three files; None where it cannot."""
    if not (here and base and wanted) or {here.kind, base.kind, wanted.kind} != {"file"}:
        return None
    with TemporaryDirectory() as place:
        files = [Path(place, name) for name in ("here", "base", "wanted")]
        for file, thing in zip(files, (here, base, wanted), strict=True):
            file.write_bytes(thing.data)
        done = subprocess.run(
            ["git", "merge-file", "-p", *files], env=git_environment(), capture_output=True, check=False
        )
    return done.stdout if done.returncode == 0 else None


def _is_in_use(path: str, before: Thing | None, done: Outcome) -> bool:
    """Whether a directory stays because something of another writer is in it."""
    now = done.after.get(path)
    inside = any(other.startswith(path + "/") for other in done.after)
    return before is None and now is not None and now.kind == "dir" and inside


def _say(thing: Thing | None) -> str:
    return "nothing" if thing is None else f"{thing.kind} {thing.mode:o} {thing.data[:30]!r}"


def judge_whole(ledger: Ledger, wanted: Photo, done: Outcome, below: str = "") -> list[str]:
    """Returns what is wrong with a restore to a known state, of everything or of what is below a path."""
    wrong = ledger.touched(done.before, done.after)
    for path in sorted(wanted.keys() | done.after.keys() | done.before.keys()):
        if ledger.is_hidden(path):
            continue
        if below and not _is_below(path, (below,)):
            is_above = below.startswith(path + "/")
            if done.before.get(path) != done.after.get(path) and not is_above:
                wrong.append(f"touched {path}, which is not below {below}")
        elif (
            wanted.get(path) != done.after.get(path)
            and path not in done.listed
            and not _holds_hidden(ledger, path, done)
        ):
            wrong.append(
                f"{path}: {_say(wanted.get(path))} expected, {_say(done.after.get(path))} found, exit {done.code}"
            )
    return wrong


def judge_dry_run(plan: dict[str, Any], before: Photo, after: Photo, done: Outcome) -> list[str]:
    """Returns what is wrong with a plan that was shown, given what the command did that was run next."""
    wrong = [f"the dry run changed {differing(before, after)[:3]}"] if differing(before, after) else []
    for planned, did in (("creates", "created"), ("modifies", "modified"), ("deletes", "deleted")):
        if sorted(plan.get(planned, ())) != sorted(done.report.get(did, ())):
            wrong.append(f"the plan {planned} {plan.get(planned)}, the undo {did} {done.report.get(did)}")
    return wrong


def _holds_hidden(ledger: Ledger, path: str, done: Outcome) -> bool:
    return any(
        other.startswith(path + "/") and (ledger.is_hidden(other) or other in done.listed) for other in done.after
    )


#: Reasons to leave a path alone that are no failure; all others are exit code 3 (INTERFACE.md, "Exit code 3 and the report").
_BY_POLICY = {
    "worktree", "not saved then", "spared", "ignored", "excluded", "special", "too large", "other filesystem",
    "agent settings", "attributes",
}  # fmt: skip
#: A directory that holds something unsaved stays: a failure only where a file should stand in its place.
_EITHER = "not empty"


def judge_code(done: Outcome) -> list[str]:
    """Returns what is wrong with an exit code."""
    reasons = {row["reason"] for row in _rows(done.report.get("kept"))} - _BY_POLICY
    failed = reasons - {_EITHER}
    changed = differing(done.before, done.after)
    if done.code not in (0, 1, 3):
        return [f"exit {done.code}"]
    if done.code == 1 and changed:
        return [f"exit 1, and {changed[:3]} changed"]
    partial = failed or any(done.report.get(key) for key in ("lost", "conflicts", "missing"))
    if done.code == 0 and partial:
        return [f"exit 0, and something was left undone: {failed}"]
    if done.code == 3 and not partial and _EITHER not in reasons:
        return ["exit 3, and nothing is listed but what is left alone by policy"]
    return []


def judge_loss(store: Path, safety: dict[str, Any], done: Outcome) -> list[str]:
    """Returns which bytes a command replaced or removed that its safety checkpoint does not hold."""
    wrong = []
    for path in differing(done.before, done.after):
        was = done.before.get(path)
        if was is None or was.kind != "file" or ((done.after.get(path) or was).data == was.data and path in done.after):
            continue
        held = saved_in(store, safety["commit"], path)
        if path in SECRETS:
            if path not in safety["sealed"]:
                wrong.append(f"LOST {path}: it is not among the sealed files of the safety checkpoint")
            if held is not None:
                wrong.append(f"{path} is a secret, and saved in the clear")
        elif held != was.data:
            wrong.append(f"LOST {path}: its bytes before the command are not in the safety checkpoint")
    return wrong


def states_of(store: Path, path: str) -> list[bytes]:
    """Every version of a path that a store holds, asked of plain git."""
    refs = _git(store, "for-each-ref", "--format=%(objectname)").split()
    asked = b"".join(b"%s:files/%s\n" % (ref, os.fsencode(path)) for ref in refs)
    return [data for kind, data in _objects(_git(store, "cat-file", "--batch", stdin=asked)) if kind == b"blob"]


def holding(store: Path, text: bytes) -> int:
    """Returns how many objects of a store hold some bytes in the clear."""
    found = _git(store, "cat-file", "--batch", "--batch-all-objects", "--unordered")
    return sum(text in data for _, data in _objects(found))


def _objects(said: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields what `git cat-file --batch` printed, kind and content."""
    at = 0
    while at < len(said):
        end = said.index(b"\n", at)
        head = said[at:end].split()
        at = end + 1
        if head[-1] in {b"missing", b"ambiguous"}:
            continue
        size = int(head[2])
        yield head[1], said[at : at + size]
        at += size + 1


def _git(store: Path, *args: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(
        ["git", "--git-dir", store, "-c", "safe.directory=*", *args],
        env=git_environment(), input=stdin, capture_output=True, check=True,
    ).stdout  # fmt: skip
