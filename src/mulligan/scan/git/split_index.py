"""
A split index: a small file with the changes, and a shared one with the rest.

The `link` extension names the shared file and holds two EWAH bitmaps over its entries: those that are gone and those that
are replaced. Positions are bounded by the shared file's entries, so a bitmap cannot claim more than there is.
"""

from __future__ import annotations

import struct

_WORD = 64


class Malformed(ValueError):
    """The bytes are not what the format says."""


def parse_link(data: bytes, limit: int) -> tuple[list[int], list[int]]:
    """Returns the positions of deleted and of replaced shared entries; raises Malformed."""
    if len(data) == 20:  # a shared file without any change
        return [], []
    deleted, at = _bitmap(data, 20, limit)
    replaced, _ = _bitmap(data, at, limit)
    return deleted, replaced


def _bitmap(data: bytes, at: int, limit: int) -> tuple[list[int], int]:
    if at + 8 > len(data):
        raise Malformed("bitmap header")
    words = struct.unpack_from(">I", data, at + 4)[0]
    end = at + 8 + words * 8
    # At the worst, each word of bits has a marker word of its own.
    if end + 4 > len(data) or words > 2 * (limit // _WORD + 1) + 2:
        raise Malformed("bitmap words")
    return _positions(struct.unpack_from(f">{words}Q", data, at + 8), limit), end + 4


def _positions(words: tuple[int, ...], limit: int) -> list[int]:
    found: list[int] = []
    base = at = 0
    while at < len(words):
        marker = words[at]
        run, literals = (marker >> 1) & 0xFFFFFFFF, marker >> 33
        if marker & 1 and run:
            found.extend(range(base, min(base + run * _WORD, limit + 1)))
        base += run * _WORD
        for word in words[at + 1 : at + 1 + literals]:
            if word and base >= limit:
                raise Malformed("bitmap beyond the shared index")
            found.extend(base + bit for bit in range(_WORD) if word >> bit & 1)
            base += _WORD
        at += 1 + literals
    if found and found[-1] >= limit:
        raise Malformed("bitmap beyond the shared index")
    return found


def merge(
    shared: tuple[list[bytes], list[bytes]], own: tuple[list[bytes], list[bytes]], link: bytes
) -> tuple[list[bytes], list[bytes]]:
    """Returns names and heads of the whole index from those of its two files; raises Malformed."""
    names, heads = list(shared[0]), list(shared[1])
    deleted, replaced = parse_link(link, len(names))
    if len(replaced) > len(own[0]):
        raise Malformed("more replacements than entries")
    for position, name, head in zip(replaced, own[0], own[1], strict=False):
        if name:
            raise Malformed("a replacement with a name")
        heads[position] = head
    gone = set(deleted)
    kept = [at for at in range(len(names)) if at not in gone]
    added = len(replaced)
    return [names[at] for at in kept] + own[0][added:], [heads[at] for at in kept] + own[1][added:]
