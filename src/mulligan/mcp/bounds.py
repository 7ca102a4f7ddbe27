"""
How much of a workspace a model gets to see at once, and in which shape.

Every text that comes from files, names or messages is cut to a length and has its control characters written out; every list
is cut to a count and says how many more there are. What is cut can be had by asking for less: a path, an offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from mulligan.present.text import shorten
from mulligan.present.visible import visible

NAME = 200
DESCRIPTION = 2_000
#: Linux has no longer ones; a cut path could not be named again.
PATH = 4_096
TEXT = 20_000
PATHS = 100
ENTRIES = 50
PAGE = 100
MESSAGE = 2_000

_Item = TypeVar("_Item")


def line(text: object, most: int = NAME) -> str:
    """Returns a text as one line that acts on nothing, at most `most` characters long."""
    return shorten(visible(str(text)[: most * 2]), most)


def prose(text: str, most: int = DESCRIPTION) -> str:
    """Returns a text of several lines that acts on nothing, at most `most` characters long."""
    return shorten(visible(text[: most * 2], keep="\n\t"), most)


def path(text: str) -> str:
    """Returns a path as it can be named again, unless it holds characters that act or are not UTF-8."""
    return line(text, PATH)


def some(items: Sequence[_Item], shape: Callable[[_Item], Any], most: int, *, offset: int = 0) -> dict[str, Any]:
    """Returns a part of a list, how many there are in all, and how many follow that part."""
    shown: list[Any] = []
    room = TEXT
    for item in items[offset : offset + most]:
        shown.append(shape(item))
        room -= len(str(shown[-1]))
        if room <= 0:
            break
    return {"items": shown, "total": len(items), "more": max(len(items) - offset - len(shown), 0)}


def piece(text: str, offset: int, most: int = TEXT) -> dict[str, Any]:
    """Returns a part of a long text from an offset on, whole lines where possible, and where the next part begins."""
    end = min(offset + most, len(text))
    if end < len(text):
        end = text.rfind("\n", offset, end) + 1 or end
    while len(shown := visible(text[offset:end], keep="\n\t")) > 2 * most:
        end = offset + (end - offset) // 2  # binary content: one character becomes up to ten
    return {"text": shown, "next_offset": end if end < len(text) else None}


def pairs(values: dict[str, Any], most: int = 20) -> dict[str, str]:
    """Returns a small table of facts as one-line texts."""
    first: Iterable[tuple[str, Any]] = list(values.items())[:most]
    return {line(key, 80): line(value) for key, value in first}
