"""Choosing hunks on the terminal, as `git add -p` does: `restore -p`, `undo -p` and `revert -p`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, NamedTuple

from mulligan.cli.arguments import UsageError
from mulligan.errors import UserError
from mulligan.present.visible import visible

if TYPE_CHECKING:
    from mulligan.cli.context import Context
    from mulligan.model.plan import RestorePlan
    from mulligan.steps.hunk import FileHunks, Hunk

_COLOURS = {"-": "red", "+": "green", "\\": "dim"}
_HELP = (
    "y - take this hunk",
    "n - leave this hunk as it is",
    "a - take this hunk and all later ones of this file",
    "d - leave this hunk and all later ones of this file",
    "q - quit: leave this hunk and all that follow, and go on with those that were taken",
    "v - show the whole hunk",
    "? - show this help",
)
# Lines of the screen that the question and the line above it need.
_MARGIN = 5


def refuse_without_terminal(context: Context, command: str) -> None:
    """Raises UsageError where there is no terminal to ask on."""
    if not context.interactive:
        raise UsageError(
            "-p asks about each hunk, and there is no terminal to ask on.", hint=f"mulligan {command} -- PATH"
        )


def choose_hunks(context: Context, plan: RestorePlan, verb: str) -> list[str]:
    """Asks about each hunk of a plan; returns the ids of those taken, and raises UserError where there is none."""
    found = context.workspace.hunks(plan)
    if not found:
        raise UserError("There is nothing to choose from. Nothing was changed.")
    taken = [hunk.id for hunk in _taken(context, found, verb)]
    if not taken:
        raise UserError("No hunk was chosen; nothing changed.")
    return taken


class _HunkPlace(NamedTuple):
    """A hunk among all of them."""

    hunk: Hunk
    number: int
    total: int


def _taken(context: Context, files: Sequence[FileHunks], verb: str) -> Iterator[Hunk]:
    total, number = sum(len(each.hunks) for each in files), 0
    for each in files:
        context.err.line(context.err.style("bold", f"{each.change} {visible(each.path)}"))
        answer = ""
        for hunk in each.hunks:
            number += 1
            if answer not in {"a", "d"}:
                answer = _ask(context, _HunkPlace(hunk, number, total), verb)
            if answer == "q":
                return
            if answer in {"y", "a"}:
                yield hunk


def _ask(context: Context, place: _HunkPlace, verb: str) -> str:
    """Shows a hunk and returns the answer: one letter."""
    _show(context, place.hunk, get_terminal_size().lines - _MARGIN)
    while True:
        context.quiet()
        question = f"({place.number}/{place.total}) {verb} this hunk [y,n,a,d,q,v,?]? "
        context.err.stream.write(context.err.style("bold", question))
        context.err.stream.flush()
        line = sys.stdin.readline()
        answer = line.strip().lower()[:1] if line else "q"
        if answer in {"y", "n", "a", "d", "q"}:
            return answer
        if answer == "v":
            _show(context, place.hunk, None)
        else:
            context.err.lines(_HELP)


def _show(context: Context, hunk: Hunk, most: int | None) -> None:
    style, out = context.err.style, context.err
    out.line(style("cyan", visible(hunk.header)))
    shown = hunk.lines if most is None or len(hunk.lines) <= most else hunk.lines[: max(most - 1, 1)]
    for line in shown:
        text = f"{line.tag}{visible(line.text)}"
        out.line(style(_COLOURS[line.tag], text) if line.tag in _COLOURS else text)
    if len(shown) < len(hunk.lines):
        out.line(style("dim", f"… {len(hunk.lines) - len(shown)} more lines; v shows all"))
