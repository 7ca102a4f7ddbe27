"""`mulligan status`: scope, budget, size, and anything unprotected."""

from __future__ import annotations

import os

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.model.checkpoint import INCOMPLETE, NotCaptured
from mulligan.model.light import datetime
from mulligan.model.sizes import format_size
from mulligan.model.typed import TYPE_CHECKING, Any
from mulligan.present.text import Style, ago, bar, columns, count
from mulligan.present.timeline import not_captured_lines
from mulligan.present.visible import visible

if TYPE_CHECKING:
    import argparse

USAGE = "status"
DESCRIPTION = """\
Show what is protected: the workspace and its store, how much of the budget is used, what changed since the position,
and every path that is not captured, with the reason.
"""
EXAMPLES = (
    ("mulligan status", "at a glance"),
    ("mulligan --json status", "for a prompt or a dashboard"),
)
EXIT_CODES = (0, 1, 90)
PATHS = ""
MOST = 10


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments: none."""


def run(context: Context, _args: argparse.Namespace) -> Result:
    """Looks."""
    status = context.workspace.status()
    status["warnings"] += _narrow(context)
    return Result(status, lambda: status)


def render(context: Context, result: Result) -> None:
    """Prints the facts in two columns, then what is unprotected."""
    status, style, at = result.value, context.out.style, context.standpoint
    rows = [
        ("workspace", visible(status["workspace"]) + (f" (you are in {visible(at)})" if at else "")),
        ("store", visible(status["store"])),
        (
            "scope",
            f"{count(status['files'], 'file')} captured, {count(len(status['not_captured']), 'entry', 'entries')} not",
        ),
        ("position", status["position"] or "nothing saved yet"),
        ("checkpoints", _kinds(status["by_kind"])),
        ("size", _size(status["bytes"], status["budget"], style)),
        ("changed", _changes(status["unsaved"])),
        ("watcher", _watcher(status["watcher"])),
    ]
    rows += [("agent", _agent(each, context)) for each in status["agents"]]
    context.out.lines(columns(rows, paint=lambda _row, at, text: style("dim", text) if at == 0 else text))
    _failed(context, status["failures"])
    _unprotected(
        context, [NotCaptured(entry["path"], entry["reason"], entry["detail"]) for entry in status["not_captured"]]
    )
    said = context.settings.warnings
    context.out.lines([style("yellow", f"warning: {visible(text)}") for text in status["warnings"] if text not in said])


def _narrow(context: Context) -> list[str]:
    """Returns a warning where an older history covers a part of the git repository only."""
    from mulligan.settings import unprotected_top

    root, store = context.settings.workspace, context.settings.store
    top = unprotected_top(root, context.environ)
    if not top:
        return []
    said = (
        f"This history covers only {root}, a part of the git repository {top}. To protect all of it: mulligan -C {top} save. "
        f"Commands and agents in {os.path.relpath(root, top)} go on with this history as long as it exists ({store})."
    )
    return [said]


def _agent(heard: dict[str, Any], context: Context) -> str:
    when = ago(datetime.fromisoformat(heard["at"]), context.now())
    return f"{visible(heard['agent'])}, heard of {when} (session {visible(heard['session'][:8])}, prompt {heard['prompt']})"


def _failed(context: Context, failures: dict[str, Any]) -> None:
    last = failures["last"]
    if last is None:
        return
    times = count(failures["count"], "time")
    said = f"protection failed {times}, last at {last.get('at')} ({last.get('agent')}): {last.get('why')}"
    context.out.line(context.out.style("red", visible(said)))
    context.out.line("  what changed meanwhile is in the next checkpoint; begin anew: mulligan doctor")


def _kinds(tally: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in tally.items() if number) or "none"


def _size(used: int, budget: int, style: Style) -> str:
    share = used / budget if budget else 0.0
    colour = "red" if share > 0.9 else "yellow" if share > 0.7 else "green"
    return f"{style(colour, bar(share))} {format_size(used)} of {format_size(budget)}"


def _watcher(state: dict[str, Any] | None) -> str:
    if state is None:
        return "none; every look is at every file (mulligan watch --background)"
    if not state["active"]:
        return f"every look is at every file: {state['reason']}"
    return f"changes in {count(state['directories'], 'directory', 'directories')} are noticed"


def _changes(changes: dict[str, int]) -> str:
    if not any(changes.values()):
        return "nothing since the position"
    return ", ".join(f"{number:,} {what}" for what, number in changes.items() if number) + "; see: mulligan diff"


def _unprotected(context: Context, entries: list[NotCaptured]) -> None:
    out, style = context.out, context.out.style
    missing: list[Any] = [entry for entry in entries if entry.reason in INCOMPLETE]
    policy: list[Any] = [entry for entry in entries if entry.reason not in INCOMPLETE]
    if missing:
        out.line(style("yellow", "unprotected, and should not be:"))
        out.lines(not_captured_lines(missing, most=MOST))
    if policy:
        out.line(style("dim", "not captured by policy:"))
        out.lines(not_captured_lines(policy, most=MOST))
    if not entries:
        out.line(style("green", "everything here is captured"))
