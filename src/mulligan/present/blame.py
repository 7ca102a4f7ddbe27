"""Blame for a person's screen: one row per line, its maker beside it; and one line explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import cycle
from typing import Any

from mulligan.present.text import PLAIN, Style, ago, count, date, shorten
from mulligan.present.visible import clipped, columns, visible

#: How makers that are no agent are named in the margin.
_MAKERS = {"you": "you", "restore": "restored", "first": "at first", "unsaved": "not saved", "unknown": "unknown"}
_COLOURS = ("cyan", "yellow", "blue", "red")
_TOTALS = {**_MAKERS, "first": "there at first", "unsaved": "not saved yet", "restore": "by a restore"}
_WIDEST = 12


def blame_lines(blamed: Any, *, now: datetime, style: Style = PLAIN, width: int | None = None) -> list[str]:
    """Returns the lines of a file, each run of one maker with the agent, the prompt and the age beside its first line."""
    if not blamed.lines:
        return [f"{visible(blamed.path)} is empty."]
    colours = _colours(blamed.lines)
    several = len({line.origin.session for line in blamed.lines if line.origin.session}) > 1
    rows = [_margin(line.origin, now, several=several) for line in blamed.lines]
    sizes = [max(columns(row[at]) for row in rows) for at in range(3)]
    digits = len(str(blamed.lines[-1].line))
    taken = sum(sizes) + 4 + digits + 5
    shown, before = [*_head(blamed, style, width or 80)], None
    for line, row in zip(blamed.lines, rows, strict=True):
        is_same, before = line.origin == before, line.origin
        margin = "  ".join(cell + " " * (size - columns(cell)) for cell, size in zip(row, sizes, strict=True))
        margin = " " * columns(margin) if is_same else style(colours[_maker(line.origin)], margin)
        text = visible(line.text, keep="\t").expandtabs(4)
        text = clipped(text, max(width - taken, 8)) if width is not None else text
        shown.append(f"{margin} {style('dim', f'{line.line:>{digits}} │')} {text}".rstrip())
    return [*shown, *_foot(blamed, style)]


def _head(blamed: Any, style: Style, width: int) -> list[str]:
    """Returns the file and how many lines each made."""
    totals = Counter(_total(line.origin) for line in blamed.lines)
    parts = [f"{visible(name)} {number:,}" for name, number in totals.most_common()]
    text = f"{visible(blamed.path)}: {count(len(blamed.lines), 'line')} ({', '.join(parts)})"
    return [style("bold", shorten(text, width))]


def _foot(blamed: Any, style: Style) -> list[str]:
    first = next((line.line for line in blamed.lines if line.origin.by == "agent"), 0)
    return [style("dim", f"Why a line: mulligan why {visible(blamed.path)}:{first}")] if first else []


def _margin(origin: Any, now: datetime, *, several: bool) -> tuple[str, str, str]:
    """Returns the maker, the prompt and the age."""
    prompt = f"prompt {origin.prompt}" if origin.prompt else ""
    prompt += f" of {visible(origin.session[:4])}" if prompt and several else ""
    when = ago(datetime.fromisoformat(origin.at), now) if origin.at else ""
    return clipped(visible(_maker(origin)), _WIDEST), prompt, when


def _maker(origin: Any) -> str:
    return origin.agent or "agent" if origin.by == "agent" else _MAKERS[origin.by]


def _total(origin: Any) -> str:
    return _maker(origin) if origin.by == "agent" else _TOTALS[origin.by]


def _colours(lines: Sequence[Any]) -> dict[str, str]:
    """Returns a colour for each maker: one for each agent, green for you, dim for what is old or unknown."""
    agents = dict.fromkeys(_maker(line.origin) for line in lines if line.origin.by == "agent")
    own = {_MAKERS["you"]: "green", _MAKERS["unsaved"]: "bold"}
    return {**dict.fromkeys(_MAKERS.values(), "dim"), **own, **dict(zip(agents, cycle(_COLOURS), strict=False))}


def why_lines(path: str, line: Any, *, now: datetime, style: Style = PLAIN, width: int | None = None) -> list[str]:
    """Returns where one line comes from, in words, and what to type next."""
    origin, room = line.origin, (width or 100) - 14
    shown = [f"{style('bold', f'{visible(path)}:{line.line}')}  {shorten(visible(line.text.strip()), room)}"]
    shown.append(f"{_sentence(origin)}{_when(origin, now)}")
    if origin.by == "agent":
        shown.append(f"  prompt {origin.prompt:<4} {shorten(visible(origin.asked) or '(its text is not kept)', room)}")
        if origin.tool:
            shown.append(f"  tool {origin.tool:<6} {shorten(visible(f'{origin.name}: {origin.command}'), room)}")
        shown.append(f"  session     {visible(origin.session)}")
    elif origin.command or origin.name:
        shown.append(f"  {shorten(visible(origin.name or origin.command), room)}")
    if origin.checkpoint:
        shown += [f"  checkpoint  {style('yellow', origin.checkpoint[:8])}"]
        shown += [style("dim", f"See the whole step: mulligan show {origin.checkpoint[:8]} -p")]
    return shown


def _when(origin: Any, now: datetime) -> str:
    if not origin.at:
        return "."
    at = datetime.fromisoformat(origin.at)
    return f" {ago(at, now)} ({date(at)})."


def _sentence(origin: Any) -> str:
    return {
        "agent": f"{visible(origin.agent)} wrote this line",
        "you": "You wrote this line, between the turns of agents; it was saved",
        "restore": f"An undo or restore ({visible(origin.command)}) brought this line",
        "first": "This line was there before any step that is known; the first checkpoint was saved",
        "unsaved": "This line is not in a checkpoint yet",
        "unknown": "Nothing is kept of the step that wrote this line",
    }[origin.by]
