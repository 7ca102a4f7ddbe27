"""
The report of a pipeline: as JSON for machines, as Markdown for a page, as Markdown for a comment on a code review.

Pure functions over results. What agents wrote is shown shortened and inside code, so that it cannot pretend to be ours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mulligan.loop.steps import PipelineStepResult

FORMATS = ("json", "markdown", "github")
_SHOWN = 2000
_MARKS = {"success": "✅", "skipped": "⏭️", "dry_run": "📝"}


def as_dict(name: str, results: Sequence[PipelineStepResult]) -> dict[str, Any]:
    """Returns the JSON form of a whole run."""
    return {
        "pipeline": name,
        "ok": all(result.ok for result in results),
        "cost": sum(result.cost for result in results),
        "duration": sum(result.duration for result in results),
        "steps": [result.to_dict() for result in results],
    }


def report(how: str, name: str, results: Sequence[PipelineStepResult]) -> str:
    """Returns the report in one of the formats."""
    if how == "json":
        return json.dumps(as_dict(name, results), indent=2) + "\n"
    details = _folded if how == "github" else _plain
    head = f"{'✅' if all(result.ok for result in results) else '❌'} " if how == "github" else ""
    lines = [f"## {head}Pipeline {_code(name)}" if how == "github" else f"# Pipeline {_code(name)}", ""]
    lines += ["| step | status | checks | time | cost |", "|---|---|---|---|---|"]
    lines += [_row(result, marks=how == "github") for result in results]
    for result in results:
        if result.error or result.checks or result.output:
            lines += ["", *details(result)]
    return "\n".join(lines) + "\n"


def _row(result: PipelineStepResult, *, marks: bool) -> str:
    mark = f"{_MARKS.get(result.status, '❌') if result.checks_passed else '❌'} " if marks else ""
    passed = sum(check["passed"] for check in result.checks)
    checks = f"{passed} of {len(result.checks)}" if result.checks else "-"
    cost = f"${result.cost:.4f}" if result.cost else "-"
    status = _code(result.status)
    return f"| {_code(result.step_name)} | {mark}{status} | {checks} | {result.duration:.1f} s | {cost} |"


def _plain(result: PipelineStepResult) -> list[str]:
    return [f"### {_code(result.step_name)}", *_details(result)]


def _folded(result: PipelineStepResult) -> list[str]:
    opened = "" if result.ok else " open"
    name = result.step_name.replace("&", "&amp;").replace("<", "&lt;")
    return [f"<details{opened}><summary>{name}</summary>", *_details(result), "", "</details>"]


def _details(result: PipelineStepResult) -> list[str]:
    lines: list[str] = []
    if result.error:
        lines += ["", "Error:", *_block(result.error)]
    for check in result.checks:
        lines += ["", f"Check {_code(check['name'])} {'passed' if check['passed'] else 'failed'}"]
        lines += _block(check["output"]) if check["output"].strip() and not check["passed"] else []
    if result.output.strip():
        lines += ["", "Output:", *_block(result.output)]
    if result.commit:
        lines += ["", f"Commit {_code(result.commit)}"]
    return lines


def _block(text: str) -> list[str]:
    shown = text.strip()[-_SHOWN:]
    fence = "`" * max(3, 1 + _longest_run(shown))
    return [fence + "text", shown, fence]


def _code(text: str) -> str:
    plain = " ".join(text.split()).replace("|", "\\|")
    fence = "`" * (1 + _longest_run(plain))
    space = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{space}{plain}{space}{fence}"


def _longest_run(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
