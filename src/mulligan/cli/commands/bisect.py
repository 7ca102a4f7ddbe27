"""`mulligan bisect`: find the step that broke it."""

from __future__ import annotations

import argparse

from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.failure import interrupted_by_signals
from mulligan.forks.bisect import Bisecting, Bisection, Progress
from mulligan.present.diff import render as diff_text
from mulligan.present.outcome import named
from mulligan.present.text import count, shorten, some
from mulligan.present.visible import visible

USAGE = "bisect --run CMD [--with-ignored] [GOOD] [BAD]"
DESCRIPTION = """\
Find the step after which a command fails: the checkpoint, the prompt, the tool call and the diff.

Every state is made in a scratch fork; your directory is not touched. Exit code 0 means good, 125 skip, 1 to 127 bad, more stops.
BAD is the project as it is now. GOOD is the oldest checkpoint that led there; if the command fails there too, newer ones are
tried. Interrupted, it goes on with the same command.
"""
EXAMPLES = (
    ('mulligan bisect --run "pytest -q"', "when did the tests break?"),
    ('mulligan bisect --run "make test" @prompt-2', "somewhere after the second prompt"),
    ('mulligan bisect --run "npm test" --with-ignored', "with node_modules in each fork"),
)
EXIT_CODES = (0, 1, 10, 11, 90, 91, 130)
_TEXT = 72


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("good", nargs="?", metavar="GOOD", help="a state where the command passes")
    parser.add_argument("bad", nargs="?", metavar="BAD", help="a state where it fails (default: now)")
    parser.add_argument("--run", metavar="CMD", required=True, help="the command, for the shell")
    parser.add_argument("--with-ignored", action="store_true", help="copy what is not saved into each fork, too")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Searches, and says how far it is."""
    searching = Bisecting(
        context.saved, args.run, with_ignored=args.with_ignored, tell=lambda heard: _tell(context, heard)
    )
    if searching.known:
        context.note(f"Continuing an interrupted search: {count(searching.known, 'result')} known.")
    try:
        with interrupted_by_signals():
            found = searching.run(args.good, args.bad)
    except KeyboardInterrupt:
        context.note("Interrupted. The results so far are kept; the same command goes on.")
        raise
    return Result(found, found.to_dict)


def _tell(context: Context, heard: Progress) -> None:
    attempt = heard.attempt
    if attempt is None or context.json:
        return
    about = shorten(visible(heard.checkpoint.name or heard.checkpoint.description), _TEXT - 30)
    context.note(
        f"run {heard.number:<3} {heard.checkpoint.short_id}  {attempt.verdict:<5} "
        f"exit {attempt.code:<4} {attempt.seconds:6.1f} s  {about}".rstrip()
    )


def render(context: Context, result: Result) -> None:
    """Prints the step, and what it changed."""
    found: Bisection = result.value
    out, origin = context.out, found.origin
    out.line(f"The command fails since {out.style('bold', named(found.bad, context.now()))}.")
    if origin.prompt:
        asked = f' "{shorten(visible(origin.asked), _TEXT)}"' if origin.asked else ""
        out.line(f"  prompt {origin.prompt}{asked}  ({visible(origin.agent)}, session {visible(origin.session[:8])})")
    if origin.tool:
        said = ": ".join(filter(None, (visible(origin.name), shorten(visible(origin.command), _TEXT))))
        out.line(f"  tool {origin.tool}  {said}")
    if not origin.agent:
        out.line(f"  by {visible(origin.by)}")
    if found.skipped:
        out.line(
            f"  {count(len(found.skipped), 'state')} before it could not be tested (exit code 125), so the step may be one of them: "
            + some([each.short_id for each in found.skipped], 5)
        )
    out.line(f"  last good: {named(found.good, context.now())}")
    out.line(f"  {count(found.runs, 'run')} over {count(found.states, 'state')}")
    out.line()
    out.stream.write(diff_text(found.diff, colour=out.style.enabled, width=out.width or 80))
    out.line()
    out.line(f"Undo it and keep what came later: mulligan revert {found.bad.short_id}")
