"""How often a restore is planned again because paths moved under it, and when those are left alone instead."""

from __future__ import annotations

from collections.abc import Collection

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

    def leaves(self, moved: Collection[bytes]) -> bool:
        """Returns whether the restore goes on without these paths."""
        return not self._again or self._moved.issuperset(moved)

    def plans_again(self, moved: Collection[bytes]) -> bool:
        """Notes that an attempt ended because these paths moved; returns whether another follows."""
        if not moved or not self._again:
            return False
        self._again -= 1
        self._moved.update(moved)
        return True
