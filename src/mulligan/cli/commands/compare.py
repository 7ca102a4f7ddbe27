"""`mulligan compare`: two forks or checkpoints side by side."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.failure import interrupted_by_signals
from mulligan.forks.compare import ComparedSide, Comparison, compare, counts
from mulligan.present.diff import render as diff_text
from mulligan.present.diff import render_stat
from mulligan.present.text import columns, count
from mulligan.present.visible import visible

USAGE = "compare A B [--run CMD] [--with-ignored] [-p]"
DESCRIPTION = """\
Compare two forks or checkpoints: the files and lines that differ and, with --run, the result of a command in each.

A and B are directories of forks, or checkpoints of this project. A fork is saved first if it changed. The command runs in the
fork itself; for a checkpoint it runs in a scratch fork, and your directory is not touched.
"""
EXAMPLES = (
    ("mulligan compare ../try-1 ../try-2", "what differs between two forks"),
    ('mulligan compare @ ../try-2 --run "pytest -q"', "and whether the tests pass in each"),
)
EXIT_CODES = (0, 1, 10, 11, 90, 91, 130)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("a", metavar="A", help="a fork's directory, or a checkpoint")
    parser.add_argument("b", metavar="B", help="the other one")
    parser.add_argument("--run", metavar="CMD", default="", help="a command, for the shell")
    parser.add_argument("--with-ignored", action="store_true", help="copy what is not saved into scratch forks, too")
    parser.add_argument("-p", "--patch", action="store_true", help="print the patch, too")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Compares, and runs the command."""

    def tell(side: ComparedSide) -> None:
        if context.json:
            return
        if side.outcome is None:
            context.note(f"running in {visible(side.name)} …")
        else:
            context.note(f"  {_result(side)}")

    with interrupted_by_signals():
        found = compare(
            context.saved,
            args.a,
            args.b,
            base=context.base,
            command=args.run,
            with_ignored=args.with_ignored,
            tell=tell,
        )
    return Result((found, args.patch), lambda: {"compare": found.to_dict()})


def _result(side: ComparedSide) -> str:
    outcome = side.outcome
    return f"exit {outcome.code}, {outcome.seconds:.1f} s" if outcome is not None else ""


def _changed(side: ComparedSide) -> str:
    if side.since is None:
        return "a checkpoint"
    lines = counts(side.since)
    return f"{count(lines['files'], 'file')}, +{lines['additions']} −{lines['deletions']} since the fork"  # noqa: RUF001


def render(context: Context, result: Result) -> None:
    """Prints the two sides, what the command said in each, and the files that differ."""
    found: Comparison = result.value[0]
    out, sides = context.out, (found.a, found.b)
    rows = [("", *(visible(side.name) for side in sides)), ("changed", *map(_changed, sides))]
    if found.a.outcome is not None:
        rows.append(("result", *map(_result, sides)))
    out.lines(columns(rows))
    for side in sides:
        if side.outcome is not None and side.outcome.tail:
            out.line(f"last lines in {visible(side.name)}:")
            out.lines([f"  {visible(line)}" for line in side.outcome.tail.splitlines()])
    out.line()
    if found.diff.is_empty:
        out.line("No file differs.")
        return
    out.line(f"from {visible(found.a.name)} to {visible(found.b.name)}:")
    out.stream.write(render_stat(found.diff, colour=out.style.enabled, width=out.width or 80))
    if result.value[1]:
        out.stream.write(diff_text(found.diff, colour=out.style.enabled, width=out.width or 80))
    if kept := [f"mulligan keep {visible(side.name)}" for side in sides if side.fork is not None]:
        out.line(f"Keep one: {' or '.join(kept)}")
