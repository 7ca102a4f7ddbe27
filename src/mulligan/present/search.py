"""Matches of a search for a person's screen, grouped by where they are."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mulligan.present.text import PLAIN, Style, ago, shorten
from mulligan.present.visible import visible

_HEADS = {
    "prompt": "prompts",
    "command": "commands",
    "checkpoint": "checkpoints",
    "path": "paths",
    "content": "contents",
    "appeared": "appeared and disappeared",
    "disappeared": "appeared and disappeared",
}
#: So many of one kind are shown; the rest is counted.
MOST = 20


def search_lines(found: Any, *, now: datetime, style: Style = PLAIN, width: int | None = None) -> list[str]:
    """Returns the matches of each kind under a heading, newest first."""
    groups: dict[str, list[Any]] = {}
    for match in found.matches:
        groups.setdefault(_HEADS[match.kind], []).append(match)
    lines: list[str] = []
    for head in [head for head in dict.fromkeys(_HEADS.values()) if head in groups]:
        matches = groups[head]
        lines += [*([""] if lines else []), style("bold", head)]
        for match in matches[:MOST]:
            lines += _match(match, now, style, (width or 100) - 2)
        if len(matches) > MOST:
            lines.append(style("dim", f"  … and {len(matches) - MOST:,} more: --json lists all"))
    return [*lines, *([style("dim", f"Not searched: {visible('; '.join(found.left_out))}")] if found.left_out else [])]


def _match(match: Any, now: datetime, style: Style, width: int) -> list[str]:
    origin, text = match.origin, visible(match.text)
    if match.kind == "content":
        return [f"  {shorten(f'{visible(match.path)}:{match.line}: {text}', width)}"]
    if match.kind in {"appeared", "disappeared"}:
        mark = style("green", "+") if match.kind == "appeared" else style("red", "-")
        where = f"{visible(match.path)}:{match.line}: {text}"
        return [f"{mark} {shorten(where, width)}", style("dim", f"    {shorten(_who(origin, now), width - 4)}")]
    origin = origin._replace(asked="") if match.kind == "prompt" else origin  # it stands above
    return [f"  {shorten(text, width)}", style("dim", f"    {shorten(_who(origin, now), width - 4)}")]


def _who(origin: Any, now: datetime) -> str:
    """Returns who it was, for which prompt, when, and the reference that leads there."""
    when = ago(datetime.fromisoformat(origin.at), now)
    if origin.by != "agent":
        makers = {"first": "there at first", "restore": "by a restore", "unknown": "unknown"}
        return f"{makers.get(origin.by, 'you')}, {when}  {origin.checkpoint[:8]}"
    asked = f' "{shorten(visible(origin.asked), 40)}"' if origin.asked else ""
    what = f"tool-{origin.tool}" if origin.tool else f"prompt-{origin.prompt}"
    ref = f"@{visible(origin.session[:8])}/{what}"
    return f"{visible(origin.agent)}, prompt {origin.prompt}{asked}, {when}  {ref}"
