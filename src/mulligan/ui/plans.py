"""
Plans: what the page may do to files, and nothing else.

A plan is made by the engine and shown; applying it takes its digest, and only the page that was shown it may do so. A plan is
applied at most once.
"""

from __future__ import annotations

import os
import re
import shlex
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.errors import PlanStale, UserError
from mulligan.present.visible import visible
from mulligan.ui import forks
from mulligan.ui.changes import LONGEST_LINE

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.model.plan import RestorePlan, RestoreReport
    from mulligan.steps.hunk import FileHunks

_MOST = 32
_PATHS = 10_000
_PREVIEWED, _LINES = 1000, 20_000
_NAMED = 20


class AskedPlan(NamedTuple):
    """What a page wants a plan of: the verb, its reference, and the paths or hunks that it is limited to."""

    verb: str
    ref: str = ""
    paths: list[str] | None = None
    hunks: list[str] | None = None


class PagePlans:
    """The plans that were shown and not applied yet, each with the page it was shown to."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._shown: dict[tuple[str, str], RestorePlan] = {}
        self._lock = Lock()

    def show(self, page: str, wanted: AskedPlan) -> dict[str, Any]:
        """Makes a plan and returns it for the page, with the command line that does the same."""
        plan, command = self._keep(wanted) if wanted.verb == "keep" else (self._make(wanted), command_of(wanted))
        with self._lock:
            self._shown.pop((page, plan.digest), None)
            self._shown[page, plan.digest] = plan
            while len(self._shown) > _MOST:
                del self._shown[next(iter(self._shown))]
        return {"plan": {"command": command, "verb": wanted.verb, **_bounded(plan.to_dict())}}

    def _keep(self, wanted: AskedPlan) -> tuple[RestorePlan, str]:
        """Returns the plan of keeping a fork, whole or some paths of it, and the command line that does it."""
        fork, brought = forks.bring(self._workspace, wanted.ref)
        plan = self._workspace.plan(brought, paths=wanted.paths, hunks=wanted.hunks)
        if wanted.paths is None and wanted.hunks is None:
            place = os.path.relpath(fork.directory, self._workspace.root)
            return plan, visible(shlex.join(["mulligan", "keep", place]))
        return plan, command_of(wanted._replace(verb="restore", ref=brought.id))

    def _make(self, wanted: AskedPlan) -> RestorePlan:
        limits: dict[str, Any] = {"paths": wanted.paths, "hunks": wanted.hunks}
        if wanted.verb == "undo":
            return self._workspace.undo(dry_run=True, **limits)
        if wanted.verb == "redo":
            return self._workspace.redo(dry_run=True)
        if not wanted.ref or wanted.verb not in {"restore", "revert"}:
            raise UserError("A plan needs a `verb` (restore or revert) and a checkpoint, `ref`. Nothing was changed.")
        if wanted.verb == "revert":
            return self._workspace.revert(wanted.ref, dry_run=True, **limits)
        return self._workspace.plan(wanted.ref, **limits)

    def preview(self, page: str, digest: str) -> dict[str, Any]:
        """Returns the hunks of a plan that this page was shown: what each file would become."""
        files = self._workspace.hunks(self._find(page, digest))
        return {"files": [_preview(each) for each in files[:_PREVIEWED]], "left_out": max(len(files) - _PREVIEWED, 0)}

    def apply(self, page: str, digest: str) -> dict[str, Any]:
        """Applies a plan that this page was shown; paths that moved since are left alone and listed."""
        plan = self._find(page, digest, forget=True)
        return {"report": reported(self._workspace.apply(plan, strict=False))}

    def _find(self, page: str, digest: str, *, forget: bool = False) -> RestorePlan:
        with self._lock:
            plan = self._shown.get((page, digest))
            if plan is None:
                raise PlanStale(
                    "This plan was applied already, or this page was not shown it. Nothing was changed.",
                    hint="Make the plan again.",
                )
            if forget:
                del self._shown[page, digest]
        return plan


def _preview(file: FileHunks) -> dict[str, Any]:
    """Returns the hunks of a file in the form of a difference; `id` is what a plan takes."""
    hunks = [
        {
            "id": hunk.id,
            "old": hunk.old_start,
            "new": hunk.new_start,
            "about": hunk.note,
            "lines": [(line.tag + line.text.rstrip("\n"))[:LONGEST_LINE] for line in hunk.lines[:_LINES]],
        }
        for hunk in file.hunks
    ]
    lines = [line.tag for hunk in file.hunks for line in hunk.lines]
    status = {"create": "added", "delete": "deleted"}.get(file.change, "modified")
    counts = {"additions": lines.count("+"), "deletions": lines.count("-")}
    return {"path": file.path, "status": status, "hunks": hunks, **counts}


def reported(report: RestoreReport) -> dict[str, Any]:
    """Returns a report for the page: without agent state, which may hold anything."""
    return {**_bounded(report.to_dict()), "state": {}, "complete": report.complete}


def _bounded(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a document whose lists are not longer than a page shows, and how long they are."""
    lists = {name: value for name, value in document.items() if isinstance(value, list)}
    cut = {name: value[:_PATHS] for name, value in lists.items()}
    return {**document, **cut, "counts": {name: len(value) for name, value in lists.items()}}


def command_of(wanted: AskedPlan) -> str:
    """Returns the command line that does what a plan does; long lists of paths are cut."""
    ref = wanted.ref[:8] if re.fullmatch(r"[0-9a-f]{12,}", wanted.ref) else wanted.ref
    words = ["mulligan", wanted.verb, *([ref] if ref else []), *(["-p"] if wanted.hunks is not None else [])]
    if wanted.paths:
        words += ["--", *wanted.paths[:_NAMED]]
    return visible(shlex.join(words)) + (" …" if wanted.paths and len(wanted.paths) > _NAMED else "")


def texts(value: Any, what: str) -> list[str] | None:
    """Returns a list of texts from a request; raises UserError for anything else."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise UserError(f"{what} is a list of texts. Nothing was changed.")
    return value
