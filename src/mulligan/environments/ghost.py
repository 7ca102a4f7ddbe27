"""
A stack of small undos: what some files were before a tool touched them.

Each entry is a checkpoint of the workspace (kind `step`) in its own store, which is a git repository outside the project:
a commit on a ref that the user's repository does not know, the same with and without git, and still there in the next
process. The stack itself (which entries, which paths) is a note in that store. An undo restores the entry's paths through
the engine: byte for byte, with modes and links, journalled, and one `mulligan undo` takes it back.

Cost: a snapshot is a save of the whole workspace, which reads only what changed since the last one. A path that checkpoints
leave out (ignored, excluded, a secret) is captured all the same, because it was named; that costs a second, slower save.
What no checkpoint can hold (a file over the limit of size, a device) is refused before anything touches it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mulligan.engine.workspace import Workspace
from mulligan.environments.base import escaping, path_below, real_path_below
from mulligan.errors import UnknownPath, Unprotectable, UnsafePath
from mulligan.model.checkpoint import Checkpoint
from mulligan.model.paths import parse_path
from mulligan.model.plan import RestoreReport
from mulligan.model.policy import Settings
from mulligan.scan.trees import cover_of
from mulligan.settings import resolve
from mulligan.timeline.commits import COUNTED

DEFAULT_MAX_SNAPSHOTS = 50
_STACK, _NEXT = "chimera.ghost.stack", "chimera.ghost.next"
_MARK = {"dialect": "chimera", "ghost": True}
ABSENT, FILE, LINK, DIRECTORY = "absent", "file", "link", "directory"


@dataclass
class GhostSnapshot:
    """
    One entry of the stack; one of the whole workspace has the files that differ from now.

    `files` maps each path to its text, "" for an empty file, a directory or nothing at all; `absent` names the last of these.
    Bytes that are not UTF-8 are escaped as `os.fsdecode` does; the checkpoint behind the entry has the bytes themselves.
    """

    id: str
    label: str
    timestamp: float
    files: dict[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    checkpoint: str = ""


class GhostCommitManager:
    """The undo stack of one directory; every process that opens it sees the same one."""

    def __init__(
        self,
        workdir: str | os.PathLike[str],
        max_snapshots: int = DEFAULT_MAX_SNAPSHOTS,
        *,
        store: str | os.PathLike[str] | None = None,
    ) -> None:
        if max_snapshots < 1:
            raise ValueError("max_snapshots is at least 1")
        self.workdir = os.path.realpath(workdir)
        self.max_snapshots = max_snapshots
        self._store = store
        self._workspace: Workspace | None = None

    @property
    def workspace(self) -> Workspace:
        """The directory as a workspace of the engine; PermissionError for one that must not be captured."""
        if self._workspace is None:
            self._workspace = self._open(())
        return self._workspace

    def _open(self, paths: Iterable[str]) -> Workspace:
        """Opens the workspace; `paths` are captured whatever the rules about others."""
        try:
            return Workspace(_with_paths(resolve(self.workdir, store=self._store), tuple(paths)))
        except Unprotectable as error:
            raise PermissionError(str(error)) from error

    # -- taking ---------------------------------------------------------------------------------

    def snapshot(self, label: str, paths: Iterable[str | os.PathLike[str]] | None = None) -> str:
        """Pushes the state of some paths, missing ones included; without `paths`, of the workspace."""
        if isinstance(paths, str | bytes | os.PathLike):
            raise TypeError("paths is a list of paths, not one path")
        looked = [self._look(path) for path in paths or ()]
        number: int = self.workspace.update_note(_NEXT, lambda old: (old or 0) + 1)
        entry: dict[str, Any] = {"id": f"ghost-{number}", "label": str(label), "time": time.time(), "paths": looked}
        if looked or paths is None:
            saved, entry["hidden"] = self._save(entry["id"], str(label), looked)
            entry["whole"] = paths is None
            entry["checkpoint"], entry["time"] = saved.id, saved.created_at.timestamp()
        self.workspace.update_note(_STACK, lambda old: [*(old or []), entry][-self.max_snapshots :])
        if number % self.max_snapshots == 0:
            # Retention by kind leaves these alone; what fell off the stack is deleted here, in batches. An entry has at
            # most two checkpoints.
            self.workspace.trim(2 * self.max_snapshots, match=_MARK)
        return str(entry["id"])

    def _look(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Returns what stands at a path, and every path inside that writing to it could change."""
        shown = path_below(self.workdir, path)
        try:
            parse_path(shown)
        except UnsafePath as error:
            raise escaping(path) from error
        if not shown:
            raise ValueError("a snapshot is of paths below the directory; for all of it, use a checkpoint")
        real = os.fsdecode(real_path_below(self.workdir, shown))
        parent = os.fsdecode(real_path_below(self.workdir, os.path.dirname(shown) or "."))
        own = os.path.join(parent, os.path.basename(shown))
        whole = os.path.join(self.workdir, own)
        was = _what(whole)
        row: dict[str, Any] = {"path": shown, "was": was, "real": list(dict.fromkeys([own, real]))}
        if was == ABSENT and not os.path.lexists(os.path.dirname(whole)):
            missing = os.path.dirname(own)
            while not os.path.lexists(os.path.join(self.workdir, os.path.dirname(missing))):
                missing = os.path.dirname(missing)
            row["made"] = missing
        return row

    def _save(self, name: str, label: str, looked: list[dict[str, Any]]) -> tuple[Checkpoint, bool]:
        """Saves the workspace; returns the checkpoint, and whether its paths had to be asked for by name."""
        metadata = {**_MARK, COUNTED: True, "paths": [row["path"] for row in looked]}
        saved = _given(self.workspace.save(name, description=label, kind="step", metadata=metadata))
        present = [path for row in looked for path in row["real"] if _what(os.path.join(self.workdir, path)) != ABSENT]
        left_out = cover_of(saved.not_captured)
        hidden = [path for path in present if left_out.over(os.fsencode(path)) is not None]
        if not hidden:
            return saved, False
        with self._open(hidden) as workspace:
            again = _given(workspace.save(name, description=label, kind="step", metadata=metadata))
        still = [row for row in again.not_captured if row.path in hidden]
        if still:
            raise ValueError(f"{still[0].path} cannot be kept: it is {still[0].reason}")
        return again, True

    # -- undoing --------------------------------------------------------------------------------

    def undo(self, n: int = 1) -> list[str]:
        """Takes the newest entries back, newest first; returns a line per path: `restored: p` or `deleted: p`."""
        said: list[str] = []
        for _ in range(max(n, 0)):
            stack = self._stack()
            if not stack:
                break
            entry = stack[-1]
            said += self._take_back_all(entry) if entry.get("whole") else []
            said += self._take_back(entry) if entry["paths"] else []
            # Only now: an interrupted undo starts again and gives the same result.
            self._drop({entry["id"]})
        return said

    def _take_back_all(self, entry: dict[str, Any]) -> list[str]:
        """Restores the whole workspace to an entry."""
        report = self.workspace.restore(entry["checkpoint"])
        kept = [f"kept: {keep.path} ({keep.reason})" for keep in report.kept if keep.failed]
        restored = [f"restored: {path}" for path in sorted([*report.created, *report.modified])]
        return [*restored, *(f"deleted: {path}" for path in sorted(report.deleted)), *kept]

    def _take_back(self, entry: dict[str, Any]) -> list[str]:
        rows = [row for row in entry["paths"] if row["was"] != ABSENT or self._stands(row)]
        if not rows:
            return []
        try:
            report = self._restore(entry, list(dict.fromkeys(path for row in rows for path in self._paths(row))))
        except UnknownPath:
            # Something else stands there now that no checkpoint can hold; it must not block the entries below.
            return [f"kept: {row['path']} (not captured)" for row in rows]
        kept = {keep.path: keep.reason for keep in report.kept}
        return [self._said(row, kept) for row in rows]

    def _restore(self, entry: dict[str, Any], paths: list[str]) -> RestoreReport:
        if not entry.get("hidden"):
            try:
                return self.workspace.restore(entry["checkpoint"], paths=paths)
            except UnknownPath:
                pass  # one that was not there and that checkpoints leave out: asked for by name below
        with self._open(paths) as workspace:
            return workspace.restore(entry["checkpoint"], paths=paths)

    def _paths(self, row: dict[str, Any]) -> list[str]:
        """Returns what to restore for a path; for one that was not there, the directories that were made for it alone, too."""
        own = row["real"][0]
        if row["was"] != ABSENT:
            return [path for path in row["real"] if path == own or row["was"] == LINK]
        best = own
        at = os.path.dirname(own)
        while "made" in row and at and (at == row["made"] or at.startswith(row["made"] + "/")):
            if self._holds_only(at, own):
                best = at
            at = os.path.dirname(at)
        return [best]

    def _holds_only(self, directory: str, path: str) -> bool:
        wanted = os.path.join(self.workdir, path)
        for here, directories, names in os.walk(os.path.join(self.workdir, directory)):
            for name in (*directories, *names):
                whole = os.path.join(here, name)
                if whole != wanted and not wanted.startswith(whole + "/") and not whole.startswith(wanted + "/"):
                    return False
        return True

    def _stands(self, row: dict[str, Any]) -> bool:
        return os.path.lexists(os.path.join(self.workdir, row["real"][0]))

    def _said(self, row: dict[str, Any], kept: dict[str, str]) -> str:
        path = row["path"]
        if row["real"][0] in kept:
            return f"kept: {path} ({kept[row['real'][0]]})"
        return f"deleted: {path}" if row["was"] == ABSENT else f"restored: {path}"

    # -- looking --------------------------------------------------------------------------------

    def peek(self) -> GhostSnapshot | None:
        """Returns the newest entry, None when the stack is empty."""
        stack = self._stack()
        return self._shown(stack[-1]) if stack else None

    @property
    def depth(self) -> int:
        """How many entries can be undone."""
        return len(self._stack())

    @property
    def history(self) -> list[GhostSnapshot]:
        """Every entry, oldest first."""
        return [self._shown(entry) for entry in self._stack()]

    def clear(self) -> None:
        """Empties the stack; numbers go on, and the checkpoints stay until retention lets them go."""
        self._drop({entry["id"] for entry in self.workspace.note(_STACK, [])})

    def _drop(self, ids: set[str]) -> None:
        if ids:
            self.workspace.update_note(_STACK, lambda old: [entry for entry in old or [] if entry["id"] not in ids])

    def _stack(self) -> list[dict[str, Any]]:
        """Returns the entries whose checkpoints are still there."""
        stack: list[dict[str, Any]] = self.workspace.note(_STACK, [])[-self.max_snapshots :]
        if not stack:
            return []
        there = {checkpoint.id for checkpoint in self.workspace.log(kind="step", match=_MARK)}
        return [entry for entry in stack if "checkpoint" not in entry or entry["checkpoint"] in there]

    def _shown(self, entry: dict[str, Any]) -> GhostSnapshot:
        if entry.get("whole"):
            return self._shown_whole(entry)
        files = {row["path"]: self._text(entry, row) for row in entry["paths"]}
        absent = tuple(row["path"] for row in entry["paths"] if row["was"] == ABSENT)
        return GhostSnapshot(entry["id"], entry["label"], entry["time"], files, absent, entry.get("checkpoint", ""))

    def _shown_whole(self, entry: dict[str, Any]) -> GhostSnapshot:
        """Returns an entry of the whole workspace, with the files that an undo would change now."""
        diff = self.workspace.diff(entry["checkpoint"])
        absent = (*diff.added, *(new for _, new in diff.renamed))
        files = {
            path: self._at(entry, path) for path in (*diff.modified, *diff.deleted, *(old for old, _ in diff.renamed))
        }
        files |= dict.fromkeys(absent, "")
        return GhostSnapshot(entry["id"], entry["label"], entry["time"], files, absent, entry["checkpoint"])

    def _at(self, entry: dict[str, Any], path: str) -> str:
        return self.workspace.cat(entry["checkpoint"], path).decode("utf-8", "surrogateescape")

    def _text(self, entry: dict[str, Any], row: dict[str, Any]) -> str:
        if row["was"] not in (FILE, LINK):
            return ""
        try:
            return self._at(entry, row["real"][0])
        except UnknownPath:
            return ""  # it vanished between the look and the save


def _what(path: str) -> str:
    if os.path.islink(path):
        return LINK
    if os.path.isdir(path):
        return DIRECTORY
    return FILE if os.path.lexists(path) else ABSENT


def _given(saved: Checkpoint | None) -> Checkpoint:
    if saved is None:
        raise RuntimeError("nothing was saved")  # only with if_changed, which is off
    return saved


def _with_paths(settings: Settings, paths: tuple[str, ...]) -> Settings:
    """Returns settings that capture these paths, whatever hides them, and may remove them again."""
    if not paths:
        return settings
    return settings._replace(capture=settings.capture.naming(paths)._replace(certain=paths))
