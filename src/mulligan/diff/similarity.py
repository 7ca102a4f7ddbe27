"""
How much of one text is in another.

As git counts it: a text is a bag of lines, lines longer than 64 bytes cut into pieces, and the similarity is the bytes
found in both over the bytes of the larger. Order does not count, so it is linear, and an estimate.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

_PIECE = re.compile(rb"[^\n]{0,64}\n?")
_SNIFFED = 8000  # where git looks for a NUL


class Fingerprint(NamedTuple):
    """The pieces of a text and how often each occurs."""

    chunks: Counter[bytes]
    size: int


def is_binary(data: bytes) -> bool:
    """Returns whether git would call these bytes binary."""
    return data.find(b"\0", 0, _SNIFFED) >= 0


def fingerprint(data: bytes) -> Fingerprint:
    """Returns the bag of pieces of a text."""
    return Fingerprint(Counter(_PIECE.findall(data)), len(data))


def score(one: Fingerprint, other: Fingerprint) -> int:
    """Returns the similarity of two texts in whole per cent, rounded down; 100 only means that all pieces agree."""
    few, many = (one, other) if len(one.chunks) <= len(other.chunks) else (other, one)
    count = many.chunks.get
    shared = sum(len(piece) * min(times, count(piece, 0)) for piece, times in few.chunks.items())
    return shared * 100 // max(one.size, other.size, 1)
