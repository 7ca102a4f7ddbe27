"""`mulligan status`: what is protected, what is not, and how much disk it takes."""

from __future__ import annotations

import argparse
import os
from datetime import datetime
from typing import Any

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.errors import MulliganError, UnknownCheckpoint
from mulligan.model.checkpoint import INCOMPLETE, NotCaptured
from mulligan.present.outcome import not_captured_lines
from mulligan.present.standing import change_words, history_words, protected_words, push_words, watcher_words
from mulligan.present.text import ago, columns, count, moved_words, shorten
from mulligan.present.visible import visible
from mulligan.timeline.stores import moved_from

USAGE = "status [--line]"
DESCRIPTION = """\
Show what is protected: when the project was last saved, what changed since then, how much disk its history takes, and every
path that is not saved, with the reason.

With --line, one short line for a shell prompt or an agent's status line; empty where nothing is saved. It counts changes only
where a watcher runs, and never scans.
"""
EXAMPLES = (
    ("mulligan status", "at a glance"),
    ("mulligan status --line", "for a prompt: `saved 2 min ago, 3 changed`"),
    ("mulligan --json status", "for a dashboard"),
)
EXIT_CODES = (0, 1, 90)
MOST = 10
_NAME = 36  # with the label, the age and the id, as much as fits 80 columns


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("--line", action="store_true", help="print one short line, without a scan")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Scans the project and reads the timeline."""
    if args.line:
        line = _line(context)
        return Result(line, lambda: {"line": line})
    status = context.workspace.status()
    status["warnings"] += [*_narrow(context), *_moved(context)]
    return Result(status, lambda: status)


def render(context: Context, result: Result) -> None:
    """Prints the facts in two columns, then what is not protected."""
    status, out = result.value, context.out
    if isinstance(status, str):
        out.lines([status] if status else [])
        return
    style, at = out.style, context.standpoint
    entries = [NotCaptured(entry["path"], entry["reason"], entry["detail"]) for entry in status["not_captured"]]
    rows = [
        ("project", visible(status["workspace"]) + (f" (you are in {visible(at)})" if at else "")),
        ("last saved", _last_saved(context, status["position"])),
        ("changed", change_words(status)),
        ("protected", protected_words(status, len(entries))),
        ("history", history_words(status, style, ascii_only=not out.draws)),
        ("watcher", watcher_words(status["watcher"])),
    ]
    rows += (
        [("paused", "hooks of agents record nothing here; to go on: mulligan resume")]
        if context.settings.paused
        else []
    )
    rows += [("agent", _agent(each, context)) for each in status["agents"]]
    rows += [("remote", push_words(each, context.now())) for each in status["remotes"]]
    rows.append(("store", visible(status["store"])))
    out.lines(columns(rows, paint=lambda _row, at, text: style("dim", text) if at == 0 else text))
    _failed(context, status["failures"])
    _unprotected(context, entries)
    said = context.settings.warnings
    out.lines([style("yellow", f"warning: {visible(text)}") for text in status["warnings"] if text not in said])


def _line(context: Context) -> str:
    """Returns when the project was saved, and what changed since where a watcher knows; empty where nothing was saved."""
    try:
        if not os.path.isdir(context.settings.store):
            return ""
        workspace = context.workspace
        position = workspace.position()
        if position is None:
            return ""
        said = [f"saved {ago(workspace.get(position).created_at, context.now())}"]
        changed = workspace.changed_paths() if context.is_lent else 0
    except MulliganError as error:
        return f"mulligan: {shorten(visible(error.message), _NAME)}"
    said += [f"{changed:,} changed"] if changed else []
    said += ["paused"] if context.settings.paused else []
    failed = workspace.protection()["failures"]["count"]
    return ", ".join([*said, f"{count(failed, 'step')} not saved"] if failed else said)


def _last_saved(context: Context, position: str | None) -> str:
    if position is None:
        return "never; save now: mulligan save"
    try:
        last = context.workspace.get(position)
    except UnknownCheckpoint:
        return position[:8]  # deleted by another process since
    name = f": '{shorten(visible(last.name), _NAME)}'" if last.name else ""
    return f"{ago(last.created_at, context.now())}{name} ({last.short_id})"


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


def _moved(context: Context) -> list[str]:
    old = moved_from(context.settings)
    return [moved_words(old)] if old else []


def _agent(heard: dict[str, Any], context: Context) -> str:
    when = ago(datetime.fromisoformat(heard["at"]), context.now())
    return f"{visible(heard['agent'])}: last event {when} (session {visible(heard['short'])}, prompt {heard['prompt']})"


def _failed(context: Context, failures: dict[str, Any]) -> None:
    last = failures["last"]
    if last is None:
        return
    times = count(failures["count"], "time")
    said = f"Protection failed {times}, last at {last.get('at')} ({last.get('agent')}): {last.get('why')}"
    context.out.line(context.out.style("red", visible(said)))
    context.out.line("  What changed since then is in the next checkpoint. Reset this message: mulligan doctor")


def _unprotected(context: Context, entries: list[NotCaptured]) -> None:
    out, style = context.out, context.out.style
    missing: list[Any] = [entry for entry in entries if entry.reason in INCOMPLETE]
    policy: list[Any] = [entry for entry in entries if entry.reason not in INCOMPLETE]
    if missing:
        out.line(style("yellow", "NOT PROTECTED:"))
        out.lines(not_captured_lines(missing, most=MOST))
    if policy:
        out.line(style("dim", "not saved:"))
        out.lines(not_captured_lines(policy, most=MOST))
