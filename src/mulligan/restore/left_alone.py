"""
Paths of a plan that are left alone: which others depend on them, when a path that keeps changing becomes one, and the result.

A directory stays when something stays in it, and nothing is made in the place of what stays. The files of a database belong
together: none of them is restored without the others.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from mulligan.model.paths import ancestors, to_text
from mulligan.model.plan import Action, Keep, RestorePlan
from mulligan.restore.place import is_absence
from mulligan.scan.scope import database_family

BUSY = "busy"


def busy(paths: Iterable[bytes], detail: str = "") -> dict[bytes, Keep]:
    """Returns what is listed for paths that keep changing."""
    return {path: Keep(to_text(path), BUSY, detail, failed=True) for path in paths}


def left_out(actions: Sequence[Action], why: Mapping[bytes, Keep]) -> tuple[set[int], list[Keep]]:
    """Returns the numbers of the actions that are not taken without those at some paths, and what is listed instead."""
    listed = dict(why)
    planned = {action.path for action in actions}
    for path, keep in why.items():
        for sibling in planned.intersection(database_family(path)):
            listed.setdefault(sibling, replace(keep, path=to_text(sibling), detail=f"it belongs to {keep.path}"))
    numbers = set()
    for number, action in enumerate(actions):
        above = next((each for each in (action.path, *ancestors(action.path)) if each in listed), None)
        if above is not None:
            numbers.add(number)
            if action.path not in listed:
                listed[action.path] = replace(listed[above], path=to_text(action.path))
    staying = {above for number in numbers if actions[number].before for above in ancestors(actions[number].path)}
    for number, action in enumerate(actions):
        if action.path not in staying or number in numbers:
            continue
        if action.after is None:
            numbers.add(number)
        elif action.before is None and not action.after.is_dir:
            numbers.add(number)
            detail = "a directory that must stay is in its place"
            listed[action.path] = Keep(to_text(action.path), "not empty", detail, failed=True)
    return numbers, [listed[path] for path in sorted(listed)]


def remaining(plan: RestorePlan, why: Mapping[bytes, Keep]) -> RestorePlan:
    """Returns a plan without some paths, which it lists instead."""
    numbers, kept = left_out(plan.actions, why)
    actions = tuple(action for number, action in enumerate(plan.actions) if number not in numbers)
    return replace(plan, actions=actions, keeps=(*plan.keeps, *kept))


def agreed(promised: RestorePlan, plan: RestorePlan) -> RestorePlan:
    """Returns what an earlier plan and one that was made now have in common; the paths where they differ are listed."""
    moved = {action.path for action in {*promised.actions} ^ {*plan.actions}}
    common = [action for action in plan.actions if action in {*promised.actions}]
    return remaining(replace(plan, actions=tuple(common)), busy(sorted(moved), "it changed after the plan was made"))


# How often a restore is planned again because paths moved under it.
_MOST_REPLANS = 2


class Attempts:
    """
    Counts the attempts at one restore.

    A path that moved in two attempts keeps changing: the restore goes on without it. So does the last attempt without all
    that moved in it.
    """

    def __init__(self, again: int = _MOST_REPLANS) -> None:
        self._again = again
        self._moved: set[bytes] = set()
        self._restless: set[bytes] = set()

    def leaves(self, moved: Collection[bytes]) -> bool:
        """Returns whether the restore goes on without these paths."""
        return not self._again or self._moved.issuperset(moved)

    def plans_again(self, moved: Collection[bytes]) -> bool:
        """Notes that an attempt ended because these paths moved; returns whether another follows."""
        if not moved or not self._again:
            return False
        self._again -= 1
        self._restless |= self._moved.intersection(moved)
        self._moved.update(moved)
        return True

    def gave_up(self, actions: Sequence[Action]) -> tuple[bytes, ...]:
        """Returns the paths of some actions if all of them kept changing: such a restore would change nothing."""
        paths = {action.path for action in actions}
        return tuple(sorted(paths)) if paths and paths <= self._restless else ()


class RestoreOutcome:
    """What became of a plan."""

    def __init__(self, kept: Sequence[Keep] = ()) -> None:
        self.created: list[str] = []
        self.modified: list[str] = []
        self.deleted: list[str] = []
        self.kept = list(kept)


def reason_of(error: OSError) -> tuple[str, str]:
    """Returns the reason and the detail that are listed for a path whose change failed."""
    if error.errno == errno.EBUSY:
        return "a mount point", ""
    if is_absence(error):
        return BUSY, "a directory above it is not what it was"
    return "not writable", error.strerror or ""
