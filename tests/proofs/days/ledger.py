"""
Who wrote what during a played day, and what an undo or restore may do about it.

The ledger knows every change of the project with its writer. It judges by photographs of the disk and by plain git; it shares
no code with the package.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tools import git_environment


class Thing(NamedTuple):
    """What stands at a path: `kind` is file, link or dir; `data` its bytes or target."""

    kind: str
    mode: int
    data: bytes = b""


Photo = dict[str, Thing]


def photograph(project: Path) -> Photo:
    """Everything in a project but `.git`; empty where the project is gone."""
    found: Photo = {}
    for folder, names, files in os.walk(project):
        names[:] = [name for name in names if name != ".git"]
        for name in [*names, *(name for name in files if name != ".git")]:
            path = os.path.join(folder, name)
            about = os.lstat(path)
            mode = stat.S_IMODE(about.st_mode)
            relative = os.path.relpath(path, project)
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


class Change(NamedTuple):
    """One change of one path by one writer."""

    writer: str
    path: str
    before: Thing | None
    after: Thing | None
    sure: bool


class Ledger:
    """All changes of a day, oldest first; `ignored` are the directories that a rule hides now."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.ignored: set[str] = set()
        self.ever_ignored: set[str] = set()

    def ignore(self, folder: str) -> None:
        """A rule hides this directory from now on."""
        self.ignored.add(folder)
        self.ever_ignored.add(folder)

    def is_hidden(self, path: str) -> bool:
        """Whether a path was ever below an ignored directory: such paths are not mulligan's."""
        return path.split("/", maxsplit=1)[0] in self.ever_ignored

    def record(self, writer: str, before: Photo, after: Photo, *, sure: bool = True) -> None:
        """Notes what one action of a writer changed."""
        for path in differing(before, after):
            self.changes.append(Change(writer, path, before.get(path), after.get(path), sure))

    def paths(self, writer: str) -> list[str]:
        """The paths that a writer changed, in order."""
        return list(dict.fromkeys(change.path for change in self.changes if change.writer == writer))

    def around(self, writer: str, path: str) -> tuple[Thing | None, Thing | None, bool]:
        """What stood at a path before and after a writer's changes, and whether only that writer changed it in between."""
        places = [at for at, change in enumerate(self.changes) if change.path == path]
        mine = [at for at in places if self.changes[at].writer == writer]
        alone = [at for at in places if mine[0] <= at <= mine[-1]] == mine
        sure = alone and all(self.changes[at].sure for at in mine)
        return self.changes[mine[0]].before, self.changes[mine[-1]].after, sure


class Outcome(NamedTuple):
    """What a command did: its exit code, its report, and the project before and after it."""

    code: int
    report: dict[str, Any]
    before: Photo
    after: Photo

    @property
    def listed(self) -> set[str]:
        """The paths that the report lists as left alone or lost."""
        return {row["path"] for key in ("kept", "lost", "conflicts") for row in _rows(self.report.get(key))}


def _rows(value: Any) -> Iterable[dict[str, Any]]:
    return [row if isinstance(row, dict) else {"path": row} for row in value or ()]


def saved_in(store: Path, commit: str, path: str) -> bytes | None:
    """The bytes of a path in a checkpoint, asked of plain git; None where it has none."""
    done = subprocess.run(
        ["git", "--git-dir", store, "-c", "safe.directory=*", "cat-file", "blob", f"{commit}:files/{path}"],
        env=git_environment(), capture_output=True, check=False,
    )  # fmt: skip
    return done.stdout if done.returncode == 0 else None


def judge_turn(ledger: Ledger, writer: str, done: Outcome) -> list[str]:
    """Returns what is wrong with the undo of one turn."""
    wrong = []
    mine = set(ledger.paths(writer))
    for path in differing(done.before, done.after):
        above = any(other.startswith(path + "/") for other in mine)
        if path not in mine and not above:
            wrong.append(f"touched {path}, which {writer} never changed")
        if ledger.is_hidden(path):
            wrong.append(f"touched {path}, which was never saved")
    for path in sorted(mine):
        wrong += _judge_path(ledger, writer, path, done)
    return wrong


def _judge_path(ledger: Ledger, writer: str, path: str, done: Outcome) -> list[str]:
    before, after, sure = ledger.around(writer, path)
    here, now = done.before.get(path), done.after.get(path)
    if ledger.is_hidden(path) or before == after:
        return []
    if here == before and here != after:
        return [] if now == here else [f"{path} was as before {writer} already, and changed"]
    if here == after:
        if now == before:
            return []
        if path in done.listed and (not sure or done.code == 3):
            return []
        if _is_in_use(path, before, done):
            return []
        return [
            f"{path} is not as it was before {writer}: {_say(before)} expected, {_say(now)} found, exit {done.code}"
        ]
    # Changed since by another writer: merged, or left alone and listed.
    if now == here and path not in done.listed and not (here and here.kind == "dir"):
        return [f"{path} was changed by {writer} and others; it is neither merged nor listed"]
    return []


def _is_in_use(path: str, before: Thing | None, done: Outcome) -> bool:
    """Whether a directory stays because something of another writer is in it."""
    now = done.after.get(path)
    inside = any(other.startswith(path + "/") for other in done.after)
    return before is None and now is not None and now.kind == "dir" and inside


def _say(thing: Thing | None) -> str:
    return "nothing" if thing is None else f"{thing.kind} {thing.mode:o} {thing.data[:30]!r}"


def judge_whole(ledger: Ledger, wanted: Photo, done: Outcome) -> list[str]:
    """Returns what is wrong with a restore of everything to a known state."""
    wrong = []
    for path in sorted(wanted.keys() | done.after.keys() | done.before.keys()):
        if ledger.is_hidden(path):
            if done.before.get(path) != done.after.get(path):
                wrong.append(f"touched {path}, which was never saved")
        elif (
            wanted.get(path) != done.after.get(path)
            and path not in done.listed
            and not _holds_hidden(ledger, path, done)
        ):
            wrong.append(
                f"{path}: {_say(wanted.get(path))} expected, {_say(done.after.get(path))} found, exit {done.code}"
            )
    return wrong


def _holds_hidden(ledger: Ledger, path: str, done: Outcome) -> bool:
    return any(
        other.startswith(path + "/") and (ledger.is_hidden(other) or other in done.listed) for other in done.after
    )


def judge_code(done: Outcome) -> list[str]:
    """Returns what is wrong with an exit code."""
    failed = [row for key in ("kept",) for row in _rows(done.report.get(key)) if row.get("failed")]
    changed = differing(done.before, done.after)
    if done.code not in (0, 1, 3):
        return [f"exit {done.code}"]
    if done.code == 1 and changed:
        return [f"exit 1, and {changed[:3]} changed"]
    if done.code == 0 and (failed or done.report.get("lost") or done.report.get("conflicts")):
        return ["exit 0, and something was left undone"]
    if done.code == 3 and not done.listed:
        return ["exit 3, and nothing is listed"]
    return []


def judge_loss(ledger: Ledger, store: Path, commit: str, done: Outcome) -> list[str]:
    """Returns which bytes a command replaced or removed that its safety checkpoint does not hold."""
    wrong = []
    for path in differing(done.before, done.after):
        was = done.before.get(path)
        if was is None or was.kind != "file" or ((done.after.get(path) or was).data == was.data and path in done.after):
            continue
        if saved_in(store, commit, path) != was.data:
            wrong.append(f"LOST {path}: its bytes before the command are not in the safety checkpoint")
    return wrong
