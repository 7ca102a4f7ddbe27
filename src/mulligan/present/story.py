"""The story of agents' sessions, for a person's screen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mulligan.present.text import PLAIN, Style, ago, shorten, some
from mulligan.present.visible import visible


def story_lines(chapters: Sequence[Any], *, now: datetime, style: Style = PLAIN, width: int | None = None) -> list[str]:
    """Returns a headline per prompt, a line per tool call, and what each changed."""
    lines: list[str] = []
    for chapter in chapters:
        when = ago(datetime.fromisoformat(chapter.at), now)
        where = f" on {visible(chapter.machine)}" if chapter.machine else ""
        asked = shorten(visible(chapter.text) or "-", (width or 100) - 28)
        lines += [
            *([""] if lines else []),
            f"{style('bold', f'prompt {chapter.prompt}')}  {asked}{_mark(chapter, style)}",
            style(
                "dim",
                f"  {visible(chapter.agent)} {visible(chapter.short or chapter.session[:8])}{where}, {when}{_state(chapter)}",
            ),
        ]
        for each in chapter.happened:
            lines += _happening(each, style, width or 100, here=chapter.here)
        if chapter.certain and not any(each.changed for each in chapter.happened):
            lines.append(style("dim", "  no files changed"))
    return lines


def _mark(chapter: Any, style: Style) -> str:
    """Returns whether the turn is undone, or the project is as it left it."""
    if chapter.undone:
        return style("yellow", "  undone")
    inside = any(each.checkpoint == chapter.here for each in chapter.happened)
    return style("cyan", "  @ you are here") if chapter.here and not inside else ""


def _state(chapter: Any) -> str:
    return "" if chapter.ended else ", interrupted" if chapter.interrupted else ", not ended"


def _happening(each: Any, style: Style, width: int, *, here: str) -> list[str]:
    number = f"tool {each.number}" if each.number else ""
    what = f"{visible(each.name)}: {visible(each.text)}" if each.text else visible(each.name)
    mark = "" if each.outcome == "done" else f"  {each.outcome}"
    what = f"{what} (subagent)" if each.subagent else what
    line = f"  {number:<8} {shorten(what, width - 22)}{style('yellow', mark)}"
    if not each.changed:
        return [line]
    paths = some([visible(path) for path in each.changed[:4]], of=len(each.changed))
    at = f"         {style('cyan', '@')} " if here and each.checkpoint == here else " " * 11
    return [line, f"{at}{style('yellow', each.checkpoint[:8])}  {shorten(paths, width - 22)}"]
