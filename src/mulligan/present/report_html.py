"""
A report as one HTML file: no script, no request, readable on a phone, in light and dark.

Every text goes through `_text`, which makes it visible and escapes it. A policy in the page's head forbids scripts and
requests, in case a text should find a way out all the same.
"""

from __future__ import annotations

import pkgutil
from html import escape
from typing import Any

from mulligan.present.report import MOST, PROVES, restore_words, subject, totals, unsaved_rows, when
from mulligan.present.report_file import DATA
from mulligan.present.visible import visible

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def report_html(document: dict[str, Any]) -> str:
    """Returns a report as a page, with a place for its document."""
    style = (pkgutil.get_data("mulligan.present", "report.css") or b"").decode()
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">',
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" content="no-referrer">',
        f"<title>{_text(subject(document))}</title><style>{style}</style></head>\n<body><main>",
        f'<header><span class="brand">mulligan report</span><h1>{_text(subject(document))}</h1>',
        f"<p>{_text(when(document['period']['from']))} to {_text(when(document['period']['to']))}</p></header>",
        f'<ul class="numbers">{"".join(map(_number, totals(document)))}</ul>',
        "<h2>What was asked, and what happened</h2>" if document["prompts"] else "",
        *map(_prompt, document["prompts"]),
        _rows("Files", [_file(row) for row in document["files"]]),
        _rows("Undos and restores", [_restore(row) for row in document["restores"]]),
        _rows("Not saved", [_text(row) for row in unsaved_rows(document)]),
        _evidence(document),
        f"</main>{DATA}</body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _text(text: str) -> str:
    return escape(visible(text), quote=True)


def _number(row: tuple[str, str]) -> str:
    odd = ' class="odd"' if "although" in row[1] or "failed" in row[1] or "left alone" in row[1] else ""
    return f"<li{odd}><b>{row[0]}</b><span>{_text(row[1])}</span></li>"


def _prompt(prompt: dict[str, Any]) -> str:
    tags = ('<span class="tag odd">undone</span>' if prompt["undone"] else "") + (
        f'<span class="tag odd">{_text(prompt["state"])}</span>' if prompt["state"] != "ended" else ""
    )
    about = f"prompt {prompt['prompt']} · {_text(prompt['agent'])} · {_text(when(prompt['at']))}"
    steps = "".join(map(_step, prompt["steps"])) or '<div class="step"><p class="soft">Nothing was done.</p></div>'
    return (
        f'<details class="card" open><summary><span class="ask">{_text(prompt["text"] or "(no text)")}{tags}</span>'
        f'<span class="soft">{about}</span></summary>{steps}</details>'
    )


def _step(step: dict[str, Any]) -> str:
    outcome = step["outcome"] if step["outcome"] not in {"", "done"} else ""
    tag = f'<span class="tag odd">{_text(outcome)}</span>' if outcome else ""
    text = f" <code>{_text(step['text'])}</code>" if step["text"] else ""
    changed = "".join(f"<li>{_text(row['path'])}{_unnamed(step, row)}</li>" for row in step["changed"][:MOST])
    more = len(step["changed"]) - MOST
    changed += f"<li>… and {more:,} more</li>" if more > 0 else ""
    paths = f'<ul class="paths">{changed}</ul>' if changed else ""
    return f'<div class="step"><p>{_text(step["name"])}{text}{tag}</p>{paths}</div>'


def _unnamed(step: dict[str, Any], row: dict[str, Any]) -> str:
    return '<span class="tag odd">no tool named it</span>' if step["tool"] is not None and not row["named"] else ""


def _file(row: dict[str, Any]) -> str:
    tag = "" if row["named"] else '<span class="tag odd">no tool named it</span>'
    times = "once" if row["changes"] == 1 else f"{row['changes']:,} times"
    return f'{_text(row["path"])}{tag}<br><span class="soft">{times}, by {_text(", ".join(row["by"]))}</span>'


def _restore(row: dict[str, Any]) -> str:
    return f'<span class="soft">{_text(when(row["at"]))}</span> {_text(restore_words(row))}'


def _rows(title: str, rows: list[str]) -> str:
    if not rows:
        return ""
    items = "".join(f"<li>{row}</li>" for row in rows[:1_000])
    more = f"<li>… and {len(rows) - 1_000:,} more</li>" if len(rows) > 1_000 else ""
    return f'<h2>{_text(title)}</h2><div class="card"><ul class="rows">{items}{more}</ul></div>'


def _evidence(document: dict[str, Any]) -> str:
    chain = document["chain"]
    about = "".join(f"<p>{_text(sentence)}</p>" for sentence in PROVES)
    return (
        f'<h2>Evidence</h2><p class="soft">{chain["count"]:,} checkpoints, linked by hashes. Head of the chain:</p>'
        f'<p class="head">{_text(chain["head"])}</p><footer>{about}</footer>'
    )
