"""
A report as one HTML file: no script, no request, readable on a phone, in light and dark.

Every text goes through `_text`, which makes it visible and escapes it. A policy in the page's head forbids scripts and
requests, in case a text should find a way out all the same.
"""

from __future__ import annotations

from html import escape
from typing import Any

from mulligan.present.report import MOST, PROVES, restore_words, subject, totals, unsaved_rows, when
from mulligan.present.report_file import DATA
from mulligan.present.visible import visible

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root{color-scheme:light dark;--bg:#fbfaf8;--card:#fff;--ink:#1d1c1a;--soft:#6b6862;--line:#e6e2da;--accent:#2f6f4f;
--accent-bg:#e7f2ec;--warn:#8a5a00;--warn-bg:#fdf1d8;--bad:#a4312a;--code:#f4f1ea}
@media(prefers-color-scheme:dark){:root{--bg:#141413;--card:#1d1c1b;--ink:#ece9e2;--soft:#a09b92;--line:#33312d;
--accent:#7cc4a0;--accent-bg:#1c3328;--warn:#e5b95c;--warn-bg:#38290c;--bad:#f0857c;--code:#262522}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:52rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}
header p,.soft{color:var(--soft);margin:.2rem 0}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .4rem;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2.6rem 0 .8rem}
.brand{font-size:.8rem;letter-spacing:.08em;text-transform:uppercase;color:var(--accent);font-weight:650}
.numbers{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.7rem;margin:1.6rem 0 0;padding:0;list-style:none}
.numbers li{background:var(--card);border:1px solid var(--line);border-radius:.7rem;padding:.8rem .9rem}
.numbers b{display:block;font-size:1.55rem;line-height:1.15;font-variant-numeric:tabular-nums}
.numbers span{color:var(--soft);font-size:.84rem;line-height:1.3;display:block;margin-top:.15rem}
.numbers .odd{border-color:var(--warn);background:var(--warn-bg)}.numbers .odd b{color:var(--warn)}
.card{background:var(--card);border:1px solid var(--line);border-radius:.8rem;margin:.9rem 0;overflow:hidden}
.card>summary,.card>div{padding:.85rem 1rem}
summary{cursor:pointer;list-style:none}summary::-webkit-details-marker{display:none}
summary .ask{display:block;padding-left:1rem;text-indent:-1rem;font-weight:600;overflow-wrap:anywhere}
summary .ask::before{content:"\\203a";display:inline-block;width:1rem;color:var(--soft);transition:transform .15s}
details[open]>summary .ask::before{transform:rotate(90deg) translate(-.05rem,.15rem)}
summary .soft{display:block;padding-left:1rem;font-size:.86rem}
.step{border-top:1px solid var(--line)}
.step p{margin:0;font-size:.92rem;overflow-wrap:anywhere}
.step code{font:.85rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;background:var(--code);border-radius:.3rem;padding:.1rem .3rem}
.paths{list-style:none;margin:.5rem 0 0;padding:0;font:.84rem/1.7 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.paths li{overflow-wrap:anywhere;padding-left:1rem}
.tag{display:inline-block;border-radius:1rem;padding:.02rem .55rem;font:600 .74rem/1.55 system-ui,sans-serif;background:var(--accent-bg);color:var(--accent);margin-left:.35rem;vertical-align:.08em;white-space:nowrap}
.tag.odd{background:var(--warn-bg);color:var(--warn)}
.rows{margin:0;padding:0;list-style:none}.rows li{padding:.55rem 1rem;border-top:1px solid var(--line);font-size:.92rem;overflow-wrap:anywhere}
.rows li:first-child{border-top:0}
.head{font:.82rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere;background:var(--code);border-radius:.4rem;padding:.5rem .7rem}
footer{margin-top:1rem;color:var(--soft);font-size:.9rem}
@media print{body{background:#fff}.card{break-inside:avoid}}
"""


def report_html(document: dict[str, Any]) -> str:
    """Returns a report as a page, with a place for its document."""
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">',
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" content="no-referrer">',
        f"<title>{_text(subject(document))}</title><style>{_STYLE}</style></head>\n<body><main>",
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
