"""
Words for people: counts, times, columns, colour.

Pure functions: the present moment, the width and whether colour is wanted are parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

Paint = Callable[[int, int, str], str]

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
_UNITS = ((60, "s", "s"), (60, "min", "min"), (24, "h", "h"), (7, "day", "days"), (5, "week", "weeks"))


class Style:
    """Colour, or the absence of it."""

    __slots__ = ("enabled",)

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled

    def __call__(self, how: str, text: str) -> str:
        """Returns the text in one of the known ways (`bold`, `dim`, or a colour), plain where colour is off."""
        return f"\x1b[{_CODES[how]}m{text}\x1b[0m" if self.enabled and text else text


PLAIN = Style(enabled=False)


def count(number: int, noun: str, plural: str = "") -> str:
    """Returns `1 file`, `2 files`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def ago(then: datetime, now: datetime) -> str:
    """Returns how long ago a moment was, in one unit: `just now`, `3 min ago`; the date when it is over a month."""
    seconds = (now - then).total_seconds()
    if seconds < 0:
        # A clock that was set back: a date is true whatever the clock says now.
        return "just now" if seconds > -60 else date(then)
    if seconds < 5:
        return "just now"
    amount = int(seconds)
    for size, noun, plural in _UNITS:
        if amount < size:
            return count(amount, noun, plural) + " ago"
        amount //= size
    return date(then)


def date(moment: datetime) -> str:
    """Returns a moment as local date and time, to the second."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def minute(moment: datetime) -> str:
    """Returns a moment as local date and time, to the minute."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def some(items: Sequence[str], most: int = 3, *, of: int | None = None) -> str:
    """Returns the first few, and how many more there are (of `of`, where not all were handed over)."""
    shown, total = items[:most], len(items) if of is None else of
    return ", ".join(shown) + (f", +{total - len(shown):,} more" if total > len(shown) else "")


def shorten(text: str, width: int) -> str:
    """Returns the text in at most `width` characters, an ellipsis where something was cut."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def columns(
    rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset(), paint: Paint | None = None
) -> list[str]:
    """
    Returns rows as lines with aligned columns.

    The last column is never padded, those in `right` end together; `paint(row, column, text)` colours a padded cell.
    """
    if not rows:
        return []
    from mulligan.present.visible import columns as measure

    widths = [max(measure(row[at]) for row in rows) for at in range(len(rows[0]))]
    last = len(widths) - 1

    def cell(row: int, at: int, text: str) -> str:
        blanks = " " * (widths[at] - measure(text))
        padded = blanks + text if at in right else text if at == last else text + blanks
        return paint(row, at, padded) if paint else padded

    return ["  ".join(cell(row, at, text) for at, text in enumerate(cells)).rstrip() for row, cells in enumerate(rows)]


def bar(share: float, width: int = 20, *, ascii_only: bool = False) -> str:
    """Returns a bar for a share between 0 and 1: one block of twenty is five percent; in ASCII where blocks cannot be shown."""
    filled, (full, empty) = min(width, round(share * width)), "#." if ascii_only else "█░"
    return full * filled + empty * (width - filled)


def new_key_words(file: str) -> str:
    """Returns what to say to a person for whose secrets a key was made."""
    return f"A new key for your secrets was made: {file}. Keep a copy: mulligan key export FILE"


def moved_words(old: str) -> str:
    """Returns what to say to a person whose project was moved, and its history was not."""
    return f"This project was at {old} before. To take over its history: mulligan adopt {old}"
