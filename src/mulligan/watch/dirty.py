"""
Where a walk has to look: everywhere, or where something happened since the stat cache was written.

May name too much, never too little.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

Names = frozenset[bytes] | None  # None: the directory as a whole
_NOTHING: Mapping[bytes, frozenset[bytes]] = MappingProxyType({})


class Dirty(NamedTuple):
    """
    The directories to look at, each with the names in it that may have changed, None for all of them.

    What is remembered of the names that were `written` proves nothing. Of those that are `deep`, everything below is looked
    at too. In those that are `moving`, names came or went while they were looked at.
    """

    places: Mapping[bytes, Names]
    written: Mapping[bytes, frozenset[bytes]] = _NOTHING
    deep: frozenset[bytes] = frozenset()
    moving: tuple[bytes, ...] = ()


EVERYTHING = Dirty({b"": None}, deep=frozenset({b""}))
