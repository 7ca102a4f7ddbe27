"""What a restore, undo, redo or revert was asked for, and the plan that was promised for it, if it was shown before."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from mulligan.errors import ContentsElsewhere, PlanStale, UserError
from mulligan.model.paths import parse_path, to_text
from mulligan.model.plan import PlanRequest

if TYPE_CHECKING:
    from mulligan.model.plan import RestorePlan
    from mulligan.restore.reach import Attempts

Paths = Iterable[str | os.PathLike[str]]
#: Ids of hunks.
Hunks = Collection[str]
WHAT = ("files", "state", "all")
Verb = TypeVar("Verb", bound=Callable[..., Any])


def with_contents(verb: Verb) -> Verb:
    """Returns a verb that fetches contents which are on a remote, and then runs again."""

    @wraps(verb)
    def fetching(*args: Any, **more: Any) -> Any:
        try:
            return verb(*args, **more)
        except ContentsElsewhere as missing:
            from mulligan.engine.elsewhere import fetch_and_repeat

            return fetch_and_repeat(verb, missing, *args, **more)

    return cast("Verb", fetching)


class Promise(NamedTuple):
    """A plan that was shown: exactly this is done, or without `strict` those paths of it that did not move."""

    plan: RestorePlan
    strict: bool = True

    def agreed(self, plan: RestorePlan) -> RestorePlan:
        """Returns what is done of a plan that was made now; raises PlanStale where it is not the promised one."""
        if not self.strict and self.plan.is_same_operation(plan):
            from mulligan.restore.reach import agreed

            return agreed(self.plan, plan)
        if not self.plan.is_as(plan):
            raise PlanStale(
                "The workspace is no longer what the plan was made for. Nothing was changed.",
                hint="Plan again: run the same command with --dry-run",
            )
        return plan

    def attempts(self) -> Attempts | None:
        """Returns how paths are treated that move while the plan is applied."""
        from mulligan.restore.reach import Attempts

        return None if self.strict else Attempts(0)


class Asked(NamedTuple):
    """What was asked for: some paths or hunks only, git too, only the plan, what becomes of conflicts, a promised plan."""

    paths: tuple[bytes, ...] | None = None
    git: bool = False
    dry_run: bool = False
    hunks: tuple[str, ...] | None = None
    conflicts: str = "keep"
    promise: Promise | None = None

    @property
    def is_partial(self) -> bool:
        """Whether only a part of an operation is meant."""
        return self.paths is not None or self.hunks is not None

    def planned(self, plan: RestorePlan, verb: str, ref: str = "", session: str | None = None) -> RestorePlan:
        """Returns a plan that says what it was made for."""
        paths = tuple(map(to_text, self.paths)) if self.paths is not None else None
        asked = PlanRequest(verb, ref, session, paths, plan.what, self.git, self.hunks, self.conflicts)
        return replace(plan, request=asked)

    def agreed(self, plan: RestorePlan) -> RestorePlan:
        """Returns what is done of a plan that was made now."""
        return self.promise.agreed(plan) if self.promise is not None else plan


def parse_asked(paths: Paths | None, hunks: Hunks | None, what: str = "files", *, git: bool = False) -> Asked:
    """Returns what a caller asked for, its paths safe; raises UserError where it cannot be combined."""
    return Asked(parse_paths(paths, what, git=git), git, hunks=_parse_hunks(hunks, git=git))


def parse_paths(paths: Paths | None, what: str = "files", *, git: bool = False) -> tuple[bytes, ...] | None:
    """Returns paths that a caller gave, safe; raises UserError where they cannot be combined with the rest."""
    if what not in WHAT:
        raise UserError(f"what is one of {', '.join(WHAT)}, not {what!r}. Nothing was changed.")
    if git and (paths is not None or what == "state"):
        raise UserError("Git goes back with all files, not with some paths or with state alone. Nothing was changed.")
    if isinstance(paths, str | bytes | os.PathLike):
        raise TypeError("paths is a list of paths, not one path")
    return None if paths is None else tuple(parse_path(path) for path in paths)


def _parse_hunks(hunks: object, *, git: bool) -> tuple[str, ...] | None:
    if hunks is None:
        return None
    if isinstance(hunks, str) or not isinstance(hunks, list | tuple | set | frozenset):
        raise TypeError("hunks is a list of the ids that Workspace.hunks returns")
    if git:
        raise UserError("Git goes back with all files, not with some hunks. Nothing was changed.")
    return tuple(sorted({str(each) for each in hunks}))
