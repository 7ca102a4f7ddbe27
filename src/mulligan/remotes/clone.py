"""Cloning: a timeline from a remote, picked up in a new directory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.errors import RemoteFailed, UserError
from mulligan.model.checkpoint import Checkpoint
from mulligan.model.paths import parse_path
from mulligan.model.plan import is_agent_settings
from mulligan.safefs.directory import Directory
from mulligan.safefs.durable import make_directories

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace

ORIGIN = "origin"


class Cloned(NamedTuple):
    """What a clone did: how many checkpoints came, which one the files are of, and what was not written."""

    checkpoints: int
    machines: tuple[str, ...]
    restored: Checkpoint | None
    files: int
    withheld: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    kept: tuple[tuple[str, str], ...] = ()
    only_remote: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "pulled": self.checkpoints,
            "machines": list(self.machines),
            "checkpoint": self.restored.to_dict() if self.restored else None,
            "files": self.files,
            "withheld": list(self.withheld),
            "refused": [{"checkpoint": name, "reason": why} for name, why in self.refused],
            "kept": [{"path": path, "reason": why} for path, why in self.kept],
            "only_remote": self.only_remote,
        }


def make_empty(directory: str) -> None:
    """Makes a directory for a clone; raises UserError where something is in it."""
    try:
        make_directories(os.path.abspath(directory), 0o755)
        with Directory.open(os.path.realpath(directory)) as made:
            strange = made.names()
    except (FileExistsError, NotADirectoryError):
        raise UserError(
            f"{directory} is a file. Nothing was made.", hint="Name a directory that is new or empty."
        ) from None
    if strange:
        raise UserError(
            f"{directory} is not empty. Nothing was changed.", hint="Name a directory that is new or empty."
        )


def clone_into(workspace: Workspace, url: str, *, timeline: str = "", trusted: bool = False, **options: Any) -> Cloned:
    """
    Pulls a timeline into a workspace that has no history, restores its newest checkpoint and adds the remote `origin`.

    Settings of agents, which can start programs, are written only if the remote is `trusted`; they are listed otherwise.
    With `lazy` among the options, the contents of the other checkpoints stay on the remote until they are needed.
    """
    remotes = workspace.remotes
    if workspace.log(limit=1) or remotes.list():
        raise UserError(
            f"{workspace.root} has a history already. Nothing was changed.", hint="mulligan remote add NAME URL"
        )
    remotes.begin_clone(ORIGIN, url, timeline=timeline, **options)
    report = remotes.pull(ORIGIN)
    found = [each for each in workspace.log() if each.kind != "safety"]
    if not found:
        if report.refused:
            raise RemoteFailed(f"No checkpoint of {url} could be believed: {report.refused[0][1]}")
        return Cloned(report.checkpoints, report.machines, None, 0, (), report.refused)
    newest = found[0]
    plan = workspace.plan(newest)
    made = [path for path in plan.creates if trusted or not is_agent_settings(parse_path(path))]
    withheld = tuple(path for path in plan.creates if path not in set(made))
    written = workspace.restore(newest, paths=made if withheld else None) if made else None
    workspace.save(f"clone of {newest.machine}:{newest.name or newest.short_id}", kind="manual", if_changed=True)
    count = len(written.created) if written is not None else 0
    kept = tuple((keep.path, f"{keep.reason}: {keep.detail}".strip(": ")) for keep in written.kept) if written else ()
    there = sum(bool(each.held_by) for each in workspace.log())
    return Cloned(report.checkpoints, report.machines, newest, count, withheld, report.refused, kept, there)


def clone(
    url: str,
    directory: str | os.PathLike[str],
    *,
    store: str | os.PathLike[str] | None = None,
    lazy: bool = False,
) -> Workspace:
    """
    Picks up a timeline from a remote in a directory that is new or empty; settings of agents are not written.

    With `lazy`, the contents of older checkpoints are fetched when a verb needs them.
    """
    from mulligan.engine.workspace import Workspace
    from mulligan.settings import resolve

    make_empty(os.fspath(directory))
    workspace = Workspace(resolve(directory, store=store))
    clone_into(workspace, url, lazy=lazy)
    return workspace
