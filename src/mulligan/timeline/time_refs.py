"""
Times as references: `20 minutes ago`, `yesterday`, `@14:05`, `2026-11-18T14:05`.

Pure. A text means a span, from the first to the last nanosecond that it names: `14:05` is a minute, `yesterday` a day,
`20 minutes ago` an instant. A reference means the end of its span, so that a time read in `log --time` finds what it stands
beside. Times without a zone are local.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from mulligan.errors import UnknownCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from mulligan.timeline.commits import Entry

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_LAST = (1 << 63) - 1  # what a column of SQLite has room for
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_UNIT = r"(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?|months?|years?)(?![a-z])"
_AMOUNT = rf"(\d{{1,6}}(?=\s*[a-z])|an?(?=\s))\s*{_UNIT}(?:\s*,?\s*(?:and\s+)?(?=\d|an?\s))?"
_AGO = re.compile(rf"((?:{_AMOUNT})+)\s+ago")
_CLOCK = r"(\d{1,2}):(\d{2})(?::(\d{2}))?"
_OF_DAY = re.compile(rf"(?:(today|yesterday)(?:\s+(?:at\s+)?{_CLOCK})?|{_CLOCK})")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ t](\d{2}):?(\d{2})(:?\d{2})?([.,]\d{1,9})?\s*(?:z|[+-]\d{2}(?::?\d{2})?)?)?")


class Span(NamedTuple):
    """The first and the last nanosecond since 1970 that a text about a time means."""

    start: int
    end: int


def parse_time(text: str, now_ns: int) -> Span | None:
    """Returns the time that a text means, None for a text that is not about a time."""
    words = " ".join(text.removeprefix("@").lower().split())
    try:
        found = _ago(words, now_ns) or _of_day(words, now_ns) or _iso(words)
    except (ValueError, OverflowError, OSError):
        return None  # the 30th of February, 25:00, a million years ago
    return Span(*(min(max(at, 0), _LAST) for at in found)) if found is not None else None


def find_at(text: str, now_ns: int, select: Callable[..., list[Entry]]) -> Entry | None:
    """Returns the newest checkpoint at or before a time, None for other text; raises UnknownCheckpoint where none is that old."""
    span = parse_time(text, now_ns)
    if span is None:
        return None
    found = select("WHERE created_ns<=? ORDER BY created_ns DESC, seq DESC LIMIT 1", span.end)
    oldest = [] if found else select("ORDER BY created_ns, seq LIMIT 1")
    if not oldest:
        return found[0] if found else None
    first = oldest[0].checkpoint
    raise UnknownCheckpoint(
        f"No checkpoint is as old as {text!r}. The oldest, {first.short_id}, was saved at "
        f"{first.created_at.astimezone():%Y-%m-%d %H:%M:%S}. Nothing was changed.",
        hint="See the times of all: mulligan log --time",
    )


def _ago(words: str, now_ns: int) -> Span | None:
    match = _AGO.fullmatch(words)
    if match is None:
        return None
    at, now = now_ns, _local(now_ns)
    for amount, unit in re.findall(_AMOUNT, match[1]):
        number = 1 if amount in {"a", "an"} else int(amount)
        if unit.startswith(("month", "year")):
            at -= now_ns - nanoseconds(_months_before(now, number * (12 if unit.startswith("year") else 1)))
        else:
            at -= number * _SECONDS[unit[0]] * 1_000_000_000
    return Span(at, at)


def _months_before(now: datetime, number: int) -> datetime:
    """Returns the same day and time some months earlier, or the last day of a month that is too short."""
    year, month = divmod(now.year * 12 + now.month - 1 - number, 12)
    for day in (now.day, 30, 29):
        try:
            return now.replace(year=year, month=month + 1, day=day)
        except ValueError:
            continue
    return now.replace(year=year, month=month + 1, day=28)


def _of_day(words: str, now_ns: int) -> Span | None:
    """Returns a day, a time of a day, or the last time that the clock showed something."""
    match = _OF_DAY.fullmatch(words)
    if match is None:
        return None
    now = _local(now_ns).replace(tzinfo=None)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    day = midnight - _DAY if match[1] == "yesterday" else midnight
    hour, minute, second = match.group(2, 3, 4) if match[1] else match.group(5, 6, 7)
    if hour is None:
        return _span(day, day + _DAY)
    at = day.replace(hour=int(hour), minute=int(minute), second=int(second or 0))
    if match[1] is None and at > now:
        at -= _DAY
    return _span(at, at + timedelta(seconds=60 if second is None else 1))


def _iso(words: str) -> Span | None:
    match = _ISO.fullmatch(words)
    if match is None:
        return None
    at = datetime.fromisoformat(words.replace(" ", "T", 1).replace(" ", "").upper())
    if match[1] is None:
        return _span(at, at + _DAY)
    if match[3] is None:
        return _span(at, at + timedelta(minutes=1))
    if match[4] is None:
        return _span(at, at + timedelta(seconds=1))
    unit = 10 ** max(9 - (len(match[4]) - 1), 3)  # what Python reads ends at a microsecond
    start = nanoseconds(at)
    return Span(start, start + unit - 1)


def _span(start: datetime, after: datetime) -> Span:
    return Span(nanoseconds(start), nanoseconds(after) - 1)


def _local(now_ns: int) -> datetime:
    return (_EPOCH + timedelta(microseconds=now_ns // 1000)).astimezone()


def nanoseconds(at: datetime) -> int:
    """Returns a time as nanoseconds since 1970; one without a zone is local."""
    return (at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1) * 1000
