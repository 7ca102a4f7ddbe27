"""
What a model is shown: checkpoints, differences, plans and reports as small values.

Nothing here is longer than `bounds` allows, and agent state (conversations) is never shown: it may hold anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mulligan.mcp import bounds
from mulligan.model.checkpoint import Checkpoint, NotCaptured
from mulligan.model.diff import Diff
from mulligan.model.plan import Conflict, Keep, RestorePlan, RestoreReport, Undone

if TYPE_CHECKING:
    from mulligan.forks.state import ForkState
    from mulligan.history.blame import BlamedLine
    from mulligan.history.search import Match
    from mulligan.timeline.story import Chapter, Happening

View = dict[str, Any]


def summary(checkpoint: Checkpoint, position: str | None) -> View:
    """Returns a checkpoint for a list."""
    return {
        "id": checkpoint.id,
        "name": bounds.line(checkpoint.name),
        "description": bounds.prose(checkpoint.description, 300),
        "kind": checkpoint.kind,
        "created_at": checkpoint.created_at.isoformat(),
        "parent": checkpoint.parent,
        "files_changed": len(checkpoint.files_changed),
        "complete": checkpoint.complete,
        "is_position": checkpoint.id == position,
    }


def details(checkpoint: Checkpoint, position: str | None) -> View:
    """Returns everything about a checkpoint but contents and agent state."""
    return {
        **summary(checkpoint, position),
        "description": bounds.prose(checkpoint.description),
        "files_changed": _listed(checkpoint.files_changed),
        "not_captured": bounds.some(checkpoint.not_captured, left_out, bounds.ENTRIES),
        "git": _git(checkpoint),
        "context": bounds.pairs(checkpoint.context),
    }


def _listed(paths: Sequence[str]) -> View:
    return bounds.some(paths, bounds.path, bounds.PATHS)


def _git(checkpoint: Checkpoint) -> View | None:
    if checkpoint.git is None:
        return None
    return {"branch": bounds.line(checkpoint.git.branch), "commit": bounds.line(checkpoint.git.commit_hash)}


def left_out(entry: NotCaptured | Keep) -> View:
    """Returns a path that is not captured, or kept as it is, with the reason."""
    return {"path": bounds.path(entry.path), "reason": entry.reason, "detail": bounds.line(entry.detail)}


def difference(diff: Diff, *, patch: bool, offset: int) -> View:
    """Returns what differs, by path, and a part of the patch."""
    view = {
        "from": diff.from_,
        "to": diff.to,
        "added": _listed(diff.added),
        "modified": _listed(diff.modified),
        "deleted": _listed(diff.deleted),
        "renamed": bounds.some(diff.renamed, _pair, bounds.PATHS),
        "patch": None,
    }
    if patch and not diff.is_empty:
        view["patch"] = bounds.piece(diff.patch, offset)
    return view


def _pair(pair: tuple[str, str]) -> View:
    return {"from": bounds.path(pair[0]), "to": bounds.path(pair[1])}


def planned(plan: RestorePlan, plan_id: str, target: Checkpoint) -> View:
    """Returns what a restore would do."""
    return {
        "plan_id": plan_id,
        "target": {"id": target.id, "name": bounds.line(target.name), "created_at": target.created_at.isoformat()},
        "nothing_to_do": plan.is_noop,
        **_to_change(plan),
    }


def to_revert(plan: RestorePlan, plan_id: str) -> View:
    """Returns what a revert of one step would do."""
    return {"plan_id": plan_id, "reverts": _operation(plan.undone), "nothing_to_do": plan.is_noop, **_to_change(plan)}


def to_undo(plan: RestorePlan) -> View:
    """Returns what an undo would do."""
    return {"preview": True, "undoes": _operation(plan.undone), **_to_change(plan)}


def _operation(undone: Undone | None) -> View | None:
    """Returns which operation an undo or a redo is about."""
    if undone is None:
        return None
    return {
        "kind": undone.kind,
        "checkpoint": undone.checkpoint or None,
        "at": undone.at.isoformat() if undone.at is not None else None,
        "prompt": undone.prompt or None,
        "text": bounds.line(undone.text),
        "agent": bounds.line(undone.agent),
        "session": bounds.line(undone.session),
        "running": undone.running,
    }


def _to_change(plan: RestorePlan) -> View:
    return {
        "creates": _listed(plan.creates),
        "modifies": _listed(plan.modifies),
        "deletes": _listed(plan.deletes),
        "keeps": bounds.some(plan.keeps, left_out, bounds.ENTRIES),
        "conflicts": bounds.some(plan.conflicts, _conflict, bounds.ENTRIES),
    }


def _conflict(conflict: Conflict) -> View:
    return {"path": bounds.path(conflict.path), "reason": bounds.line(conflict.reason)}


def reported(report: RestoreReport) -> View:
    """Returns what a restore did."""
    return {
        "target": report.target,
        "created": _listed(report.created),
        "modified": _listed(report.modified),
        "deleted": _listed(report.deleted),
        "kept": bounds.some(report.kept, left_out, bounds.ENTRIES),
        "lost": bounds.some(report.lost, left_out, bounds.ENTRIES),
        "conflicts": bounds.some(report.conflicts, _conflict, bounds.ENTRIES),
        "undone": _operation(report.undone),
        "complete": report.complete,
        "saved_before": report.undo,
    }


def answer(found: BlamedLine | ForkState | Match) -> View:
    """Returns a line with its maker, a match of a search, or a fork."""
    return {name: bounds.line(each) if isinstance(each, str) else each for name, each in found.to_dict().items()}


def chapter(told: Chapter) -> View:
    """Returns what an agent did for one prompt."""
    return {
        "ref": f"@{told.session}/prompt-{told.prompt}",
        "agent": bounds.line(told.agent),
        "session": bounds.line(told.session),
        "prompt": told.prompt,
        "text": bounds.prose(told.text, 300),
        "at": told.at,
        "ended": told.ended,
        "undone": told.undone,
        "is_position": bool(told.here),
        "calls": bounds.some(told.happened, _call, bounds.ENTRIES),
    }


def _call(happening: Happening) -> View:
    return {
        "tool": happening.number,
        "name": bounds.line(happening.name),
        "text": bounds.line(happening.text),
        "at": happening.at,
        "outcome": happening.outcome,
        "checkpoint": happening.checkpoint or None,
        "changed": bounds.some(happening.changed, bounds.path, 20),
    }


def standing(status: dict[str, Any]) -> View:
    """Returns the state of protection."""
    missing = [NotCaptured(row["path"], row["reason"], row["detail"]) for row in status["not_captured"]]
    plain = ("checkpoints", "by_kind", "bytes", "budget", "position", "files", "unsaved", "complete", "pending")
    return {
        "workspace": bounds.path(status["workspace"]),
        **{key: status[key] for key in plain},
        "not_captured": bounds.some(missing, left_out, bounds.ENTRIES),
        "warnings": [bounds.line(warning, bounds.MESSAGE) for warning in status["warnings"][:10]],
    }
