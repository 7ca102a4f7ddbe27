"""
JSON and deflated lists out of a store, read within bounds.

A store may be hostile: a few kilobytes can inflate to gigabytes, and a few megabytes of
brackets become as many lists. What is written passes the same bounds, so that it can always be read back.
"""

from __future__ import annotations

import json
import re
import zlib
from itertools import islice
from typing import Any

# Python's size of an empty list, an empty dictionary, and a place in one with a small value.
_LIST, _DICT, _PLACE = 64, 232, 40
#: What the values of one document may take in memory, about.
MOST_MEMORY = 160 << 20
# Lists of names deflate by ten, rarely by thirty; a thousand is what zeros do.
_RATIO = 100
_SMALL = 8 << 20
# A text of a list as it is written, with what stands before it, and as many of them as follow each other.
_TEXT = rb'[\[,]("[^"\\]*(?:\\.[^"\\]*)*")'
_TEXTS = rb'(?:[\[,]"[^"\\]*(?:\\.[^"\\]*)*")*'
_PIECE = 64 << 10


def read_json(text: str | bytes, most: int = MOST_MEMORY) -> Any:
    """Returns the value of a JSON document; raises ValueError where there is none, or it would fill the memory."""
    if text == "{}":  # most of what a checkpoint says
        return {}
    if weight(text) > most:
        raise ValueError("it is too large to be read")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def unpack(packed: bytes) -> Any:
    """Returns the value of a deflated JSON document; one that is long on the disk already may be long in memory."""
    return read_json(inflate(packed), max(MOST_MEMORY, _RATIO * len(packed)))


def weight(text: str | bytes) -> int:
    """Returns about how many bytes of memory the values of a JSON document take, at most."""
    if isinstance(text, str):
        return len(text) + _LIST * text.count("[") + _DICT * text.count("{") + _PLACE * text.count(",")
    return len(text) + _LIST * text.count(b"[") + _DICT * text.count(b"{") + _PLACE * text.count(b",")


def inflate(packed: bytes) -> bytes:
    """Returns bytes inflated; raises ValueError where they are damaged, or far more than such lists ever are."""
    most = max(_SMALL, _RATIO * len(packed))
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(packed, most)
        if stream.unconsumed_tail:
            raise ValueError("it inflates to far more than it can hold")
        data += stream.flush()
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not stream.eof or stream.unused_data:
        raise ValueError("it is truncated or followed by something else")
    return data


def beginning(packed: bytes, most: int) -> tuple[list[str], int] | None:
    """
    Returns the first texts of a deflated list and their number; holds only a piece in memory.

    None where that is unknown: it is no list of short texts, or damaged. Reading all of it reports the reason.
    """
    stream, data, rest, left = zlib.decompressobj(), packed, b"", max(_SMALL, _RATIO * len(packed))
    found: list[str] = []
    count = 0
    try:
        while data and left > 0 and len(rest) < _PIECE:
            piece = rest + stream.decompress(data, _PIECE)
            left, data = left - len(piece) + len(rest), stream.unconsumed_tail
            match = re.match(_TEXTS, piece)
            texts, rest = (match[0], piece[match.end() :]) if match else (b"", piece)
            if len(found) < most:
                found += [json.loads(each[1]) for each in islice(re.finditer(_TEXT, texts), most - len(found))]
            count += texts.count(b'"') // 2 if b"\\" not in texts else len(re.findall(_TEXT, texts))
    except (ValueError, zlib.error):
        return None
    return (found, count) if count and rest == b"]" and stream.eof and not stream.unused_data else None
