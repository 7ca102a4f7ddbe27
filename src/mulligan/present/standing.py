"""The state of protection and of the store in words, for `mulligan status`, `check` and `doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from mulligan.model.sizes import format_size
from mulligan.present.text import Style, ago, bar, count, some
from mulligan.present.visible import visible

_SHOWN = 0.05  # of the budget: less than one block of the bar


def protected_words(status: dict[str, Any], missed: int) -> str:
    """Returns how many files are protected, and how many paths are not."""
    files = count(status["files"], "file")
    if missed:
        return f"{files}; {count(missed, 'path')} not protected"
    if not status["files"]:
        return "no files"
    return f"{files}: all files are protected" + (" (except .git)" if status["git"] else "")


def history_words(status: dict[str, Any], style: Style, *, ascii_only: bool) -> str:
    """Returns how many checkpoints there are, and how much of the budget they take."""
    tally = {kind: number for kind, number in status["by_kind"].items() if number}
    total = count(sum(tally.values()), "checkpoint")
    used, budget = status["bytes"], status["budget"]
    share = used / budget if budget else 0.0
    colour = "red" if share > 0.9 else "yellow" if share > 0.7 else "green"
    drawn = style(colour, bar(share, ascii_only=ascii_only)) if share >= _SHOWN else ""
    kinds = f" ({', '.join(f'{number:,} {kind}' for kind, number in tally.items())})" if len(tally) > 1 else ""
    return f"{total}{kinds}, {format_size(used)} of {format_size(budget)} {drawn}".rstrip()


def watcher_words(state: dict[str, Any] | None) -> str:
    """Returns whether a watcher runs, and what that means."""
    if state is None:
        return "off: each command scans all files (mulligan watch --background)"
    if not state["active"]:
        return f"on, but each command scans all files: {state['reason']}"
    return f"on ({count(state['directories'], 'directory', 'directories')})"


def push_words(remote: dict[str, Any], now: datetime) -> str:
    """Returns when a remote was last pushed to, what went wrong since, and how many checkpoints it alone has."""
    only = remote.get("only_remote", 0)
    there = f"; the contents of {count(only, 'checkpoint')} are only there (mulligan pull --all)" if only else ""
    return _last_push(remote, now) + there


def _last_push(remote: dict[str, Any], now: datetime) -> str:
    pushed = ago(datetime.fromisoformat(remote["pushed_at"]), now) if remote["pushed_at"] else ""
    if not remote["error"]:
        return f"{remote['name']}: " + (f"pushed {pushed}" if pushed else "nothing was pushed yet")
    failed = ago(datetime.fromisoformat(remote["failed_at"]), now)
    said = f"{remote['name']}: the push failed {failed}: {visible(remote['error'])}"
    return f"{said} (last pushed {pushed})" if pushed else said


def change_words(status: dict[str, Any]) -> str:
    """Returns what changed since the last checkpoint."""
    changes = status["unsaved"]
    if status["position"] is None:
        return "nothing is saved yet"
    if status["only_directories"]:
        return "only directories or permissions since the last checkpoint"
    if not any(changes.values()) and not status["complete"]:
        return "nothing that could be read; some files could not, see below"
    if not any(changes.values()):
        return "no changes since the last checkpoint"
    said = ", ".join(f"{number:,} {what}" for what, number in changes.items() if number)
    return f"{said} since the last checkpoint; see: mulligan diff"


def problem_lines(problems: Iterable[Any], style: Style) -> list[str]:
    """Returns one line per problem."""
    lines = []
    for problem in problems:
        touched = some([each[:8] for each in problem.checkpoints], 5)
        where = f"  (checkpoints: {touched})" if touched else ""
        lines.append(f"{style('red', problem.kind)}  {visible(problem.subject)}: {visible(problem.detail)}{where}")
    return lines
