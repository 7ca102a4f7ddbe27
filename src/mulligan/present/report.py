"""
A report for people: lines for a terminal, and Markdown. HTML is in `report_html`.

Everything that comes from the workspace or from an agent is data: it is made visible, and escaped for where it goes.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from mulligan.present.text import PLAIN, Style, count, date, shorten, some
from mulligan.present.visible import visible

#: What a signature says, and what it cannot say.
PROVES = (
    "A signature proves that the holder of the key signed this report, and that nothing in it was changed since.",
    "It does not prove that the report tells everything: what happened outside of the workspace, in files that are not saved, or while mulligan was off is not in it.",
    "It does not prove when something happened, because times come from the clock of one machine, and not that the history was untouched before it was signed.",
)
#: So many paths of one step are listed; the JSON in the file has all.
MOST = 30


def subject(document: dict[str, Any]) -> str:
    """Returns what a report is about, in a few words."""
    if document["session"]:
        agents = ", ".join(document["agents"]) or "an agent"
        return f"{agents}, session {document['session'][:8]}, in {document['workspace']}"
    return f"everything kept of {document['workspace']}"


def totals(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the numbers of a report, each with its words."""
    sums = document["totals"]
    return [(f"{sums[key]:,}", words) for key, words in _TOTALS.items() if sums[key] or key in _ALWAYS]


_ALWAYS = {"prompts", "commands", "files", "checkpoints"}
_TOTALS = {
    "prompts": "prompts",
    "commands": "commands",
    "failed": "failed, denied or interrupted",
    "files": "files changed",
    "not_named": "changed although no tool named them",
    "restores": "undos and restores",
    "left_alone": "files left alone by them",
    "checkpoints": "checkpoints",
}


def when(text: str | None) -> str:
    """Returns a time of a document as local date and time."""
    return date(datetime.fromisoformat(text)) if text else "-"


def restore_words(row: dict[str, Any]) -> str:
    """Returns one undo or restore in words."""
    what = f' of prompt {row["prompt"]} "{row["text"]}"' if row["prompt"] else ""
    parts = [
        f"{verb} {some(row[kind], 5, of=row[f'{kind}_count'])}"
        for kind, verb in (("restored", "restored"), ("removed", "removed"))
        if row[f"{kind}_count"]
    ]
    left = f"; left alone: {some(row['left_alone'], 5)}" if row["left_alone"] else ""
    return f"{row['verb']}{what}: {', '.join(parts)}{left}"


def step_words(step: dict[str, Any]) -> str:
    """Returns a tool call, or what changed without one, in words."""
    text = f"{step['name']}: {step['text']}" if step["text"] else step["name"]
    return text + (f" ({step['outcome']})" if step["outcome"] not in {"", "done"} else "")


def report_lines(document: dict[str, Any], *, style: Style = PLAIN, width: int | None = None) -> list[str]:
    """Returns a report for a terminal."""
    room = (width or 100) - 4
    lines = [style("bold", f"Report: {visible(subject(document))}"), _period(document)]
    lines += [f"  {number:>6}  {words}" for number, words in totals(document)]
    for prompt in document["prompts"]:
        mark = style("yellow", "  undone") if prompt["undone"] else ""
        number = f"prompt {prompt['prompt']}"
        lines += [
            "",
            f"{style('bold', number)}  {shorten(visible(prompt['text']) or '-', room - 12)}{mark}",
        ]
        lines.append(style("dim", f"  {visible(prompt['agent'])}, {when(prompt['at'])}, {prompt['state']}"))
        for step in prompt["steps"]:
            lines.append(f"  {shorten(visible(step_words(step)), room)}")
            lines += [f"      {_path(change, step, style)}" for change in step["changed"][:MOST]]
            lines += _more(step["changed"], "      ")
    lines += _section(
        "Undos and restores", [f"{when(r['at'])}  {visible(restore_words(r))}" for r in document["restores"]], style
    )
    lines += _section("Not saved", [visible(row) for row in unsaved_rows(document)], style)
    chain = document["chain"]
    return [*lines, "", f"{count(chain['count'], 'checkpoint')}, head of the chain {chain['head'][:16]}…"]


def _period(document: dict[str, Any]) -> str:
    return f"  {when(document['period']['from'])} to {when(document['period']['to'])}"


def _path(change: dict[str, Any], step: dict[str, Any], style: Style) -> str:
    mark = style("yellow", "  no tool named it") if step["tool"] is not None and not change["named"] else ""
    return visible(change["path"]) + mark


def _more(rows: list[Any], indent: str) -> list[str]:
    return [f"{indent}… and {len(rows) - MOST:,} more"] if len(rows) > MOST else []


def _section(title: str, rows: list[str], style: Style) -> list[str]:
    return ["", style("bold", title), *(f"  {row}" for row in rows)] if rows else []


def unsaved_rows(document: dict[str, Any]) -> list[str]:
    """Returns what was not saved, one row per reason, and what is saved sealed."""
    groups: dict[str, list[str]] = {}
    for row in document["not_saved"]:
        groups.setdefault(row["reason"], []).append(row["path"])
    rows = [f"{reason}: {some(paths, MOST)}" for reason, paths in groups.items()]
    sealed = [f"saved sealed, as secrets: {some(document['sealed'], MOST)}"] if document["sealed"] else []
    partial = (
        [f"partial checkpoints: {some([each[:8] for each in document['partial']], MOST)}"]
        if document["partial"]
        else []
    )
    return [*rows, *sealed, *partial]


# -- Markdown -----------------------------------------------------------------------------------

_SPECIAL = str.maketrans({letter: f"\\{letter}" for letter in "\\`*_[]|~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})
#: These act at the beginning of a line only.
_AT_FIRST = re.compile(r"([#+=-]|\d+(?=[.)]))")


def escaped(text: str) -> str:
    """Returns text on one line that Markdown shows as it is."""
    shown = visible(text).strip().translate(_SPECIAL)
    first = _AT_FIRST.match(shown)
    if first is None:
        return shown
    number = len(first[0]) if first[0].isdigit() else 0  # `1.` begins a list by its point
    return f"{shown[:number]}\\{shown[number:]}"


def report_markdown(document: dict[str, Any]) -> str:
    """Returns a report as Markdown."""
    lines = [
        f"# Report: {escaped(subject(document))}",
        "",
        escaped(_period(document).strip()),
        "",
        "| | |",
        "|--:|---|",
    ]
    lines += [f"| {number} | {words} |" for number, words in totals(document)]
    for prompt in document["prompts"]:
        mark = " *(undone)*" if prompt["undone"] else ""
        lines += ["", f"## Prompt {prompt['prompt']}: {escaped(prompt['text']) or '-'}{mark}", ""]
        lines += [f"{escaped(prompt['agent'])}, {escaped(when(prompt['at']))}, {prompt['state']}", ""]
        for step in prompt["steps"]:
            lines.append(f"- {escaped(step_words(step))}")
            lines += [f"  - {_marked(change, step)}" for change in step["changed"][:MOST]]
            lines += _more(step["changed"], "  - ")
    for title, rows in (
        ("Undos and restores", [f"{when(row['at'])}: {restore_words(row)}" for row in document["restores"]]),
        ("Not saved", unsaved_rows(document)),
    ):
        lines += ["", f"## {title}", "", *(f"- {escaped(row)}" for row in rows)] if rows else []
    chain = document["chain"]
    lines += ["", "## Evidence", "", f"{count(chain['count'], 'checkpoint')}; head of the chain: `{chain['head']}`", ""]
    return "\n".join([*lines, *PROVES, ""])


def _marked(change: dict[str, Any], step: dict[str, Any]) -> str:
    unnamed = step["tool"] is not None and not change["named"]
    return escaped(change["path"]) + (" **(no tool named it)**" if unnamed else "")
