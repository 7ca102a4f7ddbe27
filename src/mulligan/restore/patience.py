"""How often a restore is planned again because paths moved under it, and when those are left alone instead."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mulligan.model.plan import Action

_AGAIN = 2


class Patience:
    """
    Counts the attempts at one restore.

    A path that moved in two attempts keeps changing: the restore goes on without it. So does the last attempt without all
    that moved in it.
    """

    def __init__(self, again: int = _AGAIN) -> None:
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
